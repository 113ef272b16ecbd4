"""A measurement of Spark counts for the side that it measured; ratios are taken of what was measured, and of nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.planning import case_figures
from tests.benchmarks.spark import KAFKA, OURS, READERS, Cell, impurity, ratios

STORED = 1000


def _run(*, store_bytes: int = 0, broker_reads: int = 0) -> dict[str, Any]:
    return {"store_bytes": store_bytes, "broker_reads": broker_reads}


@pytest.mark.parametrize(
    ("source", "result", "counts"),
    [
        (OURS, _run(store_bytes=STORED), True),
        (OURS, _run(store_bytes=STORED + 1), True),
        (OURS, _run(store_bytes=STORED - 1), False),
        (OURS, _run(store_bytes=STORED, broker_reads=1), False),
        (KAFKA, _run(broker_reads=5), True),
        (KAFKA, _run(store_bytes=STORED), False),
    ],
)
def test_a_run_counts_only_for_the_side_that_read_the_tier(source: str, result: dict[str, Any], counts: bool) -> None:
    assert (impurity(source, result, STORED) is None) is counts


def test_ratios_compare_direct_with_each_other_source() -> None:
    rates = {"kafka": 10.0, "kafka-tuned": 20.0, "direct": 60.0, "one-split": 40.0}
    cells: dict[Cell, float] = {(100, "lz4", 20, reader): rate for reader, rate in rates.items()}
    (row,) = ratios(cells)
    assert (row["over_default"], row["over_tuned"], row["over_better"], row["many_over_one"]) == (6.0, 3.0, 3.0, 1.5)
    assert row["rows_per_second"]["direct"] == 600_000
    assert set(row["mb_per_second"]) == set(READERS)


def test_a_missing_measurement_has_no_ratio() -> None:
    (row,) = ratios({(1024, "none", 0, "kafka"): 10.0, (1024, "none", 0, "direct"): 30.0})
    assert (row["over_default"], row["over_tuned"], row["over_better"], row["many_over_one"]) == (3.0, None, None, None)


def test_planning_plans_all_segments() -> None:
    found = {case: case_figures(case, 100, 10) for case in ("known", "asked", "listed", "shim", "continued")}
    assert found["known"]["splits"] == 1000
    assert found["asked"]["questions"] <= 512
    assert (found["listed"]["splits"], found["listed"]["questions"]) == (1000, 0)
    assert (found["shim"]["splits"], found["shim"]["segments_listed"]) == (1000, 1000)
    assert found["shim"]["location_requests"] >= 1
    assert (found["continued"]["finished"], found["continued"]["splits"]) == (500, 500)
