from __future__ import annotations

import gc
import importlib
import sys
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.exporters import opentelemetry
from kafka_remote_client.exporters.opentelemetry import observe
from kafka_remote_client.metrics import METRICS
from tests.support.metered import MeteredClient


def observed(reader: InMemoryMetricReader) -> dict[str, Any]:
    """Returns the metrics by name, each with its points by cause."""
    data = reader.get_metrics_data()
    metrics = [] if data is None else data.resource_metrics[0].scope_metrics[0].metrics
    return {
        metric.name: (metric.unit, {_told_by(point.attributes): point.value for point in metric.data.data_points})
        for metric in metrics
    }


def _told_by(attributes: Any) -> str | None:
    assert attributes["client"] == "one"
    return (
        attributes.get("cause")
        or attributes.get("le")
        or (attributes["topic"] + "/" + attributes["partition"] if "topic" in attributes else None)
    )


def test_instruments_show_the_metrics_until_the_consumer_is_freed() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    client = MeteredClient()
    observe(provider.get_meter("tests"), client, {"client": "one"})
    client.counted.range_done(4096, 0.25)
    client.counted.fallback("timeout")
    client.tiers = {"orders-3": 1}
    found = observed(reader)
    assert found["kafka.remote-fetch-partition-tier"] == ("1", {"orders/3": 1})
    assert found["kafka.remote-fetch-bytes-total"] == ("By", {None: 4096})
    assert found["kafka.remote-fetch-latency-avg"] == ("ms", {None: 250.0})
    assert found["kafka.remote-fetch-fallbacks-total"] == ("1", {"timeout": 1})
    unit, counts = found["kafka.remote-fetch-latency-seconds-bucket"]
    assert (unit, counts["0.1"], counts["0.25"], counts["+Inf"]) == ("1", 0, 1, 1)
    assert found["kafka.remote-fetch-latency-seconds-sum"] == ("s", {None: 0.25})
    untold = {"remote-fetch-errors-total", "remote-fetch-partition-local-log-start-lag"}
    assert found.keys() == {f"kafka.{name}" for name in METRICS.keys() - untold}
    del client
    gc.collect()
    assert not any(points for _, points in observed(reader).values())
    provider.shutdown()


def test_without_the_package_the_error_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    with pytest.raises(MissingExtraError, match=r"kafka-remote-client\[otel\]"):
        importlib.reload(opentelemetry)
