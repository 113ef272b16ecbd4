"""What ``stats_cb`` is told: librdkafka's statistics, and under one more key the metrics of direct fetch.

References: librdkafka's STATISTICS.md, docs/metrics.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from weakref import ref

from kafka_remote_client.metrics import HasMetrics

__all__ = ["STATISTICS_KEY", "with_metrics_in_statistics"]

STATISTICS_KEY = "remote_fetch"


def with_metrics_in_statistics(settings: Mapping[str, object], consumer: HasMetrics) -> dict[str, object]:
    """A consumer's settings, in which ``stats_cb``, where there is one, gets JSON with its metrics under ``remote_fetch``.

    The consumer is not held: an application that drops it unclosed gets rid of it.
    """
    callback = settings.get("stats_cb")
    if not callable(callback):
        return dict(settings)

    weakly = ref(consumer)

    def with_metrics(statistics: str) -> object:
        told, alive = json.loads(statistics), weakly()
        if alive is not None:
            told[STATISTICS_KEY] = alive.metrics()
        return callback(json.dumps(told))

    return {**settings, "stats_cb": with_metrics}
