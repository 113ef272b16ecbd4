"""Metrics of each assigned partition: which tier it is read from, and how far it is from the local log's start."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.model import UNKNOWN_OFFSET

__all__ = ["partition_metrics"]


def partition_metrics(flows: Iterable[PartitionFlow]) -> dict[str, dict[str, int]]:
    """The metrics of docs/metrics.md that are told by partition. Any thread may ask; nobody is waited for.

    The lag counts from the record that is read next, on the broker path from where it was last looked. Partitions of which one
    of the two places is not known have none.
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
