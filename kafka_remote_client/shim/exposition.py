"""The shim's metrics in Prometheus' text format. Needs the extra ``prometheus``.

A counter ``locations_granted`` becomes ``kafka_remote_shim_locations_granted_total``; what is counted by reason, such as
``locations_refused.format``, has the reason as the label ``why``. Gauges keep their names. What each client was
granted of each topic has the labels ``client`` and ``topic``.

References: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kafka_remote_client.errors import missing_extra
from kafka_remote_client.shim.durations import BOUNDS

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

__all__ = ["GAUGES", "exposition"]

_PREFIX = "kafka_remote_shim_"

GAUGES = frozenset(
    {
        "buffered_bytes",
        "certificate_expiry_timestamp_seconds",
        "connections_open",
        "index_cache_bytes",
        "manifest_cache_bytes",
        "metadata_partitions_not_ready",
        "metadata_snapshot_age_seconds",
        "metadata_snapshot_segments_loaded",
    }
)
"""Names of numbers that can also decrease."""


def exposition(
    numbers: Mapping[str, int],
    lookups: tuple[list[int], float],
    granted: Mapping[tuple[str, str], tuple[int, int]],
) -> bytes:
    """The page of metrics. ``lookups``: what Durations.snapshot gives, ``granted``: GrantedTotals.snapshot.

    Raises MissingExtraError.
    """
    try:
        from prometheus_client import generate_latest  # noqa: PLC0415 - an extra
        from prometheus_client.registry import CollectorRegistry  # noqa: PLC0415
    except ImportError as error:
        raise missing_extra("the page /metrics", error, "prometheus") from None

    class Collected:
        def collect(self) -> Iterator[Metric]:
            yield from _families(numbers, lookups)
            yield from _by_client(granted)

    registry = CollectorRegistry()
    registry.register(Collected())
    return bytes(generate_latest(registry))


def _families(numbers: Mapping[str, int], lookups: tuple[list[int], float]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily  # noqa: PLC0415 - an extra

    by_name: dict[str, list[tuple[str, int]]] = {}
    for name, number in sorted(numbers.items()):
        family, _, why = name.partition(".")
        by_name.setdefault(family, []).append((why, number))
    for name, values in by_name.items():
        kind = GaugeMetricFamily if name in GAUGES else CounterMetricFamily
        labels = ["why"] if any(why for why, _ in values) else []
        counted = kind(_PREFIX + name, "See docs/shim.md, Counters.", labels=labels)
        for why, number in values:
            counted.add_metric([why] if labels else [], number)
        yield counted
    counts, total = lookups
    bounds = [*map(str, BOUNDS), "+Inf"]
    histogram = HistogramMetricFamily(_PREFIX + "lookup_seconds", "Time of look-ups in the tier.")
    histogram.add_metric([], list(zip(bounds, counts, strict=True)), total)
    yield histogram


def _by_client(granted: Mapping[tuple[str, str], tuple[int, int]]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily  # noqa: PLC0415 - an extra

    for place, what in enumerate(("ranges", "bytes")):
        counted = CounterMetricFamily(
            f"{_PREFIX}client_{what}_granted", f"{what.title()} granted to a client of a topic.", labels=["client", "topic"]
        )
        for pair, totals in granted.items():
            counted.add_metric(pair, totals[place])
        yield counted
