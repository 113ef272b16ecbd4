"""Delta tables: exactly-once commits, statistics, and concurrent writers."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from kafka_remote_client.errors import ConfigurationError, ExportError, MissingExtraError, NoSegmentsError
from kafka_remote_client.scanning.export.delta import DeltaCommit, open_table
from kafka_remote_client.scanning.export.written_files import WrittenFile
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.scanned import Row, rows_of


def rows(table: Path) -> list[Row]:
    return rows_of(pa.table(DeltaTable(table).to_pyarrow_table()))


@pytest.mark.parametrize("by", [(), "topic"])
def test_a_table_has_the_consumers_records_and_statistics(
    orders: TableScan, committed: list[Row], tmp_path: Path, by: Any
) -> None:
    result = orders.to_delta(tmp_path, partition_by=by)
    names = list(committed[0])
    assert [{name: row[name] for name in names} for row in rows(tmp_path)] == committed
    actions = pa.table(DeltaTable(tmp_path).get_add_actions(flatten=True)).to_pylist()
    bounds = {one["path"]: (one["num_records"], one["min.offset"], one["max.offset"]) for one in actions}
    assert bounds == {file.path: (file.rows, file.first_offset, file.last_offset) for file in result.files}
    orders.to_delta(tmp_path, partition_by=by)
    assert DeltaTable(tmp_path).version() == 1
    assert DeltaTable(tmp_path).history(1)[0]["kafka-remote.job"] == "export"


@pytest.mark.parametrize("wrong", [{"topics": ("missing",)}, {"limit": 1}])
def test_an_export_that_cannot_begin_creates_no_table(orders: TableScan, tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises((NoSegmentsError, ConfigurationError)):
        attrs.evolve(orders, scan=attrs.evolve(orders.scan, **wrong)).to_delta(tmp_path / "table")
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize("after", [False, True])
def test_a_rerun_finds_its_earlier_commit(
    orders: TableScan, committed: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    real = DeltaCommit._commit

    def cut(self: DeltaCommit, job: str, number: int, files: list[WrittenFile]) -> None:
        if after:
            real(self, job, number, files)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaCommit, "_commit", cut)
        with pytest.raises(KeyboardInterrupt):
            orders.to_delta(tmp_path)
    assert len(rows(tmp_path)) == (len(committed) if after else 0)
    orders.to_delta(tmp_path)
    assert len(rows(tmp_path)) == len(committed)


def test_a_concurrent_commit_does_not_fail_the_export(
    orders: TableScan, committed: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = DeltaTable.create_write_transaction, []

    def conflict(self: DeltaTable, *arguments: Any, **options: Any) -> None:
        calls.append(options)
        if len(calls) < 3:
            raise CommitFailedError("another writer")
        real(self, *arguments, **options)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", conflict)
    orders.to_delta(tmp_path)
    assert len(calls) == 3
    assert len(rows(tmp_path)) == len(committed)


def test_commits_of_a_deleted_job_are_not_reused(orders: TableScan, tmp_path: Path) -> None:
    orders.to_delta(tmp_path)
    shutil.rmtree(tmp_path / "_exports")
    with pytest.raises(ConfigurationError, match="the table already has commits of export job export"):
        orders.to_delta(tmp_path)


def test_a_store_failure_raises_export_error(orders: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: DeltaTable, *arguments: Any, **options: Any) -> None:
        raise DeltaError("no permission")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refuse)
    with pytest.raises(ExportError, match=r"cannot commit to .*no permission"):
        orders.to_delta(tmp_path)
    assert rows(tmp_path) == []


def test_a_full_disk_is_reported_in_one_plain_line(orders: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError("Generic error\n  \x1b[31m↳\x1b[0m Unable to copy\n   \x1b[31m↳\x1b[0m No space left on device\n")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refuse)
    with pytest.raises(ExportError) as caught:
        orders.to_delta(tmp_path / "a")
    assert str(caught.value).endswith("/a/: Generic error: Unable to copy: No space left on device")
    monkeypatch.setattr(DeltaTable, "create", refuse)
    with pytest.raises(ConfigurationError, match=r"b: Generic error: Unable to copy: No space left on device$"):
        orders.to_delta(tmp_path / "b")


def test_a_table_with_another_schema_is_refused(orders: TableScan, tmp_path: Path) -> None:
    open_table(tmp_path / "orders", orders.schema, (), None)
    with pytest.raises(ConfigurationError, match="has columns that differ from the scan's"):
        orders.select("offset").to_delta(tmp_path / "orders")
    with pytest.raises(ConfigurationError, match=r"has partitions \[\], which differ from partition_by"):
        orders.to_delta(tmp_path / "orders", partition_by="topic")
    with pytest.raises(ConfigurationError, match="partition_by must be topic for a Delta table"):
        orders.to_delta(tmp_path / "orders", partition_by="day")
    with pytest.raises(ConfigurationError, match="partition_by needs the column topic"):
        orders.select("offset").to_delta(tmp_path / "orders", partition_by="topic")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="cannot open the Delta table"):
        open_table(tmp_path / "file", orders.schema, (), None)


def test_a_timestamp_out_of_range_has_no_statistics(orders: TableScan, tmp_path: Path) -> None:
    from kafka_remote_client.scanning.export.delta import _statistics

    odd = WrittenFile("a", "a", 1, 1, 5, 5, 10**15, 10**15)
    assert '"timestamp"' not in _statistics(odd)
    assert '"minValues": {"offset": 5}' in _statistics(odd)
    assert '"minValues": {}' in _statistics(WrittenFile("a", "a", 1, 1))


def test_a_missing_deltalake_names_the_extra(orders: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafka_remote_client.scanning.export.delta")
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(MissingExtraError, match=r"needs deltalake: pip install 'kafka-remote-client\[delta\]'"):
        orders.to_delta(tmp_path)


def test_files_vacuumed_before_the_commit_are_reported(
    orders: TableScan, committed: list[Row], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: DeltaCommit, job: str, number: int, files: list[WrittenFile]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaCommit, "_commit", cut)
        with pytest.raises(KeyboardInterrupt):
            orders.to_delta(tmp_path)
    table = DeltaTable(tmp_path)
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True) != []
    with pytest.raises(ExportError, match=r"files of export job export were removed before its commit.*remove _staging/export"):
        orders.to_delta(tmp_path)
    assert rows(tmp_path) == []
    shutil.rmtree(tmp_path / "_staging/export")
    orders.to_delta(tmp_path)
    assert len(rows(tmp_path)) == len(committed)
