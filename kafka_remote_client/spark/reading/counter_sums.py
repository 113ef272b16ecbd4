"""Counters of tasks: the difference that one task made to its engine's, and the sum of many tasks. Pure.

A Python worker keeps its engine for many tasks, so a task's counters are a difference of two snapshots of
:class:`~kafka_remote_client.metrics.FetchMetrics`. It keeps only totals, and maxima as the largest one.

References: docs/metrics.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kafka_remote_client.metrics import METRICS, Snapshot

__all__ = ["TaskCounters", "added", "counted"]

TaskCounters = dict[str, float | int | dict[str, int]]
"""Names of :data:`~kafka_remote_client.metrics.METRICS`; errors and fallbacks are mappings from cause to count."""


def counted(before: Snapshot, after: Snapshot) -> TaskCounters:
    """Returns the difference of two snapshots of one engine. Maxima are those of the engine's whole life."""
    found: TaskCounters = {}
    for name in _kept(after):
        now, then = after[name], before.get(name, 0)
        if isinstance(now, Mapping):
            earlier = then if isinstance(then, Mapping) else {}
            more = {cause: count - earlier.get(cause, 0) for cause, count in now.items()}
            found[name] = {cause: count for cause, count in more.items() if count > 0}
        elif name.endswith("-max"):
            found[name] = now
        else:
            found[name] = now - (0 if isinstance(then, Mapping) else then)
    return found


def added(many: Iterable[Snapshot]) -> TaskCounters:
    """The counters of all tasks in one. Names that some do not have are taken from those that have them."""
    found: TaskCounters = {}
    for counters in many:
        for name in _kept(counters):
            value, sum_so_far = counters[name], found.get(name, 0)
            if isinstance(value, Mapping):
                found[name] = dict(Counter(sum_so_far if isinstance(sum_so_far, dict) else {}) + Counter(value))
            elif not isinstance(sum_so_far, dict):
                found[name] = max(sum_so_far, value) if name.endswith("-max") else sum_so_far + value
    return found


def _kept(counters: Snapshot) -> list[str]:
    return [name for name in METRICS if name in counters and name.endswith(("-total", "-max"))]
