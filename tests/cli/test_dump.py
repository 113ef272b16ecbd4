"""``kafka-remote dump`` against what a real consumer read from the same tier."""

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.cli.main import run
from tests.support.golden import full_golden, golden_local, read_jsonl

FIRST_UNDECIDED = {"txn": 2455}


def dump(capsys: pytest.CaptureFixture[str], root: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    with pytest.raises(SystemExit) as stopped:
        run(
            ["dump", "--store", f"file://{root / 'remote'}", "--layout", "local-tiered-storage", "--output", "json", *arguments]
        )
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), [json.loads(line) for line in printed.out.splitlines()], printed.err


def expected(root: Path, topic: str, partition: int, isolation: str, first: int, end: int) -> list[dict[str, Any]]:
    path = root / "expected" / f"{topic}-{partition}.{isolation}.jsonl.gz"
    if not path.exists():
        path = root / "expected" / f"{topic}-{partition}.read_uncommitted.jsonl.gz"
    lines = [line for line in read_jsonl(path) if first <= line["offset"] < end]
    return [{"topic": topic, "partition": partition, **line} for line in lines]


def by_hash(record: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Long values are compared by hash, as the expected file has them."""
    if "value_sha256" not in like:
        return record
    value = base64.b64decode(record["value"])
    hashed = {name: content for name, content in record.items() if name != "value"}
    return {**hashed, "value_sha256": hashlib.sha256(value).hexdigest(), "value_len": len(value)}


def partitions(root: Path) -> list[dict[str, Any]]:
    return list(read_jsonl(root / "offsets.jsonl"))


def assert_equals_the_real_consumer(
    capsys: pytest.CaptureFixture[str], root: Path, bounds: dict[str, Any], isolation: str
) -> None:
    topic, partition = bounds["topic"], bounds["partition"]
    first, end = bounds["earliest"]["offset"], bounds["latest_tiered"]["offset"] + 1
    if isolation == "read_committed":
        end = min(end, FIRST_UNDECIDED.get(topic, end))
    status, records, remarks = dump(
        capsys, root, "--topic", topic, "--partition", str(partition), "--start", str(first), "--isolation-level", isolation
    )
    lines = expected(root, topic, partition, isolation, first, end)
    assert status == 0
    assert len(records) == len(lines) > 0
    for record, line in zip(records, lines, strict=True):
        assert by_hash(record, line) == line
    assert ("not decided" in remarks) == (topic in FIRST_UNDECIDED and isolation == "read_committed")


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("bounds", partitions(golden_local()), ids=lambda bounds: f"{bounds['topic']}-{bounds['partition']}")
def test_prints_what_a_real_consumer_read(capsys: pytest.CaptureFixture[str], bounds: dict[str, Any], isolation: str) -> None:
    assert_equals_the_real_consumer(capsys, golden_local(), bounds, isolation)


@pytest.mark.skipif(full_golden() is None, reason="the full golden set is not beside the checkout")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_prints_what_a_real_consumer_read_of_the_full_set(capsys: pytest.CaptureFixture[str], isolation: str) -> None:
    beside = full_golden()
    assert beside is not None
    for bounds in partitions(beside / "local"):
        assert_equals_the_real_consumer(capsys, beside / "local", bounds, isolation)


def test_committed_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, remarks = dump(capsys, golden_local(), "--topic", "txn")
    assert records[-1]["offset"] < FIRST_UNDECIDED["txn"]
    assert "stops before offset 2455" in remarks


def test_end_is_exclusive_and_start_may_lie_in_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, _ = dump(capsys, golden_local(), "--topic", "codec-lz4-java", "--start", "1234", "--end", "1300")
    assert [record["offset"] for record in records] == list(range(1234, 1300))


def test_partitions_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, _ = dump(capsys, golden_local(), "--topic", "epochs")
    numbers = [record["partition"] for record in records]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1}


def test_a_start_below_the_tier_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    status, records, remarks = dump(capsys, golden_local(), "--topic", "delrec", "--start", "0")
    assert status == 0
    assert f"the tier begins at offset {records[0]['offset']}" in remarks


def test_a_start_above_the_tier_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert dump(capsys, golden_local(), "--topic", "delrec", "--start", "1000000") == (0, [], "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topic", "nothing"], "the store holds no nothing"),
        (["--topic", "epochs", "--partition", "7"], "the store holds no epochs-7"),
        (["--topic", "epochs", "--topic-id", "short"], "a Kafka Uuid has 22 characters"),
        (["--topic", "epochs", "--layout", "other"], "there is no layout 'other'"),
        (["--topic", "epochs", "--output", "text"], "records are printed as json"),
    ],
)
def test_wrong_use_is_told_with_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    status, records, remarks = dump(capsys, golden_local(), *arguments)
    assert (status, records) == (2, [])
    assert message in remarks


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the small topics of the tier, to be changed."""
    root = tmp_path / "remote" / "kafka-tiered-storage"
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").iterdir():
        if directory.name.startswith(("delrec-", "logappend-")):
            shutil.copytree(directory, root / directory.name)
    return tmp_path


def test_one_name_of_several_topics_needs_an_id(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    root = copied / "remote" / "kafka-tiered-storage"
    original = next(root.glob("delrec-0-*"))
    other_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    shutil.copytree(original, root / f"delrec-0-{other_id}")
    status, records, remarks = dump(capsys, copied, "--topic", "delrec")
    assert (status, records) == (2, [])
    assert other_id in remarks
    assert original.name[-22:] in remarks
    status, records, _ = dump(capsys, copied, "--topic", "delrec", "--topic-id", other_id)
    assert status == 0
    assert records


def test_damage_ends_the_dump_with_status_1_and_the_offset(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    segment = sorted((copied / "remote").glob("*/logappend-0-*/*.log"))[1]
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0x10
    segment.chmod(0o644)
    segment.write_bytes(damaged)
    status, records, remarks = dump(capsys, copied, "--topic", "logappend")
    assert status == 1
    assert f"cannot be read on from offset {records[-1]['offset'] + 1}" in remarks
    assert "corrupt" in remarks
