"""Metrics for OpenTelemetry: observable instruments of a meter, which ask a consumer when they are read.

A metric ``remote-fetch-request-total`` becomes the instrument ``kafka.remote-fetch-request-total``; where it is counted by
cause, its observations have the attribute ``cause``, and a metric by partition has ``topic`` and ``partition``. The API
has no observable histogram: a histogram is two counters, ``…-bucket`` with the attribute ``le`` and ``…-sum``. A consumer that
the application drops is observed no longer.

References: docs/metrics.md, https://opentelemetry.io/docs/specs/otel/metrics/api/.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from weakref import ref

from kafka_remote_client.errors import missing_extra
from kafka_remote_client.exporters.readings import readings
from kafka_remote_client.metrics import COUNTERS, METRICS, HasMetrics

try:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
except ImportError as error:
    raise missing_extra("an exporter to OpenTelemetry", error, "otel") from None

__all__ = ["observe"]

_PREFIX = "kafka."
_MILLISECONDS, _SECONDS, _BYTES, _NONE = "ms", "s", "By", "1"


def observe(meter: Meter, consumer: HasMetrics, attributes: Mapping[str, str] | None = None) -> None:
    """Shows a consumer's metrics by instruments of ``meter``; ``attributes`` go with each observation.

    Several consumers need a meter, or attributes, each of their own.
    """
    weakly = ref(consumer)
    for name, meaning in METRICS.items():
        make = meter.create_observable_counter if name in COUNTERS else meter.create_observable_gauge
        make(_PREFIX + name, [_callback(weakly, name, dict(attributes or {}))], _unit(name), meaning)


def _callback(
    weakly: Callable[[], HasMetrics | None], name: str, attributes: dict[str, str]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observations(_: CallbackOptions) -> Iterable[Observation]:
        consumer = weakly()
        if consumer is not None:
            for reading in readings({name: consumer.metrics()[name]}):
                yield Observation(reading.value, {**attributes, **reading.labels})

    return observations


def _unit(name: str) -> str:
    if name.endswith(("-bucket", "-seconds-sum")):
        return _SECONDS if name.endswith("-sum") else _NONE
    if "latency" in name or "time-total" in name:
        return _MILLISECONDS
    return _BYTES if name.endswith(("bytes", "bytes-total")) else _NONE
