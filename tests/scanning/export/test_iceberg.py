"""Iceberg tables of a SQL catalog: exactly-once commits that open no data file, and concurrent writers."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from kafka_remote_client.errors import ConfigurationError, ExportError, MissingExtraError, NoSegmentsError
from kafka_remote_client.scanning.export import commits
from kafka_remote_client.scanning.export.iceberg import IcebergCommit
from kafka_remote_client.scanning.export.iceberg_table import open_table
from kafka_remote_client.scanning.export.job import ExportJob
from kafka_remote_client.scanning.export.row_groups import PartitionBy
from kafka_remote_client.scanning.export.written_files import WrittenFile, WrittenSplit
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.scanned import Row, rows_of
from tests.support.valued_tier import TOPIC, write_records

NAME = "kafka.orders"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    found = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    yield found
    found.close()


@pytest.fixture
def small(orders: TableScan) -> TableScan:
    """A scan of about ten splits."""
    return attrs.evolve(orders, scan=attrs.evolve(orders.scan, split_bytes=100_000))


def rows(catalog: Catalog) -> list[Row]:
    return rows_of(catalog.load_table(NAME).scan().to_arrow())


@pytest.mark.parametrize("by", [(), ("topic", "day"), "hour"])
def test_a_table_has_the_consumers_records_and_prunes_files(
    small: TableScan, committed: list[Row], catalog: Catalog, by: Any
) -> None:
    result = small.to_iceberg(catalog, NAME, partition_by=by)
    assert rows(catalog) == committed
    assert result.rows == len(committed)
    table = catalog.load_table(NAME)
    planned = list(table.scan(row_filter="topic = 'txn' and offset >= 2000").plan_files())
    assert 0 < len(planned) < len(result.files)
    found = table.scan(row_filter="topic = 'txn' and offset >= 2000").to_arrow()
    assert rows_of(found) == [row for row in committed if row["topic"] == "txn" and row["offset"] >= 2000]
    again = small.to_iceberg(catalog, NAME, partition_by=by)
    assert again.files == result.files
    assert len(catalog.load_table(NAME).snapshots()) == 1


@pytest.mark.parametrize("first", [10**15, -(10**14)])
def test_times_outside_of_pythons_years_are_committed_without_bounds(tmp_path: Path, catalog: Catalog, first: int) -> None:
    url = write_records(tmp_path / "tier", [(b"k", b"v")] * 3, first_timestamp=first)
    assert scan(url, TOPIC).to_iceberg(catalog, NAME).rows == 3
    table = catalog.load_table(NAME)
    assert table.scan().to_arrow()["timestamp"].cast(pa.int64()).to_pylist() == [(first + n) * 1000 for n in range(3)]
    (planned,) = table.scan(row_filter="offset >= 1").plan_files()
    bounds = planned.file.lower_bounds
    assert table.schema().find_field("timestamp").field_id not in bounds
    assert table.schema().find_field("offset").field_id in bounds
    assert not list(table.scan(row_filter="offset >= 3").plan_files())


@pytest.mark.parametrize("wrong", [{"topics": ("missing",)}, {"limit": 1}])
def test_an_export_that_cannot_begin_creates_no_table(orders: TableScan, catalog: Catalog, wrong: dict[str, Any]) -> None:
    with pytest.raises((NoSegmentsError, ConfigurationError)):
        attrs.evolve(orders, scan=attrs.evolve(orders.scan, **wrong)).to_iceberg(catalog, NAME)
    assert catalog.list_namespaces() == []


def test_a_commit_opens_no_data_file(small: TableScan, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    real, opened = pq.read_metadata, []

    def read_metadata(where: Any, **options: Any) -> Any:
        opened.append(type(where).__name__)
        return real(where, **options)

    monkeypatch.setattr(pq, "read_metadata", read_metadata)
    small.to_iceberg(catalog, NAME)
    assert set(opened) == {"BytesIO"}


@pytest.mark.parametrize("after", [False, True])
def test_a_rerun_continues_after_the_last_commit(
    small: TableScan, committed: list[Row], catalog: Catalog, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    monkeypatch.setattr(commits, "pieces", small_pieces)
    real: Callable[..., None] = IcebergCommit._commit

    def cut(self: IcebergCommit, job: str, number: int, files: list[WrittenFile]) -> None:
        if after:
            real(self, job, number, files)
        if number == 1:
            raise KeyboardInterrupt
        if not after:
            real(self, job, number, files)

    with monkeypatch.context() as patch:
        patch.setattr(IcebergCommit, "_commit", cut)
        with pytest.raises(KeyboardInterrupt):
            small.to_iceberg(catalog, NAME)
    assert 0 < len(rows(catalog)) < len(committed)
    small.to_iceberg(catalog, NAME)
    assert rows(catalog) == committed
    summaries = [one.summary.additional_properties for one in catalog.load_table(NAME).snapshots() if one.summary]
    assert [int(one["kafka-remote.sequence"]) for one in summaries] == list(range(len(summaries)))
    assert {one["kafka-remote.job"] for one in summaries} == {"export"}


_PIECES = commits.pieces


def small_pieces(written: Any, size: int) -> Any:
    return _PIECES(written, 3)


def test_files_of_superseded_attempts_are_removed(small: TableScan, catalog: Catalog, tmp_path: Path) -> None:
    table = open_table(catalog, NAME, small.schema, ())
    folder = Path(table.location().removeprefix("file://")) / "data" / "export"
    folder.mkdir(parents=True)
    (folder / "killed.parquet").write_bytes(b"PAR1")
    result = small.to_iceberg(catalog, NAME, filesystem=LocalFileSystem())
    assert {f"data/export/{path.name}" for path in folder.iterdir()} == {file.path for file in result.files}


def test_commits_of_a_deleted_job_are_not_reused(small: TableScan, catalog: Catalog) -> None:
    small.to_iceberg(catalog, NAME)
    shutil.rmtree(Path(catalog.load_table(NAME).location().removeprefix("file://")) / "_exports")
    with pytest.raises(ConfigurationError, match="the table already has commits of export job export"):
        small.to_iceberg(catalog, NAME)


def test_a_concurrent_commit_does_not_fail_the_export(
    small: TableScan, committed: list[Row], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Table._do_commit, []

    def conflict(self: Table, updates: Any, requirements: Any) -> None:
        calls.append(updates)
        if len(calls) == 1:
            raise CommitFailedException("another writer")
        real(self, updates, requirements)

    open_table(catalog, NAME, small.schema, ())
    monkeypatch.setattr(Table, "_do_commit", conflict)
    small.to_iceberg(catalog, NAME)
    assert len(calls) > 1
    assert rows(catalog) == committed


def test_a_commit_that_another_process_has_made_is_not_repeated(
    small: TableScan, committed: list[Row], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pyiceberg itself repeats a commit that met another one, on top of that one."""
    real, calls = Table._do_commit, []

    def overtaken(self: Table, updates: Any, requirements: Any) -> None:
        calls.append(updates)
        if len(calls) == 1:
            small.to_iceberg(catalog, NAME)
        real(self, updates, requirements)

    open_table(catalog, NAME, small.schema, ())
    monkeypatch.setattr(Table, "_do_commit", overtaken)
    small.to_iceberg(catalog, NAME)
    assert len(calls) > 1
    assert rows(catalog) == committed


