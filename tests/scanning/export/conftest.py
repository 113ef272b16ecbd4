"""Fixtures: a tier to export, and its records as the golden consumer read them."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kafka_remote_client.scanning.scan_topics import scan
from kafka_remote_client.scanning.table_scan import TableScan
from tests.support.golden import golden_local
from tests.support.scanned import Row, expected_rows, rows_of


@pytest.fixture(scope="session")
def orders() -> TableScan:
    """Two partitions with segments of several epochs, and one with aborted transactions."""
    url = (golden_local() / "remote").as_uri()
    return scan(url, ["epochs", "txn"], threads=2)


@pytest.fixture(scope="session")
def committed(orders: TableScan) -> list[Row]:
    """Tiered records as Kafka's own consumer reads them at ``read_committed``."""
    found = []
    for (topic, partition), end in orders.plan().ends.items():
        found += [row for row in expected_rows(topic, partition, "read_committed") if row["offset"] < end]
    return found


def exported_rows(folder: Path) -> list[Row]:
    """Rows that a plain Parquet reader finds in a folder."""
    return rows_of(ds.dataset(folder, format="parquet").to_table())


@pytest.fixture(scope="session")
def visible() -> object:
    """:func:`exported_rows`, for tests in folders."""
    return exported_rows
