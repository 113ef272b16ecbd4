from __future__ import annotations

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.exporters.readings import COUNTERS, Reading, readings
from kafka_remote_client.metrics import METRICS, FetchMetrics


def test_each_metric_is_a_reading_or_one_for_each_cause() -> None:
    metrics = FetchMetrics(SystemClock())
    metrics.fallback("timeout")
    metrics.fallback("timeout")
    metrics.error("not-found")
    found = list(readings(metrics.snapshot()))
    assert {reading.name for reading in found} == set(METRICS)
    assert Reading("remote-fetch-fallbacks-total", 2, "timeout") in found
    assert Reading("remote-fetch-errors-total", 1, "not-found") in found
    assert Reading("remote-fetch-request-total", 0) in found


def test_what_only_grows_is_a_counter() -> None:
    assert "remote-fetch-fallbacks-total" in COUNTERS
    assert COUNTERS.isdisjoint({"remote-fetch-latency-avg", "remote-fetch-buffer-bytes", "remote-fetch-request-rate"})
