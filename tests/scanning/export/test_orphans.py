"""Files of killed attempts: no reader of the table sees them, and the next run of the job removes them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from kafka_remote_client.scanning.export.delta import open_table as open_delta
from kafka_remote_client.scanning.open_scan import OpenScan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.scanned import Row, rows_of

NAME = "kafka.orders"
Visible = Callable[[Path], list[Row]]


class SimulatedKill(BaseException):
    """Ends the run at a split, as the death of the process does."""


class _Parquet:
    def __init__(self, folder: Path, visible: Visible) -> None:
        self._folder, self._visible = folder, visible

    @property
    def written(self) -> Path:
        """Where attempts write their files."""
        return self._folder / "_staging/export/files"

    def export(self, scan: TableScan) -> None:
        scan.to_parquet(self._folder)

    def rows(self) -> list[Row]:
        return self._visible(self._folder) if list(self._folder.rglob("*.parquet")) else []

    def close(self) -> None:
        pass


class _Delta(_Parquet):
    @property
    def written(self) -> Path:
        return self._folder / "data/export"

    def export(self, scan: TableScan) -> None:
        open_delta(self._folder, scan.schema, (), None)
        scan.to_delta(self._folder)

    def rows(self) -> list[Row]:
        return rows_of(pa.table(DeltaTable(self._folder).to_pyarrow_table()))


class _Iceberg(_Parquet):
    def __init__(self, folder: Path, visible: Visible) -> None:
        folder.mkdir()
        super().__init__(folder, visible)
        self._catalog = SqlCatalog("local", uri=f"sqlite:///{folder}/catalog.db", warehouse=folder.as_uri())

    def export(self, scan: TableScan) -> None:
        scan.to_iceberg(self._catalog, NAME)

    @property
    def written(self) -> Path:
        return Path(self._catalog.load_table(NAME).location().removeprefix("file://")) / "data/export"

    def rows(self) -> list[Row]:
        return rows_of(self._catalog.load_table(NAME).scan().to_arrow())

    def close(self) -> None:
        self._catalog.close()


@pytest.fixture(params=[_Parquet, _Delta, _Iceberg], ids=["parquet", "delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, visible: Visible) -> Iterator[_Parquet]:
    made = request.param(tmp_path / "table", visible)
    yield made
    made.close()


def test_orphan_files_are_never_read_and_the_next_run_removes_them(
    orders: TableScan, committed: list[Row], table: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = attrs.evolve(orders, scan=attrs.evolve(orders.scan, split_bytes=100_000), threads=1)
    real, begun = OpenScan.record_batches, []

    def killed(self: OpenScan, split: Any) -> Any:
        begun.append(split)
        if len(begun) == 4:
            raise SimulatedKill
        return real(self, split)

    with monkeypatch.context() as patch:
        patch.setattr(OpenScan, "record_batches", killed)
        with pytest.raises(SimulatedKill):
            table.export(small)
    finished = sorted(table.written.iterdir())
    assert len(finished) == 3
    orphan = finished[0].with_name(finished[0].name.replace(finished[0].stem.rsplit("-", 1)[-1], "killed"))
    assert orphan != finished[0]
    shutil.copy(finished[0], orphan)  # the same records, by an attempt that did not say that it is done
    assert table.rows() == []
    table.export(small)
    assert table.rows() == committed
    assert not orphan.exists()
