"""The metrics of docs/metrics.md as readings: a name, a number, and labels where it is one of many. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from kafka_remote_client.metrics import BY_BOUND, BY_PARTITION, Snapshot

__all__ = ["Reading", "readings"]


@attrs.frozen
class Reading:
    """One number. ``labels``: ``cause`` where a metric is counted by cause, ``topic`` and ``partition`` where by partition.

    Those of a histogram have ``le``, the upper bound in seconds.
    """

    name: str
    value: float
    labels: Mapping[str, str] = attrs.field(factory=dict)


def readings(snapshot: Snapshot) -> Iterator[Reading]:
    """All numbers of a snapshot."""
    for name, value in snapshot.items():
        if isinstance(value, Mapping):
            labels = _partition if name in BY_PARTITION else _bound if name in BY_BOUND else _cause
            yield from (Reading(name, number, labels(key)) for key, number in value.items())
        else:
            yield Reading(name, value)


def _cause(key: str) -> dict[str, str]:
    return {"cause": key}


def _bound(key: str) -> dict[str, str]:
    return {"le": key}


def _partition(key: str) -> dict[str, str]:
    topic, _, number = key.rpartition("-")
    return {"topic": topic, "partition": number}
