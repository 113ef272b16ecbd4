from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pyarrow as pa
import pytest

from kafka_remote_client.values.dead_letters import append_dead_letters
from tests.support.arrow_reading import record_table


def test_each_line_has_the_record_and_its_parse_error(tmp_path: Path) -> None:
    file = tmp_path / "dead.jsonl"
    table = record_table([(b"k", b"\xff"), (None, b"2"), (b"k3", None)], headers=[("h", b"\x00"), ("n", None)])
    append_dead_letters(file, table, {2: {"key": "no"}, 0: {"value": "not text", "key": "no"}})
    append_dead_letters(file, table, {1: {"value": "no"}})
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["topic"], line["partition"], line["offset"]) for line in lines] == [
        ("orders", 3, 10),
        ("orders", 3, 12),
        ("orders", 3, 11),
    ]
    assert lines[0]["errors"] == {"value": "not text", "key": "no"}
    assert (lines[0]["key"], lines[0]["value"]) == (b64encode(b"k").decode(), b64encode(b"\xff").decode())
    assert lines[0]["headers"] == [["h", b64encode(b"\x00").decode()], ["n", None]]
    assert lines[0]["timestamp"] == "1970-01-01T00:00:01.234000+00:00"
    assert (lines[1]["value"], lines[2]["key"]) == (None, None)


def test_a_table_without_offsets_gives_lines_without_a_place(tmp_path: Path) -> None:
    append_dead_letters(tmp_path / "dead.jsonl", pa.table({"value": [b"a"]}), {0: {"value": "no"}})
    assert json.loads((tmp_path / "dead.jsonl").read_text()) == {"value": "YQ==", "headers": [], "errors": {"value": "no"}}


@pytest.mark.parametrize(
    ("time", "told"),
    [
        (1234, "1970-01-01T00:00:01.234000+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (None, None),
        (1_700_000_000_000_000, 1_700_000_000_000_000),  # a producer that gives microseconds
        (-62_135_596_800_001, -62_135_596_800_001),  # the year 0
    ],
)
@pytest.mark.parametrize("unit", ["ms", "us"])
def test_a_time_that_is_no_date_is_given_in_milliseconds(tmp_path: Path, time: int | None, told: object, unit: str) -> None:
    times = pa.array([time], pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp(unit, "UTC"))
    append_dead_letters(
        tmp_path / "dead.jsonl", pa.table({"value": [b"a"], "timestamp": times, "seen": times}), {0: {"value": "no"}}
    )
    assert json.loads((tmp_path / "dead.jsonl").read_text())["timestamp"] == told


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        append_dead_letters(tmp_path / "missing" / "dead.jsonl", pa.table({"value": [b"a"]}), {0: {"value": "no"}})
