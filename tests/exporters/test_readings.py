from __future__ import annotations

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.exporters.readings import Reading, readings
from kafka_remote_client.metrics import BY_BOUND, BY_CAUSE, BY_PARTITION, COUNTERS, METRICS, FetchMetrics


def test_each_metric_is_one_reading_or_one_for_each_cause() -> None:
    metrics = FetchMetrics(SystemClock())
    metrics.fallback("timeout")
    metrics.fallback("timeout")
    metrics.error("not-found")
    found = list(readings(metrics.snapshot()))
    assert {reading.name for reading in found} == set(METRICS) - BY_PARTITION
    assert Reading("remote-fetch-fallbacks-total", 2, {"cause": "timeout"}) in found
    assert Reading("remote-fetch-errors-total", 1, {"cause": "not-found"}) in found
    assert Reading("remote-fetch-request-total", 0) in found
    assert Reading("remote-fetch-latency-seconds-bucket", 0, {"le": "+Inf"}) in found


def test_partitions_of_any_topic_name_are_distinguished() -> None:
    found = readings({"remote-fetch-partition-tier": {"a-b.c_d-0": 1, "a-12": 0}})
    assert list(found) == [
        Reading("remote-fetch-partition-tier", 1, {"topic": "a-b.c_d", "partition": "0"}),
        Reading("remote-fetch-partition-tier", 0, {"topic": "a", "partition": "12"}),
    ]


def test_only_metrics_that_never_fall_are_counters() -> None:
    assert "remote-fetch-fallbacks-total" in COUNTERS
    assert COUNTERS.isdisjoint({"remote-fetch-latency-avg", "remote-fetch-buffer-bytes", "remote-fetch-request-rate"})
    assert COUNTERS.isdisjoint(BY_PARTITION)


def test_mappings_of_a_snapshot_are_by_cause_or_partition() -> None:
    snapshot = FetchMetrics(SystemClock()).snapshot()
    assert {name for name, value in snapshot.items() if isinstance(value, dict)} == BY_CAUSE | BY_PARTITION | BY_BOUND
