"""A measurement counts for the side that it measured, and for no other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks.end_to_end import _ratios, impurity


def _direct(*, from_store: int, from_broker: int = 0, fallbacks: dict[str, int] | None = None) -> dict[str, Any]:
    metrics = {
        "remote-fetch-records-total": from_store,
        "broker-fetch-records-total": from_broker,
        "remote-fetch-fallbacks-total": fallbacks or {},
    }
    return {"records": 100, "metrics": metrics}


def test_direct_run_with_all_records_from_the_store_counts() -> None:
    assert impurity("direct", _direct(from_store=100)) is None


@pytest.mark.parametrize(
    "result",
    [
        _direct(from_store=0, from_broker=100, fallbacks={"forbidden-location": 1}),
        _direct(from_store=99, from_broker=1),
        _direct(from_store=100, fallbacks={"timeout": 1}),
        _direct(from_store=50),
    ],
)
def test_direct_run_that_the_broker_served_in_part_does_not_count(result: dict[str, Any]) -> None:
    assert impurity("direct", result) is not None


def test_run_of_the_broker_needs_no_metrics_but_records() -> None:
    assert impurity("broker", {"records": 1, "metrics": {}}) is None
    assert impurity("broker", {"records": 0, "metrics": {}}) == "read nothing"


def test_cell_without_a_run_that_counts_gets_no_ratio() -> None:
    rates = {
        (100, 0, "consume", "broker", "default"): 1.0,
        (100, 0, "consume", "broker", "tuned"): 2.0,
        (100, 0, "consume", "direct", "default"): 4.0,
    }
    assert _ratios(rates) == []
    (row,) = _ratios({**rates, (100, 0, "consume", "direct", "tuned"): 6.0})
    assert row["default_over_best_of_broker"] == 2.0
    assert row["tuned_over_broker_default"] == 6.0