def test_a_table_with_another_schema_is_refused(small: TableScan, catalog: Catalog) -> None:
    open_table(catalog, NAME, small.schema, ())
    with pytest.raises(ConfigurationError, match=r"column value of table kafka\.orders has type binary, the scan's has string"):
        open_table(catalog, NAME, pa.schema([("value", pa.string())]), ())
    with pytest.raises(ConfigurationError, match="does not have the scan's columns"):
        open_table(catalog, NAME, pa.schema([("price", pa.string())]), ())
    small.to_iceberg(catalog, NAME)
    with pytest.raises(ConfigurationError, match="has partitions that differ from partition_by"):
        small.to_iceberg(catalog, NAME, partition_by="day", job="again")
    with pytest.raises(ConfigurationError, match="partition_by needs the column topic"):
        small.select("offset").to_iceberg(catalog, "kafka.offsets", partition_by="topic")
    required = pa.schema([pa.field("offset", pa.int64()), pa.field("price", pa.int64(), nullable=False)])
    catalog.create_table("kafka.prices", required)
    with pytest.raises(ConfigurationError, match="requires columns that the scan does not have: price"):
        open_table(catalog, "kafka.prices", pa.schema([("offset", pa.int64())]), ())


def test_a_record_without_metadata_is_an_error(small: TableScan, catalog: Catalog) -> None:
    commit = IcebergCommit(open_table(catalog, NAME, small.schema, ()))
    written = [WrittenSplit("orders-0-0-1", (WrittenFile("a", "a", 1, 1),))]
    with pytest.raises(ExportError, match="cannot commit a: its record has no Parquet metadata"):
        commit(ExportJob("export", {}, ()), written)


