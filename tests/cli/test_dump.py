"""``kafka-remote dump`` prints the records that a real consumer read from the same tier."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client.cli.main import run
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.tier_listing import TierListing
from tests.support.aiven import AivenWriter
from tests.support.golden import AIVEN_MODES, full_golden, golden_aiven, golden_local, read_jsonl

FIRST_UNDECIDED = {"txn": 2455}


LOCAL = ("--layout", "local-tiered-storage")


def aiven(mode: str) -> tuple[str, ...]:
    """Returns the options of a golden tier in the layout of Aiven's plugin."""
    if mode != "aiven-zstd-aes":
        return ("--layout", "aiven")
    key = golden_aiven(mode) / "keys" / "key1.private.der"
    return ("--layout", "aiven", "--key-prefix", "some-prefix/", "--encryption-key", f"key1={key}")


def dump(
    capsys: pytest.CaptureFixture[str], root: Path, *arguments: str, layout: Sequence[str] = LOCAL
) -> tuple[int, list[dict[str, Any]], str]:
    with pytest.raises(SystemExit) as stopped:
        run(["dump", "--store", f"file://{root / 'remote'}", *layout, "--output", "json", *arguments])
    printed = capsys.readouterr()
    return int(stopped.value.code or 0), [json.loads(line) for line in printed.out.splitlines()], printed.err


def expected(root: Path, topic: str, partition: int, isolation: str, first: int, end: int) -> list[dict[str, Any]]:
    path = root / "expected" / f"{topic}-{partition}.{isolation}.jsonl.gz"
    if not path.exists():
        path = root / "expected" / f"{topic}-{partition}.read_uncommitted.jsonl.gz"
    lines = [line for line in read_jsonl(path) if first <= line["offset"] < end]
    return [{"topic": topic, "partition": partition, **line} for line in lines]


