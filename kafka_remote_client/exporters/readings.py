"""The metrics of docs/metrics.md as readings: a name, a kind, a number, and a cause where they are counted by cause. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from kafka_remote_client.metrics import METRICS, Snapshot

__all__ = ["COUNTERS", "Reading", "readings"]

COUNTERS = frozenset(name for name in METRICS if name.endswith("-total"))
"""The metrics that only grow; all others are gauges."""


@attrs.frozen
class Reading:
    """One number. ``cause`` is empty where a metric is not counted by cause."""

    name: str
    value: float
    cause: str = ""


def readings(snapshot: Snapshot) -> Iterator[Reading]:
    """All numbers of a snapshot."""
    for name, value in snapshot.items():
        if isinstance(value, Mapping):
            yield from (Reading(name, count, cause) for cause, count in value.items())
        else:
            yield Reading(name, value)
