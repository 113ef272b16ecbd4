"""Records that do not parse, in each mode: an error with the offset, error columns, or dead-letter files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from kafka_remote_client.errors import ExportError, UnreadableRecordError
from kafka_remote_client.scanning.export.delta import DeltaCommit
from kafka_remote_client.scanning.export.written_files import WrittenFile
from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.scanning.export.test_spark_tasks import Session
from tests.support.counted_files import counted_files
from tests.support.valued_tier import TOPIC, write_records

COUNT = 120
POISON = {5: b"{", 36: b"", 37: b"\xff", 119: b'{"n": "text"}'}
GOOD = [n for n in range(COUNT) if n not in POISON]
TYPED: dict[str, Any] = {"value_format": "json", "value_schema": pa.schema([("n", pa.int64())])}
APART: dict[str, Any] = {**TYPED, "on_error": "dead_letters"}


class SimulatedCrash(BaseException):
    """Ends the run like a killed process: no handler of the product catches it."""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> TableScan:
    records = [(b"k%d" % n, POISON.get(n, b'{"n": %d}' % n)) for n in range(COUNT)]
    table = scan(write_records(tmp_path_factory.mktemp("poisoned"), records), TOPIC, threads=1)
    return attrs.evolve(table, scan=attrs.evolve(table.scan, split_bytes=1000))


def values(found: pa.Table) -> list[int]:
    return [value["n"] for value in found.sort_by("offset")["value"].to_pylist()]


def files_below(folder: Path) -> pa.Table:
    return ds.dataset(folder, format="parquet").to_table()


def letters(folder: Path) -> dict[int, bytes]:
    """Offsets and bytes of the dead letters. Asserts that each has an error."""
    found = files_below(folder / "_dead_letters" / "export")
    assert all(found["value_error"].to_pylist())
    offsets = found["offset"].to_pylist()
    assert len(set(offsets)) == len(offsets)
    return dict(zip(offsets, found["value"].to_pylist(), strict=True))


def test_an_undecodable_record_ends_the_export_and_is_named(orders: TableScan, tmp_path: Path) -> None:
    for table in (orders, orders.select("value")):  # the error has the offset even if the table does not select the column
        with pytest.raises(UnreadableRecordError, match="the value of orders-7 at offset 5 does not parse") as raised:
            table.to_parquet(tmp_path / str(len(table.scan.columns)), **TYPED)
        assert (raised.value.topic, raised.value.partition, raised.value.offset) == (TOPIC, 7, 5)
    assert list(tmp_path.rglob("*.parquet")) == []
    with pytest.raises(ExportError, match="failed: the value of orders-7 at offset 5 does not parse"):
        orders.to_parquet(tmp_path / "spark", spark=Session(), **TYPED)


def test_error_columns_keep_the_record_in_the_table(orders: TableScan, tmp_path: Path) -> None:
    result = orders.select("value").to_parquet(tmp_path, **TYPED, on_error="column")
    found = files_below(tmp_path)
    assert found.column_names == ["value", "value_error", "value_bytes"]
    assert (result.rows, result.unreadable) == (COUNT, 0)
    assert sorted(data for data in found["value_bytes"].to_pylist() if data is not None) == sorted(POISON.values())
    assert not (tmp_path / "_dead_letters").exists()


@pytest.mark.parametrize("spark", [False, True])
def test_dead_letter_files_are_separate_from_the_table(orders: TableScan, tmp_path: Path, spark: bool) -> None:
    session = Session(attempts=2) if spark else None
    result = orders.to_parquet(tmp_path, **APART, partition_by="topic", spark=session)
    found = files_below(tmp_path)
    assert values(found) == GOOD
    assert "value_error" not in found.column_names
    assert letters(tmp_path) == POISON
    written = files_below(tmp_path / "_dead_letters" / "export")
    assert written.column_names == [*orders.scan.columns, "value_error"]
    assert written["key"].to_pylist() == [b"k%d" % n for n in written["offset"].to_pylist()]
    assert (result.rows, result.unreadable) == (len(GOOD), len(POISON))
    assert sorted(file.path for file in result.dead_letters) == sorted(
        path.relative_to(tmp_path).as_posix() for path in (tmp_path / "_dead_letters").rglob("*.parquet")
    )
    again = orders.to_parquet(tmp_path, **APART, partition_by="topic")
    assert (again.files, again.dead_letters) == (result.files, result.dead_letters)


def test_dead_letters_have_topic_partition_offset_and_errors(orders: TableScan, tmp_path: Path) -> None:
    table = orders.select("value", "key")
    table.to_parquet(tmp_path, **APART, key_format="json", key_schema=pa.int64(), row_group_bytes=200)
    written = files_below(tmp_path / "_dead_letters" / "export").sort_by("offset")
    assert written.column_names == ["value", "key", "topic", "partition", "offset", "key_error", "value_error"]
    assert written["offset"].to_pylist() == list(range(COUNT))  # no key is valid JSON
    assert [n for n, reason in enumerate(written["value_error"].to_pylist()) if reason] == sorted(POISON)
    assert all(written["key_error"].to_pylist())
    assert list(tmp_path.glob("*.parquet")) == []


def test_no_dead_letter_folder_without_undecodable_records(orders: TableScan, tmp_path: Path) -> None:
    good = attrs.evolve(orders, scan=attrs.evolve(orders.scan, start_offset=6, end_offset=36))
    assert good.to_parquet(tmp_path, **APART).unreadable == 0
    assert not (tmp_path / "_dead_letters").exists()


# With coverage it takes twice the time; "local" reaches the same lines.
@pytest.mark.parametrize("kind", ["local", "objects"])
def test_dead_letters_are_exactly_once_after_any_crash(orders: TableScan, tmp_path: Path, kind: str) -> None:
    counted: list[str] = []

    def crash_at(number: int) -> Callable[[str, str], None]:
        counted.clear()

        def before(operation: str, path: str) -> None:
            counted.append(operation)
            if len(counted) >= number:
                raise SimulatedCrash

        return before

    whole = orders.to_parquet(tmp_path / "whole", **APART, filesystem=counted_files(crash_at(10**9), kind))
    names = {file.path for file in (*whole.files, *whole.dead_letters)}
    operations = len(counted)
    for number in range(1, operations + 1, max(1, operations // 6)):
        folder = tmp_path / f"cut-{number}"
        with pytest.raises(SimulatedCrash):
            orders.to_parquet(folder, **APART, filesystem=counted_files(crash_at(number), kind))
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")} <= names
        orders.to_parquet(folder, **APART, filesystem=counted_files(crash_at(10**9), kind))
        assert values(files_below(folder)) == GOOD
        assert letters(folder) == POISON
        assert {path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")} == names
        assert list(folder.glob("_staging/*")) == []
        shutil.rmtree(folder)


def test_a_failed_split_closes_its_dead_letter_file(orders: TableScan, tmp_path: Path) -> None:
    def full(operation: str, path: str) -> None:
        if operation == "close" and "/files/" in path:
            raise OSError(28, "No space left on device")

    with pytest.raises(ExportError, match="No space left on device"):
        orders.to_parquet(tmp_path, **APART, filesystem=counted_files(full))
    assert not (tmp_path / "_dead_letters").exists()
    orders.to_parquet(tmp_path, **APART)
    assert letters(tmp_path) == POISON


def test_iceberg_dead_letters_are_below_the_table_location(orders: TableScan, tmp_path: Path) -> None:
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    try:
        result = orders.to_iceberg(catalog, "kafka.orders", **APART)
        table = catalog.load_table("kafka.orders")
        assert values(table.scan().to_arrow()) == GOOD
        assert letters(Path(table.location().removeprefix("file://"))) == POISON
        assert (result.rows, result.unreadable) == (len(GOOD), len(POISON))
    finally:
        catalog.close()


def test_delta_dead_letters_exist_before_the_commit(orders: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(self: DeltaCommit, job: str, number: int, files: list[WrittenFile]) -> None:
        assert letters(tmp_path) == POISON
        raise SimulatedCrash

    with monkeypatch.context() as patch:
        patch.setattr(DeltaCommit, "_commit", cut)
        with pytest.raises(SimulatedCrash):
            orders.to_delta(tmp_path, **APART)
    orders.to_delta(tmp_path, **APART)
    assert values(pa.table(DeltaTable(tmp_path).to_pyarrow_table())) == GOOD
    assert letters(tmp_path) == POISON
    DeltaTable(tmp_path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert letters(tmp_path) == POISON


def test_vacuumed_files_are_reported_with_their_dead_letters(
    orders: TableScan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(self: DeltaCommit, job: str, number: int, files: list[WrittenFile]) -> None:
        raise SimulatedCrash

    monkeypatch.setattr(DeltaCommit, "_commit", cut)
    with pytest.raises(SimulatedCrash):
        orders.to_delta(tmp_path, **APART)
    shutil.rmtree(tmp_path / "data")
    with pytest.raises(ExportError, match="remove _staging/export and _dead_letters/export in"):
        orders.to_delta(tmp_path, **APART)
