"""Exports by real Spark's executors: the consumer's records once each, whatever happens to attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.support.golden import golden_local
from tests.support.scanned import Row, expected_rows, rows_of
from tests.support.spark import SparkDriver

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


def test_attempts_that_fail_or_are_killed_leave_no_trace(spark_repeating: SparkDriver, tmp_path: Path) -> None:
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
