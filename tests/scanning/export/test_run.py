"""Exactly once: after a crash at any operation and a rerun, an export has each record of the golden consumer once."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Never
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.fallback import TierUnavailableError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.run import ExportProgress
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.predicate import column
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.counted_files import counted_files
from tests.support.golden import golden_local
from tests.support.scanned import Row

Visible = Callable[[Path], list[Row]]


class SimulatedCrash(BaseException):
    """Ends the run like a killed process: no handler of the product catches it."""


def crash_at(number: int, counted: list[str]) -> Callable[[str, str], None]:
    """Makes every operation from ``number`` on fail, as after the death of the process."""

    def before(operation: str, path: str) -> None:
        counted.append(operation)
        if len(counted) >= number:
            raise SimulatedCrash

    return before


@pytest.fixture
def small(orders: TableScan) -> TableScan:
    """A few splits that are read sequentially, so that the order of operations is fixed."""
    cut = attrs.evolve(orders.scan, topics=("epochs",), split_bytes=40_000)
    return attrs.evolve(orders, scan=cut, threads=1)


@pytest.fixture
def small_rows(committed: list[Row]) -> list[Row]:
    return [row for row in committed if row["topic"] == "epochs"]


def test_an_export_equals_the_consumers_records(
    orders: TableScan, committed: list[Row], tmp_path: Path, visible: Visible
) -> None:
    told: list[ExportProgress] = []
    result = orders.to_parquet(tmp_path, progress=told.append)
    assert visible(tmp_path) == committed
    assert result.rows == len(committed) == told[-1].rows
    assert result.ends == orders.plan().ends
    assert told[-1].splits == told[-1].all_splits == result.splits == len(orders.plan().splits)


# With coverage it takes twice the time; "local" reaches the same lines.
@pytest.mark.parametrize("kind", ["local", "objects"])
def test_export_is_exactly_once_after_a_crash_at_any_step(
    small: TableScan, small_rows: list[Row], tmp_path: Path, kind: str, visible: Visible
) -> None:
    counted: list[str] = []
    whole = small.to_parquet(tmp_path / "whole", filesystem=counted_files(crash_at(10**9, counted), kind))
    assert len(counted) > 50
    names = {file.path for file in whole.files}
    places = {(row["partition"], row["offset"]) for row in small_rows}
    step = max(1, len(counted) // 9)
    for number in range(1, len(counted) + 1, step):
        folder, seen = tmp_path / f"cut-{number}", list[str]()
        with pytest.raises(SimulatedCrash):
            small.to_parquet(folder, filesystem=counted_files(crash_at(number, seen), kind))
        if folder.exists():
            there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
            assert there <= names
            keys = [(row["partition"], row["offset"]) for row in visible(folder)] if there else []
            assert len(set(keys)) == len(keys)
            assert set(keys) <= places
        result = small.to_parquet(folder, filesystem=counted_files(crash_at(10**9, []), kind))
        assert visible(folder) == small_rows
        assert {file.path for file in result.files} == names
        assert list(folder.glob("_staging/*")) == []
        shutil.rmtree(folder)


def test_written_splits_are_not_read_again(
    small: TableScan, small_rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: Visible
) -> None:
    splits = small.plan().splits
    read: list[str] = []
    real = OpenScan.record_batches

    def record_batches(self: OpenScan, split: object) -> object:
        read.append(split.id)
        if len(read) == 3:
            raise TierUnavailableError("the store is gone")
        return real(self, split)

    monkeypatch.setattr(OpenScan, "record_batches", record_batches)
    with pytest.raises(TierUnavailableError, match="the store is gone"):
        small.to_parquet(tmp_path)
    assert list(tmp_path.rglob("*.parquet")) == []
    told: list[ExportProgress] = []
    result = small.to_parquet(tmp_path, progress=told.append)
    assert result.resumed == 2
    assert (told[0].splits, told[-1].splits, told[-1].all_splits) == (2, len(splits), len(splits))
    assert read == [split.id for split in (*splits[:3], *splits[2:])]
    assert visible(tmp_path) == small_rows
    again = small.to_parquet(tmp_path)
    assert (again.files, again.ends, again.resumed) == (result.files, result.ends, len(splits))
    assert len(read) == len(splits) + 1


def test_a_job_with_other_options_is_refused(small: TableScan, tmp_path: Path) -> None:
    small.to_parquet(tmp_path)
    with pytest.raises(ConfigurationError, match="was started with other options"):
        small.where(column("offset") > 5).to_parquet(tmp_path)
    with pytest.raises(ConfigurationError, match="compression was zstd"):
        small.to_parquet(tmp_path, compression="snappy")
    with pytest.raises(ConfigurationError, match="export job export has offsets 0 to"):
        small.to_parquet(tmp_path, job="again")


def test_the_next_job_begins_where_the_first_ended(
    small: TableScan, small_rows: list[Row], tmp_path: Path, visible: Visible
) -> None:
    first = attrs.evolve(small, scan=attrs.evolve(small.scan, end_offset=300)).to_parquet(tmp_path, job="first")
    assert set(first.ends.values()) == {300}
    attrs.evolve(small, scan=attrs.evolve(small.scan, start_offset=dict(first.ends))).to_parquet(tmp_path, job="second")
    assert visible(tmp_path) == small_rows


def test_records_tiered_later_belong_to_the_next_job(tmp_path: Path, visible: Visible) -> None:
    tier, table = tmp_path / "tier", tmp_path / "table"
    source = golden_local() / "remote" / "kafka-tiered-storage"
    (folder,) = source.glob("codec-zstd-rdk-0-*")
    first, *later = sorted({path.name.split(".")[0] for path in folder.glob("*.log")})

    def upload(*segments: str) -> None:
        copied = tier / "kafka-tiered-storage" / folder.name
        copied.mkdir(parents=True, exist_ok=True)
        for segment in segments:
            for path in folder.glob(f"{segment}*"):
                shutil.copy(path, copied)

    upload(first)
    table_scan = scan(tier.as_uri(), "codec-zstd-rdk", threads=1)

    def full(operation: str, path: str) -> None:
        if path.endswith("commit.json") or "commit.json." in path:
            raise OSError(28, "No space left on device")

    with pytest.raises(ExportError, match="No space left on device"):
        table_scan.to_parquet(table, filesystem=counted_files(full))
    upload(*later)
    result = table_scan.to_parquet(table)
    (end,) = result.ends.values()
    assert 0 < end < next(iter(table_scan.plan().ends.values()))
    assert max(row["offset"] for row in visible(table)) == end - 1


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_job_whose_records_were_deleted_says_how_to_begin_again(tmp_path: Path, form: str) -> None:
    tier, table = tmp_path / "tier", tmp_path / "table"
    shutil.copytree(golden_local() / "remote" / "kafka-tiered-storage", tier / "kafka-tiered-storage")
    table_scan = scan(tier.as_uri(), "codec-zstd-rdk", threads=1)
    export = table_scan.to_parquet if form == "parquet" else table_scan.to_delta

    def crash_after_the_job(operation: str, path: str) -> None:
        if "job.json" not in path and (table / "_staging" / "export" / "job.json").exists():
            raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        export(table, filesystem=counted_files(crash_after_the_job))
    (folder,) = (tier / "kafka-tiered-storage").glob("codec-zstd-rdk-0-*")
    first = min(path.name.split(".")[0] for path in folder.glob("*.log"))
    for path in folder.glob(f"{first}*"):
        path.unlink()
    with pytest.raises(TierUnavailableError, match="the tier begins at offset") as caught:
        export(table)
    assert str(caught.value).endswith(
        f"the next run continues export job export; if the records were deleted, remove _staging/export in {table} first: "
        "then the job is planned again"
    )
    assert caught.value.topic == "codec-zstd-rdk"
    shutil.rmtree(table / "_staging" / "export")
    assert export(table).rows == table_scan.count()


def test_failure_before_a_job_exists_does_not_mention_one(
    small: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: OpenScan) -> Never:
        raise TierUnavailableError("the store is gone")

    monkeypatch.setattr(OpenScan, "topic_ids", fail)
    with pytest.raises(TierUnavailableError, match=r"^the store is gone$"):
        small.to_parquet(tmp_path)


def test_a_recreated_topic_is_refused(small: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SimulatedCrash):
        small.to_parquet(tmp_path, filesystem=counted_files(crash_at(9, [])))
    monkeypatch.setattr(OpenScan, "topic_ids", lambda self: {"epochs": UUID(int=7)})
    with pytest.raises(ConfigurationError, match="topic epochs was created again since export job export started"):
        small.to_parquet(tmp_path)


def test_a_fully_written_job_commits_without_the_tier(
    small: TableScan, small_rows: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: Visible
) -> None:
    moved: list[str] = []

    def before(operation: str, path: str) -> None:
        if operation == "move" and path.endswith(".parquet"):
            moved.append(path)
            if len(moved) == 3:
                raise SimulatedCrash

    with pytest.raises(SimulatedCrash):
        small.to_parquet(tmp_path, filesystem=counted_files(before))

    def closed(self: object) -> None:
        raise AssertionError("the tier is not asked")

    monkeypatch.setattr(TableScan, "open", closed)
    monkeypatch.setattr("kafka_remote_client.scanning.export.run.Export.open", closed)
    with pytest.raises(ConfigurationError, match="started with other options"):
        small.to_parquet(tmp_path, file_bytes=5)
    small.to_parquet(tmp_path)
    assert visible(tmp_path) == small_rows


def test_a_scan_with_a_limit_cannot_be_exported(small: TableScan, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="an export must not have a limit"):
        small.head(5).to_parquet(tmp_path)
    with pytest.raises(ConfigurationError, match="needs the column timestamp"):
        small.select("key").to_parquet(tmp_path, partition_by="hour")


def test_an_empty_export_has_end_offsets(small: TableScan, tmp_path: Path) -> None:
    result = small.where(column("offset") > 10**9).to_parquet(tmp_path)
    assert (result.files, result.splits) == ((), 0)
    assert set(result.ends) == {TopicPartition("epochs", 0), TopicPartition("epochs", 1)}
    nothing = small.where(column("key") == b"no such key").to_parquet(tmp_path / "other")
    assert (nothing.files, nothing.rows) == ((), 0)
    assert nothing.splits > 0


def test_a_failed_export_ends_its_threads(orders: TableScan, tmp_path: Path) -> None:
    def full(operation: str, path: str) -> None:
        if operation == "write" and ".json" not in path:
            raise OSError(28, "No space left on device")

    with pytest.raises(ExportError, match="No space left on device"):
        orders.to_parquet(tmp_path, filesystem=counted_files(full))
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-remote-scan")] == []
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_run_beside_another_gives_its_result_or_names_it(
    small: TableScan, small_rows: list[Row], tmp_path: Path, visible: Visible
) -> None:
    """Another run does all of its work before one operation of this run, which is another one each time."""
    endings, number = [], 0
    while not endings or endings[-1] != "alone":
        number += 11
        table, seen = tmp_path / str(number), [0]

        def other_run(_operation: str, _path: str, table: Path = table, seen: list[int] = seen, number: int = number) -> None:
            seen[0] += 1
            if seen[0] == number:
                small.to_parquet(table)

        try:
            result = small.to_parquet(table, filesystem=counted_files(other_run))
            endings.append("result" if seen[0] >= number else "alone")
            assert result.rows == len(small_rows)
        except ExportError as error:
            endings.append(str(error))
        assert visible(table) == small_rows
        assert not (table / "_staging" / "export").exists()
    assert set(endings) == {"result", "alone"}


def test_a_run_whose_job_was_replaced_says_so(small: TableScan, tmp_path: Path, visible: Visible) -> None:
    job = tmp_path / "_staging" / "export" / "job.json"

    def replace_job(_operation: str, path: str) -> None:
        if "splits" in path and job.exists():
            job.write_text(json.dumps(json.loads(job.read_text()) | {"partitions": []}))

    with pytest.raises(ExportError, match=r"another run of export job export is active .*; wait for its end"):
        small.to_parquet(tmp_path, filesystem=counted_files(replace_job))
    assert visible(tmp_path) == []
