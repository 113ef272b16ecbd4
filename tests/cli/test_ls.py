import itertools
import json
from pathlib import Path

import pytest

from kafka_remote_client.cli.main import run
from tests.support.golden import AIVEN_MODES, golden_aiven, golden_local, read_jsonl


def ls(capsys: pytest.CaptureFixture[str], *arguments: str, root: Path | None = None) -> str:
    store = (root or golden_local()) / "remote"
    with pytest.raises(SystemExit) as stopped:
        run(["ls", "--store", f"file://{store}", *arguments])
    assert stopped.value.code == 0
    return capsys.readouterr().out


def test_lists_every_partition_with_the_brokers_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in ls(capsys, "--output", "json").splitlines()]
    for bounds in read_jsonl(golden_local() / "offsets.jsonl"):
        mine = [
            line
            for line in lines
            if (line["topic"], line["partition"], line["state"]) == (bounds["topic"], bounds["partition"], "live")
        ]
        assert mine[-1]["end_offset"] == bounds["latest_tiered"]["offset"]
        assert {line["topic_id"] for line in mine} == {bounds["topic_id"]}
        for before, after in itertools.pairwise(mine):
            assert before["end_offset"] + 1 == after["start_offset"]


def test_shows_sizes_and_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in ls(capsys, "--output", "json", "epochs", "--partition", "1").splitlines()]
    assert {line["partition"] for line in lines} == {1}
    assert {epoch for line in lines for epoch, _ in line["leader_epochs"]} >= {0, 2}
    assert any(len(line["leader_epochs"]) == 2 for line in lines)
    root = golden_local() / "remote" / "kafka-tiered-storage"
    sizes = {path.name.removesuffix(".log")[21:]: path.stat().st_size for path in root.glob("epochs-1-*/*.log")}
    assert {line["segment_id"]: line["bytes"] for line in lines} == sizes


def test_lists_several_topics_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in ls(capsys, "--output", "json", "txn", "epochs").splitlines()]
    assert [topic for topic, _ in itertools.groupby(lines, lambda line: line["topic"])] == ["epochs", "txn"]


def test_each_topic_has_a_table_with_a_line_for_each_segment(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ls(capsys, "txn", "delrec").split("\n\n")
    for name, table in (("delrec", first), ("txn", second)):
        heading, header, *rows = table.splitlines()
        assert heading.startswith(f"{name} (topic id ")
        assert header.split() == ["partition", "segment", "start", "end", "bytes", "epochs", "state"]
        assert rows
        assert all(row.rstrip().endswith("live") for row in rows)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["delrce"], "found no segments of topic delrce; the store has LocalTieredStorage segments"),
        (["delrec", "delrce"], "found no segments of topic delrce; the store has"),
        (["delrec", "--partition", "9"], "found no segments of topic delrec of partition 9; the store has"),
        (["--layout", "aiven"], "found no segments; the store has LocalTieredStorage segments below kafka-tiered-storage/"),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_an_empty_listing_has_status_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str, output: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(["ls", "--store", f"file://{golden_local()}/remote", "--output", output, *arguments])
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


def test_names_the_missing_objects_of_an_incomplete_segment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = min((golden_local() / "remote" / "kafka-tiered-storage").glob("delrec-0-*/*.log"))
    target = tmp_path / "remote" / "kafka-tiered-storage" / source.parent.name / source.name
    target.parent.mkdir(parents=True)
    target.write_bytes(source.read_bytes())
    (line,) = ls(capsys, "--output", "json", root=tmp_path).splitlines()
    assert "incomplete" in json.loads(line)["state"]
    assert "offset index" in json.loads(line)["state"]
    assert "?" in ls(capsys, root=tmp_path)


@pytest.mark.parametrize("mode", AIVEN_MODES)
def test_lists_segments_of_aivens_plugin_without_a_key(capsys: pytest.CaptureFixture[str], mode: str) -> None:
    root = golden_aiven(mode)
    options = ["--layout", "aiven", *(["--key-prefix", "some-prefix/"] if mode == "aiven-zstd-aes" else [])]
    lines = [json.loads(line) for line in ls(capsys, "--output", "json", *options, root=root).splitlines()]
    assert {line["state"] for line in lines} == {"live"}
    for bounds in read_jsonl(root / "offsets.jsonl"):
        mine = [line for line in lines if (line["topic"], line["partition"]) == (bounds["topic"], bounds["partition"])]
        assert mine[0]["start_offset"] == bounds["earliest"]["offset"]
        assert mine[-1]["end_offset"] == bounds["latest_tiered"]["offset"]
        assert {line["topic_id"] for line in mine} == {bounds["topic_id"]}
        for before, after in itertools.pairwise(mine):
            assert before["end_offset"] + 1 == after["start_offset"]
    logs = {path.stem[21:]: path for path in (root / "remote").rglob("*.log")}
    for line in lines:
        path = logs[line["segment_id"]]
        assert line["stored_bytes"] == path.stat().st_size
        assert line["bytes"] == json.loads(path.with_suffix(".rsm-manifest").read_text())["chunkIndex"]["originalFileSize"]
        assert (line["bytes"] == line["stored_bytes"]) == (mode == "aiven-plain")


@pytest.mark.parametrize("verb", [["ls"], ["dump", "--topic", "txn"], ["verify"]], ids=["ls", "dump", "verify"])
def test_an_unknown_store_option_is_refused(capsys: pytest.CaptureFixture[str], verb: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run([*verb, "--store", golden_local().as_uri(), "--store-option", "s3.regoin=x"])
    assert ended.value.code == 2
    assert "of the store: s3.regoin" in capsys.readouterr().err
