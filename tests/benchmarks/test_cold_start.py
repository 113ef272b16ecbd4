"""What the figures of a cold start come to, and which targets they miss."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.benchmarks.cold_start import figures, missed, row


def result(*starts: float, store: int = 10, fallbacks: dict[str, int] | None = None) -> dict[str, Any]:
    metrics = {
        "remote-fetch-fallbacks-total": fallbacks or {},
        "remote-fetch-records-total": store,
        "remote-fetch-request-total": 4,
        "remote-fetch-hedges-total": 1,
        "remote-fetch-location-request-total": 2,
    }
    return {"started_seconds": list(starts), "records": 10, "metrics": metrics}


def test_a_partition_without_a_record_counts_as_not_started() -> None:
    found = figures(4, result(0.1, 0.2, 0.3))
    assert (found["first_seconds"], found["half_seconds"], found["last_seconds"]) == (0.1, 0.3, math.inf)
    assert figures(1, result())["first_seconds"] == math.inf


def test_a_row_has_medians_and_the_worst_share_and_fallbacks() -> None:
    runs = [figures(2, result(0.1, last, store=store)) for last, store in ((0.2, 10), (0.4, 9), (0.9, 10))]
    runs.append(figures(2, result(0.1, 0.4, fallbacks={"location-unavailable": 2, "corrupt": 1})))
    made = row(2, 50, runs)
    assert (made["partitions"], made["latency_ms"], made["last_seconds"]) == (2, 50, 0.4)
    assert (made["share"], made["fallbacks"]) == (0.9, 3)


@pytest.mark.parametrize(
    ("partitions", "last", "misses"),
    [(100, 1.6, []), (100, 1.61, ["last_seconds"]), (1000, 20.0, []), (1000, 20.1, ["last_seconds"])],
)
def test_the_last_partition_has_its_time(partitions: int, last: float, misses: list[str]) -> None:
    made = row(partitions, 50, [figures(2, result(0.3, last))])
    assert [name for line in missed(made) for name in ("first_seconds", "last_seconds") if name in line] == misses


def test_the_first_record_the_share_and_fallbacks_have_targets() -> None:
    made = row(2, 50, [figures(2, result(0.31, 0.4, store=9, fallbacks={"corrupt": 1}))])
    assert [line.split(": ")[2].split()[0] for line in missed(made)] == ["first_seconds", "fallbacks", "share"]