def by_hash(record: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """Replaces long values by their hash, as in the expected file."""
    if "value_sha256" not in like:
        return record
    value = base64.b64decode(record["value"])
    hashed = {name: content for name, content in record.items() if name != "value"}
    return {**hashed, "value_sha256": hashlib.sha256(value).hexdigest(), "value_len": len(value)}


def partitions(root: Path) -> list[dict[str, Any]]:
    return list(read_jsonl(root / "offsets.jsonl"))


def assert_equals_the_real_consumer(
    capsys: pytest.CaptureFixture[str], root: Path, bounds: dict[str, Any], isolation: str, layout: Sequence[str] = LOCAL
) -> None:
    topic, partition = bounds["topic"], bounds["partition"]
    first, end = bounds["earliest"]["offset"], bounds["latest_tiered"]["offset"] + 1
    if isolation == "read_committed":
        end = min(end, FIRST_UNDECIDED.get(topic, end))
    where = [topic, "--partition", str(partition), "--start", str(first), "--isolation-level", isolation]
    status, records, remarks = dump(capsys, root, *where, layout=layout)
    lines = expected(root, topic, partition, isolation, first, end)
    assert status == 0
    assert len(records) == len(lines) > 0
    for record, line in zip(records, lines, strict=True):
        assert by_hash(record, line) == line
    assert ("no commit or abort marker" in remarks) == (topic in FIRST_UNDECIDED and isolation == "read_committed")


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("bounds", partitions(golden_local()), ids=lambda bounds: f"{bounds['topic']}-{bounds['partition']}")
def test_prints_the_records_of_a_real_consumer(
    capsys: pytest.CaptureFixture[str], bounds: dict[str, Any], isolation: str
) -> None:
    assert_equals_the_real_consumer(capsys, golden_local(), bounds, isolation)


@pytest.mark.skipif(full_golden() is None, reason="the full golden set is not beside the checkout")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_prints_the_records_of_a_real_consumer_for_the_full_set(capsys: pytest.CaptureFixture[str], isolation: str) -> None:
    beside = full_golden()
    assert beside is not None
    for bounds in partitions(beside / "local"):
        assert_equals_the_real_consumer(capsys, beside / "local", bounds, isolation)


AIVEN_PARTITIONS = [(mode, bounds) for mode in AIVEN_MODES for bounds in partitions(golden_aiven(mode))]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize(
    ("mode", "bounds"), AIVEN_PARTITIONS, ids=[f"{mode}-{b['topic']}-{b['partition']}" for mode, b in AIVEN_PARTITIONS]
)
def test_prints_the_records_of_a_real_consumer_from_aivens_plugin(
    capsys: pytest.CaptureFixture[str], mode: str, bounds: dict[str, Any], isolation: str
) -> None:
    assert_equals_the_real_consumer(capsys, golden_aiven(mode), bounds, isolation, aiven(mode))


@pytest.mark.skipif(full_golden() is None, reason="the full golden set is not beside the checkout")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_prints_the_records_of_the_full_set_of_aivens_plugin(
    capsys: pytest.CaptureFixture[str], mode: str, isolation: str
) -> None:
    beside = full_golden()
    assert beside is not None
    for bounds in partitions(beside / mode):
        assert_equals_the_real_consumer(capsys, beside / mode, bounds, isolation, aiven(mode))


def test_segments_of_one_partition_may_have_different_formats(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = DirectoryStore(golden_local() / "remote")
    listing = TierListing(store, LocalTieredStorageLayout(), "epochs")
    tip = listing.partitions("epochs")[0]
    ways = [(False, False), (True, False), (False, True), (True, True)]
    segments = listing.cache(tip).list_all_remote_log_segments()
    assert len(segments) >= len(ways)
    for number, segment in enumerate(segments):
        compressed, encrypted = ways[number % len(ways)]
        writer = AivenWriter("some-prefix/", 1000 + number, compressed, encrypted)
        for key, data in writer.objects(store, segment).items():
            path = tmp_path / "remote" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    _, wanted, _ = dump(capsys, golden_local(), "epochs", "--partition", "0")
    status, records, _ = dump(capsys, tmp_path, "epochs", layout=aiven("aiven-zstd-aes"))
    assert (status, records) == (0, wanted)


_ELSEWHERE = "found no segments of txn; the store has Aiven manifests below some-prefix/"
_WITH_PREFIX = ("--layout", "aiven", "--key-prefix", "some-prefix/")


@pytest.mark.parametrize(
    ("layout", "status", "message"),
    [
        (
            _WITH_PREFIX,
            1,
            "data-key: a segment is encrypted for key 'key1', whose private key is not configured; known keys: none",
        ),
        ((*_WITH_PREFIX, "--encryption-key", "key1=PUBLIC"), 2, "'key1' is not an unencrypted RSA private key"),
        ((*_WITH_PREFIX, "--encryption-key", "key1=PRIVATE", "--encryption-key", "key1=PRIVATE"), 2, "key1 is given twice"),
        ((*_WITH_PREFIX, "--encryption-key", "key1=/no/such/file"), 2, "'key1' cannot be read"),
        ((*_WITH_PREFIX, "--encryption-key", "PRIVATE"), 2, "must be KEYID=PRIVATE_KEY_FILE"),
        (
            ("--layout", "aiven", "--key-prefix", "other/"),
            2,
            "found no segments of txn; the store has Aiven manifests below some-prefix/",
        ),
        (("--layout", "aiven"), 2, "found no segments of txn; the store has Aiven manifests below some-prefix/"),
        ((*LOCAL, "--key-prefix", "some-prefix/"), 2, "supports no key prefix and no encryption keys; remove them"),
    ],
)
def test_a_missing_object_or_key_is_reported(
    capsys: pytest.CaptureFixture[str], layout: tuple[str, ...], status: int, message: str
) -> None:
    keys = golden_aiven("aiven-zstd-aes") / "keys"
    named = {"PUBLIC": str(keys / "key1.public.der"), "PRIVATE": str(keys / "key1.private.der")}
    options = [option.replace("PUBLIC", named["PUBLIC"]).replace("PRIVATE", named["PRIVATE"]) for option in layout]
    if layout[-1] == "PRIVATE":
        options[-1] = named["PRIVATE"].replace("=", "")
    found = dump(capsys, golden_aiven("aiven-zstd-aes"), "txn", layout=options)
    assert found[:2] == (status, [])
    assert message in found[2]


def test_a_missing_package_is_named_with_the_pip_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "Crypto"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Crypto", None)
    status, records, remarks = dump(capsys, golden_aiven("aiven-zstd-aes"), "txn", layout=aiven("aiven-zstd-aes"))
    assert (status, records) == (2, [])
    assert "pip install 'kafka-remote-client[aiven]'" in remarks
    status, _, _ = dump(capsys, golden_aiven("aiven-zstd"), "txn", layout=aiven("aiven-zstd"))
    assert status == 0


def _damage(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.chmod(0o644)
    path.write_bytes(change(path.read_bytes()))


def _flip_last(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def _flip_first(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def _swap_first_chunks(data: bytes) -> bytes:
    return data[16384:32768] + data[:16384] + data[32768:]


@pytest.mark.parametrize(
    ("mode", "suffix", "change"),
    [
        ("aiven-zstd-aes", ".log", _flip_last),
        ("aiven-zstd", ".log", _flip_last),
        ("aiven-plain", ".log", _swap_first_chunks),
        ("aiven-zstd-aes", ".indexes", _flip_first),
        ("aiven-zstd-aes", ".rsm-manifest", _flip_last),
        ("aiven-zstd", ".indexes", None),
        ("aiven-zstd", ".rsm-manifest", None),
    ],
)
def test_a_damaged_segment_gives_no_wrong_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, mode: str, suffix: str, change: Callable[[bytes], bytes] | None
) -> None:
    shutil.copytree(golden_aiven(mode) / "remote", tmp_path / "remote")
    topic = next((tmp_path / "remote").rglob("epochs-*"))
    _, segment, following, *_ = sorted((topic / "0").glob(f"*{suffix}"))
    first, end = int(segment.name[:20]), int(following.name[:20])
    if change is None:
        segment.unlink()
    else:
        _damage(segment, change)
    status, records, remarks = dump(capsys, tmp_path, "epochs", "--partition", "0", layout=aiven(mode))
    offsets = [record["offset"] for record in records]
    assert status == 1
    assert f"cannot be read further than offset {len(offsets)}" in remarks
    assert offsets == list(range(len(offsets)))
    assert first <= len(offsets) < end


def test_committed_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, remarks = dump(capsys, golden_local(), "txn")
    assert records[-1]["offset"] < FIRST_UNDECIDED["txn"]
    assert "stops before offset 2455" in remarks


def test_end_is_exclusive_and_start_may_be_inside_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, _ = dump(capsys, golden_local(), "codec-lz4-java", "--start", "1234", "--end", "1300")
    assert [record["offset"] for record in records] == list(range(1234, 1300))


def test_partitions_come_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    _, records, _ = dump(capsys, golden_local(), "epochs")
    numbers = [record["partition"] for record in records]
    assert numbers == sorted(numbers)
    assert set(numbers) == {0, 1}


def test_a_start_below_the_tier_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    status, records, remarks = dump(capsys, golden_local(), "delrec", "--start", "0")
    assert status == 0
    assert f"the tier begins at offset {records[0]['offset']}" in remarks


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        (("--start", "1000000"), "the tier has no offsets of delrec at or above 1000000"),
        (("--end", "0"), "the tier has no offsets of delrec below 0"),
        (("--start", "7", "--end", "7"), "the interval is empty: --start 7 must be below --end 7"),
        (("--start", "8", "--end", "7"), "the interval is empty: --start 8 must be below --end 7"),
    ],
)
def test_an_interval_without_offsets_has_status_2(
    capsys: pytest.CaptureFixture[str], interval: tuple[str, ...], said: str
) -> None:
    status, records, remarks = dump(capsys, golden_local(), "delrec", *interval)
    assert (status, records) == (2, [])
    assert said in remarks


def test_an_end_beyond_the_tier_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    status, records, remarks = dump(capsys, golden_local(), "delrec", "--end", "1000000")
    assert status == 0
    assert f"delrec-0: the tier ends before offset {records[-1]['offset'] + 1}" in remarks


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "found no segments of nothing; the store has LocalTieredStorage segments"),
        (["epochs", "--partition", "7"], "found no segments of epochs-7; the store has"),
        (["epochs", "--topic-id", "short"], "a Kafka Uuid has 22 characters"),
        (["epochs", "--layout", "other"], "unknown layout 'other'"),
        (["epochs", "--since", "2026-01-02", "--until", "2026-01-01"], "the interval is empty: --since must be before --until"),
        (["epochs", "--since", "noon"], "--since is not a time in ISO 8601: 'noon'"),
        (["epochs", "--count", "0"], "--count"),
        ([], "name at least one topic"),
        (["epochs", "txn", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAQ"], "--topic-id needs exactly one topic"),
    ],
)
def test_invalid_arguments_exit_with_status_2(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    status, records, remarks = dump(capsys, golden_local(), *arguments)
    assert (status, records) == (2, [])
    assert message in remarks


@pytest.mark.parametrize("more", [(), ("--count", "1")], ids=["all", "one-record"])
def test_nothing_is_printed_if_a_topic_is_missing(capsys: pytest.CaptureFixture[str], more: tuple[str, ...]) -> None:
    status, records, remarks = dump(capsys, golden_local(), "epochs", "missing", *more)
    assert (status, records) == (2, [])
    assert "found no segments of missing" in remarks


def test_an_ignored_segment_is_named_once(copied: Path) -> None:
    original = next((copied / "remote" / "kafka-tiered-storage").glob("delrec-0-*"))
    (first, *_) = sorted(path for path in original.iterdir() if path.name.endswith(".log"))
    name = first.name.removesuffix(".log")
    for path in original.glob(f"{name}.*"):
        shutil.copy(path, original / path.name.replace(name[21:], "AAAAAAAAAAAAAAAAAAAAAQ"))
    command = [sys.executable, "-m", "kafka_remote_client", "dump", "delrec", "--store", f"file://{copied / 'remote'}", *LOCAL]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("/AAAAAAAAAAAAAAAAAAAAAQ") + ended.stderr.count(f"/{name[21:]}") == 1, ended.stderr


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the small topics of the tier, which a test may change."""
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
    status, records, remarks = dump(capsys, copied, "delrec")
    assert (status, records) == (2, [])
    assert other_id in remarks
    assert original.name[-22:] in remarks
    status, records, _ = dump(capsys, copied, "delrec", "--topic-id", other_id)
    assert status == 0
    assert records


def test_damage_ends_the_dump_with_status_1_and_the_offset(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    segment = sorted((copied / "remote").glob("*/logappend-0-*/*.log"))[1]
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 0x10
    segment.chmod(0o644)
    segment.write_bytes(damaged)
    status, records, remarks = dump(capsys, copied, "logappend")
    assert status == 1
    assert f"cannot be read further than offset {records[-1]['offset'] + 1}" in remarks
    assert "corrupt" in remarks


def _cut(copied: Path, number: int) -> list[int]:
    """Cuts a log that no longer fits its indexes. Returns the first offsets of all segments of the partition."""
    segments = sorted((copied / "remote").glob("*/logappend-0-*/*.log"))
    _damage(segments[number], lambda data: data[:-1])
    return [int(segment.name[:20]) for segment in segments]


def test_a_damaged_last_segment_has_status_1_after_the_records(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    end = _cut(copied, -1)[-1]
    status, records, remarks = dump(capsys, copied, "logappend")
    assert (status, records[-1]["offset"]) == (1, end - 1)
    assert f"logappend-0 cannot be read further than offset {end}: segment " in remarks
    assert f"--end {end} leaves it out" in remarks
    assert dump(capsys, copied, "logappend", "--end", str(end))[:2] == (0, records)
    assert dump(capsys, copied, "logappend", "--count", "7")[:2] == (0, records[:7])
    assert dump(capsys, copied, "logappend", "--start", str(end + 1))[:2] == (1, [])


def test_a_damaged_first_segment_has_status_1_and_no_records(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    _, second, *_ = _cut(copied, 0)
    status, records, remarks = dump(capsys, copied, "logappend")
    assert (status, records) == (1, [])
    assert "logappend-0 cannot be read at offset 0: segment " in remarks
    assert f"--start {second} leaves it out" in remarks
    status, records, _ = dump(capsys, copied, "logappend", "--start", str(second))
    assert (status, records[0]["offset"]) == (0, second)


def test_a_partition_with_damaged_segments_only_has_status_1(capsys: pytest.CaptureFixture[str], copied: Path) -> None:
    for segment in (copied / "remote").glob("*/logappend-0-*/*.log"):
        _damage(segment, lambda data: data[:-1])
    status, records, remarks = dump(capsys, copied, "logappend")
    assert (status, records) == (1, [])
    assert "logappend-0 cannot be read at offset 0: segment " in remarks
    assert "leaves it out" not in remarks


def test_prints_several_topics_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--partition", "0", "--start", "5", "--end", "7")
    status, records, _ = dump(capsys, golden_local(), "logappend", "epochs", *where)
    assert status == 0
    assert [record["topic"] for record in records] == ["logappend"] * 2 + ["epochs"] * 2


def test_a_topic_that_is_named_twice_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--partition", "0", "--start", "5", "--end", "7")
    _, records, _ = dump(capsys, golden_local(), "logappend", "epochs", "logappend", *where)
    assert [record["topic"] for record in records] == ["logappend"] * 2 + ["epochs"] * 2
