"""The page of metrics has Prometheus's format."""

from __future__ import annotations

import sys

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.shim.durations import Durations
from kafka_remote_client.shim.exposition import exposition


def test_counters_gauges_and_the_histogram_can_be_read_back() -> None:
    durations = Durations()
    durations.add(0.2)
    numbers = {"connections": 3, "connections_open": 2, "locations_refused.format": 4, "locations_refused.not-tiered": 5}
    granted = {("app@192.0.2.1", "orders"): (2, 3500), ('a"b\n@192.0.2.1', "orders"): (1, 10)}
    page = exposition(numbers, durations.snapshot(), granted).decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    assert samples["kafka_remote_shim_connections_total",] == 3
    assert samples["kafka_remote_shim_connections_open",] == 2
    assert samples["kafka_remote_shim_locations_refused_total", "format"] == 4
    assert samples["kafka_remote_shim_locations_refused_total", "not-tiered"] == 5
    assert samples["kafka_remote_shim_lookup_seconds_bucket", "0.1"] == 0
    assert samples["kafka_remote_shim_lookup_seconds_bucket", "0.25"] == 1
    assert samples["kafka_remote_shim_lookup_seconds_count",] == 1
    assert samples["kafka_remote_shim_lookup_seconds_sum",] == 0.2
    assert samples["kafka_remote_shim_client_ranges_granted_total", "app@192.0.2.1", "orders"] == 2
    assert samples["kafka_remote_shim_client_bytes_granted_total", "app@192.0.2.1", "orders"] == 3500
    assert samples["kafka_remote_shim_client_bytes_granted_total", 'a"b\n@192.0.2.1', "orders"] == 10


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtraError, match=r"kafka-remote-client\[prometheus\]"):
        exposition({}, Durations().snapshot(), {})
