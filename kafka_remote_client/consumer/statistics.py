"""Figures by partition: metrics, and librdkafka's statistics for ``stats_cb``, completed for direct reads.

While a partition is read directly, librdkafka does not fetch it, so it knows no end of the log and no lag. Our own values
replace them, with librdkafka's definitions:

=======================  =======================================================================================================
``hi_offset``            the high watermark of the last location or look-up
``ls_offset``            the last stable offset of the last location
``lo_offset``            the log's start
``app_offset``           the offset after the last record that the application got
``consumer_lag_stored``  the end of the log (``ls_offset`` under read_committed, else ``hi_offset``) less ``stored_offset``
``consumer_lag``         the end of the log less ``committed_offset``, or the committed offset that the partition began at
=======================  =======================================================================================================

``stored_offset`` and ``committed_offset`` are librdkafka's own.

References: librdkafka's STATISTICS.md and ``rd_kafka_stats_emit_toppar``, docs/metrics.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from weakref import ref

from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.metrics import Snapshot
from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel

__all__ = ["STATISTICS_KEY", "complete_statistics", "partition_metrics", "with_metrics_in_statistics"]

_C = TypeVar("_C")

STATISTICS_KEY = "remote_fetch"


def with_metrics_in_statistics(
    settings: Mapping[str, object], consumer: _C, metrics: Callable[[_C], Snapshot], complete: Callable[[dict[str, Any]], None]
) -> dict[str, object]:
    """Returns a consumer's settings, whose ``stats_cb``, if any, gets JSON with the metrics under ``remote_fetch``.

    ``metrics`` is the consumer's method, because an application's subclass may have another one of that name.
    ``complete`` adds the values of partitions that are read directly to librdkafka's statistics. It has no reference to the
    consumer: an application that drops it without close() frees it.
    """
    callback = settings.get("stats_cb")
    if not callable(callback):
        return dict(settings)

    weakly = ref(consumer)

    def with_metrics(text: str) -> object:
        statistics, alive = json.loads(text), weakly()
        if alive is not None:
            complete(statistics)
            statistics[STATISTICS_KEY] = metrics(alive)
        return callback(json.dumps(statistics))

    return {**settings, "stats_cb": with_metrics}


def complete_statistics(statistics: dict[str, Any], flows: Iterable[PartitionFlow], isolation_level: IsolationLevel) -> None:
    """Completes the entries of partitions that are read directly. See the module."""
    topics = statistics.get("topics", {})
    for flow in flows:
        entry = topics.get(flow.topic, {}).get("partitions", {}).get(str(flow.partition))
        if entry is None or flow.route is not Route.REMOTE:
            continue
        bounds = flow.bounds
        known = {"hi_offset": bounds.high_watermark, "ls_offset": bounds.last_stable, "lo_offset": bounds.log_start}
        entry.update({name: offset for name, offset in known.items() if offset >= 0})
        entry["app_offset"] = flow.position
        end = entry["ls_offset" if isolation_level is IsolationLevel.READ_COMMITTED else "hi_offset"]
        entry["consumer_lag_stored"] = _lag(end, entry["stored_offset"])
        entry["consumer_lag"] = _lag(end, max(entry["committed_offset"], flow.floor))


def _lag(end: int, place: int) -> int:
    return end - place if 0 <= place <= end else -1


def partition_metrics(flows: Iterable[PartitionFlow]) -> dict[str, dict[str, int]]:
    """The metrics of docs/metrics.md by partition. Any thread may ask, and never waits.

    The lag counts from the next record to read, on the broker path from the position at the last check. A partition has none
    if one of the two positions is not known.
    """
    tiers: dict[str, int] = {}
    lags: dict[str, int] = {}
    for flow in flows:
        name = f"{flow.topic}-{flow.partition}"
        tiers[name] = int(flow.route is Route.REMOTE)
        end, place = flow.bounds.earliest_local, flow.next_offset
        if end != UNKNOWN_OFFSET and place >= 0:
            lags[name] = max(0, end - place)
    return {"remote-fetch-partition-tier": tiers, "remote-fetch-partition-local-log-start-lag": lags}
