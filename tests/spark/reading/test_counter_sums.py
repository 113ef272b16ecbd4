from __future__ import annotations

from kafka_remote_client.metrics import METRICS, FetchMetrics
from kafka_remote_client.spark.reading.counter_sums import added, counted
from tests.support.locations import ManualClock

GETS, BYTES, LONGEST, ERRORS = (
    "remote-fetch-request-total",
    "remote-fetch-bytes-total",
    "remote-fetch-latency-max",
    "remote-fetch-errors-total",
)


def test_a_task_counts_what_it_added_to_its_engine() -> None:
    metrics = FetchMetrics(ManualClock())
    metrics.range_done(100, 0.5, "timeout")
    before = metrics.snapshot()
    metrics.range_done(30, 0.1)
    metrics.range_done(0, 0.2, "timeout")
    metrics.range_done(0, 0.2, "not-found")
    found = counted(before, metrics.snapshot())
    assert (found[GETS], found[BYTES], found[LONGEST]) == (3, 30, 500.0)
    assert found[ERRORS] == {"timeout": 1, "not-found": 1}
    assert found["remote-fetch-fallbacks-total"] == {}


def test_without_a_snapshot_before_all_counts() -> None:
    metrics = FetchMetrics(ManualClock())
    metrics.fallback("timeout")
    found = counted({}, metrics.snapshot())
    assert found["remote-fetch-fallbacks-total"] == {"timeout": 1}
    assert counted({ERRORS: 0, GETS: {"odd": 1}}, metrics.snapshot())[GETS] == 0


def test_only_additive_counters_are_kept() -> None:
    found = counted({}, FetchMetrics(ManualClock()).snapshot())
    assert set(found) == {name for name in METRICS if name.endswith(("-total", "-max"))}


def test_counters_of_tasks_are_added_up_except_the_longest_time() -> None:
    first = {GETS: 3, LONGEST: 7.0, ERRORS: {"timeout": 1}, "unknown": 1}
    second = {GETS: 4, LONGEST: 5.0, ERRORS: {"timeout": 2, "not-found": 1}, BYTES: 9}
    assert added([first, second]) == {
        GETS: 7,
        BYTES: 9,
        LONGEST: 7.0,
        ERRORS: {"timeout": 3, "not-found": 1},
    }
    assert added([]) == {}


def test_counters_of_different_kinds_are_not_added_up() -> None:
    assert added([{ERRORS: {"timeout": 1}}, {ERRORS: 5}]) == {ERRORS: {"timeout": 1}}
    assert added([{ERRORS: 5}, {ERRORS: {"timeout": 1}}]) == {ERRORS: {"timeout": 1}}
