"""Exports by real Spark's executors: each record of the consumer once, also after failed attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from tests.support.golden import golden_local
from tests.support.scanned import Row, expected_rows, rows_of
from tests.support.spark import SparkDriver
from tests.support.valued_tier import TOPIC, write_records

# The first test waits for a session.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

JOBS = "tests.support.spark_exports"
TOPICS = ["epochs", "txn"]


def wanted(target: Path) -> dict[str, Any]:
    return {
        "store": (golden_local() / "remote").as_uri(),
        "topics": TOPICS,
        "split_bytes": 50_000,
        "target": str(target),
    }


def found(target: Path) -> list[Row]:
    return rows_of(ds.dataset(target, format="parquet").to_table())


def expected(rows: list[Row]) -> list[Row]:
    ends = {(row["topic"], row["partition"]): row["offset"] for row in rows}
    return [row for place in sorted(ends) for row in expected_rows(*place, "read_committed") if row["offset"] <= ends[place]]


def test_failed_or_killed_attempts_leave_no_files(spark_repeating: SparkDriver, tmp_path: Path) -> None:
    whole = spark_repeating(f"{JOBS}:exported", **wanted(tmp_path / "whole"))
    rows = found(tmp_path / "whole")
    assert rows == expected(rows)
    assert {(row["topic"], row["partition"]) for row in rows} == {("epochs", 0), ("epochs", 1), ("txn", 0)}
    assert whole["splits"] >= 6
    assert whole["rows"] == len(rows) > 4000

    trouble = {"0": "raise", "2": "kill", "4": "kill", "5": "raise"}
    done = spark_repeating(f"{JOBS}:troubled", **wanted(tmp_path / "troubled"), trouble=trouble)
    assert done == whole
    assert found(tmp_path / "troubled") == rows
    assert list((tmp_path / "troubled").glob("_staging/*")) == []
    names = [sorted(path.name for path in (tmp_path / one).rglob("*.parquet")) for one in ("whole", "troubled")]
    assert names[0] == names[1]

    again = spark_repeating(f"{JOBS}:exported", **wanted(tmp_path / "whole"))
    assert again == {**whole, "resumed": whole["splits"]}


def test_executors_write_typed_columns_and_dead_letters(spark_repeating: SparkDriver, tmp_path: Path) -> None:
    records = [(b"k%d" % n, b"{" if n % 40 == 7 else b'{"n": %d}' % n) for n in range(120)]
    store, target = write_records(tmp_path / "tier", records), tmp_path / "table"
    done = spark_repeating(f"{JOBS}:typed", store=store, topic=TOPIC, split_bytes=1000, target=str(target))
    assert (done["rows"], done["unreadable"]) == (117, 3)
    assert done["splits"] > 1
    table = pa.table(DeltaTable(target).to_pyarrow_table()).sort_by("offset")
    assert table["value"].to_pylist() == [{"n": n} for n in range(120) if n % 40 != 7]
    assert table["key"].to_pylist() == [f"k{n}" for n in range(120) if n % 40 != 7]
    letters = ds.dataset(target / "_dead_letters" / "export", format="parquet").to_table()
    assert sorted(letters["offset"].to_pylist()) == [7, 47, 87]
