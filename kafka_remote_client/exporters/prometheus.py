"""Metrics for Prometheus: a collector to be registered once, to which consumers are added.

A metric ``remote-fetch-request-total`` becomes ``kafka_remote_fetch_request_total``, with the label ``client``, and ``cause``,
which is empty but where it is counted by cause. Those by partition have ``client``, ``topic`` and ``partition``.
Histograms such as ``kafka_remote_fetch_latency_seconds`` have ``client`` and ``le``. A consumer that
the application drops is forgotten with it.

References: docs/metrics.md, https://prometheus.io/docs/instrumenting/writing_clientlibs/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

from kafka_remote_client.errors import missing_extra
from kafka_remote_client.exporters.readings import readings
from kafka_remote_client.metrics import BY_PARTITION, COUNTERS, HISTOGRAMS, METRICS, HasMetrics, Snapshot

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.registry import Collector
except ImportError as error:
    raise missing_extra("an exporter to Prometheus", error, "prometheus") from None

__all__ = ["FetchCollector"]

_Family: TypeAlias = "CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily"

_PREFIX = "kafka_"
_LABELS = ("client", "cause")
_PARTITION_LABELS = ("client", "topic", "partition")


class FetchCollector(Collector):
    """Collects the metrics of every consumer that was added. ``REGISTRY.register(FetchCollector())`` shows them."""

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[HasMetrics, str] = WeakKeyDictionary()

    def add(self, consumer: HasMetrics, client: str) -> None:
        """Shows a consumer's metrics from now on under the name ``client``, which should be its own alone."""
        self._clients[consumer] = client

    def describe(self) -> Iterator[_Family]:
        """The families without numbers, so that registering asks no consumer."""
        yield from _families().values()
        yield from _histograms().values()

    def collect(self) -> Iterator[_Family]:
        """The numbers as they are now."""
        families, histograms = _families(), _histograms()
        for consumer, client in list(self._clients.items()):
            snapshot = consumer.metrics()
            for reading in readings({name: snapshot[name] for name in families}):
                labels = {"client": client, **reading.labels}
                families[reading.name].add_metric([labels.get(label, "") for label in _labels(reading.name)], reading.value)
            for name, histogram in histograms.items():
                counts, total = _numbers(snapshot, name)
                histogram.add_metric([client], list(counts.items()), total)
        yield from families.values()
        yield from histograms.values()


def _families() -> dict[str, CounterMetricFamily | GaugeMetricFamily]:
    return {
        name: (CounterMetricFamily if name in COUNTERS else GaugeMetricFamily)(_shown(name), meaning, labels=_labels(name))
        for name, meaning in METRICS.items()
        if not name.endswith(("-bucket", "-sum"))
    }


def _histograms() -> dict[str, HistogramMetricFamily]:
    return {name: HistogramMetricFamily(_shown(name), f"{what}.", labels=["client"]) for name, what in HISTOGRAMS.items()}


def _numbers(snapshot: Snapshot, name: str) -> tuple[Mapping[str, int], float]:
    counts, total = snapshot[f"{name}-bucket"], snapshot[f"{name}-sum"]
    assert isinstance(counts, Mapping)
    assert not isinstance(total, Mapping)
    return counts, total


def _shown(name: str) -> str:
    return _PREFIX + name.replace("-", "_")


def _labels(name: str) -> tuple[str, ...]:
    return _PARTITION_LABELS if name in BY_PARTITION else _LABELS
