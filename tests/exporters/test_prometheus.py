from __future__ import annotations

import gc
import importlib
import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.exporters import prometheus
from kafka_remote_client.exporters.prometheus import FetchCollector
from tests.support.metered import MeteredClient


def text_of(registry: CollectorRegistry) -> str:
    return generate_latest(registry).decode()


def test_consumers_are_distinguished_and_causes_are_labels() -> None:
    registry, collector = CollectorRegistry(), FetchCollector()
    registry.register(collector)
    first, second = MeteredClient(), MeteredClient()
    collector.add(first, "one")
    collector.add(second, "two")
    first.counted.range_done(4096, 0.25)
    second.counted.fallback("timeout")
    first.tiers = {"eu-orders-0": 1, "eu-orders-1": 0}
    shown = text_of(registry)
    assert 'kafka_remote_fetch_partition_tier{client="one",partition="0",topic="eu-orders"} 1.0' in shown
    assert 'kafka_remote_fetch_partition_tier{client="one",partition="1",topic="eu-orders"} 0.0' in shown
    assert 'kafka_remote_fetch_bytes_total{cause="",client="one"} 4096.0' in shown
    assert 'kafka_remote_fetch_bytes_total{cause="",client="two"} 0.0' in shown
    assert 'kafka_remote_fetch_fallbacks_total{cause="timeout",client="two"} 1.0' in shown
    assert "# TYPE kafka_remote_fetch_latency_avg gauge" in shown
    assert 'kafka_remote_fetch_latency_avg{cause="",client="one"} 250.0' in shown
    assert "# TYPE kafka_remote_fetch_latency_seconds histogram" in shown
    assert 'kafka_remote_fetch_latency_seconds_bucket{client="one",le="0.1"} 0.0' in shown
    assert 'kafka_remote_fetch_latency_seconds_bucket{client="one",le="0.25"} 1.0' in shown
    assert 'kafka_remote_fetch_latency_seconds_count{client="one"} 1.0' in shown
    assert 'kafka_remote_fetch_latency_seconds_sum{client="one"} 0.25' in shown


def test_registering_reads_no_metrics_and_drops_dead_consumers() -> None:
    registry, collector = CollectorRegistry(), FetchCollector()
    client = MeteredClient()
    collector.add(client, "gone")
    registry.register(collector)
    assert 'client="gone"' in text_of(registry)
    del client
    gc.collect()
    assert 'client="gone"' not in text_of(registry)


def test_without_the_package_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(MissingExtraError, match=r"kafka-remote-client\[prometheus\]"):
        importlib.reload(prometheus)
