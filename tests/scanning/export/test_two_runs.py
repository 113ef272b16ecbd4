"""Two runs of one job at the same time: another run does all of its work before one operation of this run."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from kafka_remote_client.scanning.export.ledger import ExportLedger
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.counted_files import counted_files
from tests.support.scanned import Row, rows_of


@pytest.fixture
def small(orders: TableScan) -> TableScan:
    """One split for each partition, which are read one after the other: the order of operations is fixed."""
    return attrs.evolve(orders, scan=attrs.evolve(orders.scan, topics=("epochs",)), threads=1)


@pytest.fixture
def small_rows(committed: list[Row]) -> list[Row]:
    return [row for row in committed if row["topic"] == "epochs"]


def delta_rows(folder: Path) -> list[Row]:
    return rows_of(pa.table(DeltaTable(folder).to_pyarrow_table()))


@pytest.mark.parametrize("kind", ["local", "objects"])
def test_a_run_removes_no_file_of_another_run_that_committed(
    small: TableScan, small_rows: list[Row], tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other run looked for records of splits before this one had any, so both wrote all files."""
    number, last = 0, False
    while not last:
        number += 1
        folder, seen = tmp_path / str(number), list[str]()

        def other_run(_operation: str, path: str, folder: Path = folder, seen: list[str] = seen, number: int = number) -> None:
            if seen or "commit" in path or "plans" in path:
                seen.append(path)
            if len(seen) == number:
                with monkeypatch.context() as patch:
                    patch.setattr(ExportLedger, "records", lambda self, splits: {})
                    small.to_delta(folder)

        result = small.to_delta(folder, filesystem=counted_files(other_run, kind))
        last = len(seen) < number
        assert result.rows == len(small_rows)
        assert delta_rows(folder) == small_rows
        assert not (folder / "_staging" / "export").exists()
    assert number > 3
