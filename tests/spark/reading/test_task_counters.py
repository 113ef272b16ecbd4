from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileSystem

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.spark.reading import task_counters
from kafka_remote_client.spark.reading.counter_sums import TaskCounters
from kafka_remote_client.spark.reading.task_counters import CountedJob, load_counters, write_counters
from tests.support.locations import ManualClock

GETS = "remote-fetch-request-total"


def test_what_tasks_left_is_added_up(tmp_path: Path) -> None:
    home = tmp_path / "made" / "for it"
    clock = ManualClock(1000.0)
    write_counters(str(home), "t-0-0-9", 998_500, {GETS: 2}, clock)
    clock.now += 3
    write_counters(str(home), "t-0-9-12", 1_000_200, {GETS: 5}, clock)
    assert load_counters(str(home)) == CountedJob({GETS: 7}, 2, 4.5)
    assert {path.suffix for path in home.iterdir()} == {".json"}


def test_a_split_that_was_read_twice_costs_twice_and_is_one_split(tmp_path: Path) -> None:
    for _ in range(2):
        write_counters(str(tmp_path), "t-0-0-9", 0, {GETS: 2})
    found = load_counters(str(tmp_path))
    assert (found.counters, found.splits) == ({GETS: 4}, 1)


def test_a_file_alone_is_read_in_both_forms(tmp_path: Path) -> None:
    plain = tmp_path / "counters.json"
    plain.write_text(json.dumps({GETS: 3, "remote-fetch-latency-avg": 4.0}))
    assert load_counters(str(plain)) == CountedJob({GETS: 3})
    write_counters(str(tmp_path / "one"), "t-0-0-9", 1_000_000, {GETS: 2}, ManualClock(1001.0))
    (of_task,) = (tmp_path / "one").iterdir()
    assert load_counters(str(of_task)) == CountedJob({GETS: 2}, 1, 1.0)


def test_a_directory_that_cannot_be_written_fails_no_task(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    with caplog.at_level(logging.WARNING):
        write_counters(str(tmp_path / "file"), "t-0-0-9", 0, {})
    assert "the counters of t-0-0-9 cannot be written" in caplog.text


def test_a_url_with_a_secret_is_neither_used_nor_logged(caplog: pytest.LogCaptureFixture) -> None:
    url = "s3://name:hidden@bucket/counters"
    with caplog.at_level(logging.WARNING):
        write_counters(url, "t-0-0-9", 0, {})
    assert "give credentials in the environment" in caplog.text
    assert "hidden" not in caplog.text
    with pytest.raises(ConfigurationError) as raised:
        load_counters(url)
    assert "hidden" not in str(raised.value)


def test_what_holds_no_counters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no counters"):
        load_counters(str(tmp_path))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_counters(str(tmp_path / "nothing"))
    for number, text in enumerate(["{", "[]", json.dumps({"counters": 5}), " " * (1 << 21), '{"counters": {}}']):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        with pytest.raises(ConfigurationError, match="holds"):
            load_counters(str(file))


def test_a_file_without_counters_is_refused_among_good_ones(tmp_path: Path) -> None:
    write_counters(str(tmp_path), "t-0-0-9", 0, {GETS: 2})
    (tmp_path / "other.json").write_text('{"counters": {}}')
    with pytest.raises(ConfigurationError, match="holds JSON that is not the counters of a split"):
        load_counters(str(tmp_path))


def test_one_file_is_in_memory_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        write_counters(str(tmp_path), f"t-0-{number}-{number + 1}", 0, {GETS: 2})
    events: list[str] = []
    read, add = task_counters._read, task_counters.added

    def read_one(files: FileSystem, file: str) -> Mapping[str, Any]:
        events.append("read")
        return read(files, file)

    def add_one(many: Iterable[Mapping[str, Any]]) -> TaskCounters:
        return add(one for one in many if events.append("added") is None)

    monkeypatch.setattr(task_counters, "_read", read_one)
    monkeypatch.setattr(task_counters, "added", add_one)
    assert load_counters(str(tmp_path)).counters == {GETS: 8}
    assert events == ["read", "added"] * 4