def test_a_catalog_can_be_given_by_name(catalog: Catalog, small: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.scanning.export.iceberg_table.load_catalog", {"lake": catalog}.__getitem__)
    assert open_table("lake", NAME, small.schema, ()).name() == ("kafka", "orders")


def test_a_missing_pyiceberg_names_the_extra(small: TableScan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "kafka_remote_client.scanning.export.iceberg")
    monkeypatch.delitem(sys.modules, "kafka_remote_client.scanning.export.iceberg_table")
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(MissingExtraError, match=r"needs pyiceberg.catalog: pip install 'kafka-remote-client\[iceberg\]'"):
        small.to_iceberg("lake", NAME)


@pytest.mark.parametrize("form", ["file://{}/a%20b", "file:{}/one", "{}/a b#c"])
def test_files_are_written_below_the_catalogs_location(
    small: TableScan, committed: list[Row], tmp_path: Path, form: str
) -> None:
    found = SqlCatalog("odd", uri=f"sqlite:///{tmp_path}/odd.db", warehouse=form.format(tmp_path))
    try:
        small.to_iceberg(found, NAME)
        assert rows(found) == committed
    finally:
        found.close()


@pytest.mark.parametrize("by", ["topic", "day"])
def test_partitioned_commits_need_no_statistics(
    small: TableScan, committed: list[Row], catalog: Catalog, by: PartitionBy
) -> None:
    table = open_table(catalog, NAME, small.schema, (PartitionBy(by),))
    with table.transaction() as change:
        change.set_properties({"write.metadata.metrics.default": "none"})
    small.to_iceberg(catalog, NAME, partition_by=by)
    found = catalog.load_table(NAME).scan(row_filter="topic = 'txn' and timestamp > '1980-01-01T00:00:00+00:00'").to_arrow()
    assert rows_of(found) == [row for row in committed if row["topic"] == "txn"]


def test_a_failed_catalog_commit_is_reported_and_resumed(
    small: TableScan, committed: list[Row], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    open_table(catalog, NAME, small.schema, ())
    with monkeypatch.context() as patch:
        patch.setattr(Table, "_do_commit", full)
        with pytest.raises(ExportError, match=r"cannot commit to kafka\.orders: .*No space left on device"):
            small.to_iceberg(catalog, NAME)
        patch.setattr(SqlCatalog, "load_table", full)
        with pytest.raises(ExportError, match=r"cannot open table kafka\.orders: .*No space left on device"):
            small.to_iceberg(catalog, NAME)
    small.to_iceberg(catalog, NAME)
    assert rows(catalog) == committed


def test_an_invalid_catalog_or_table_name_is_refused(small: TableScan, catalog: Catalog) -> None:
    with pytest.raises(ConfigurationError, match="configuration has no catalog nowhere"):
        small.to_iceberg("nowhere", NAME)
    with pytest.raises(ConfigurationError, match="the table name 'orders'"):
        small.to_iceberg(catalog, "orders")


def test_a_superseded_run_removes_no_committed_file(
    small: TableScan, committed: list[Row], catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, results = OpenScan.record_batches, []

    def record_batches(self: OpenScan, split: Split) -> Any:
        if not results:
            results.append(None)
            results[0] = small.to_iceberg(catalog, NAME)
        return real(self, split)

    monkeypatch.setattr(OpenScan, "record_batches", record_batches)
    late = attrs.evolve(small, threads=1).to_iceberg(catalog, NAME)
    assert late.files == results[0].files
    assert rows(catalog) == committed
