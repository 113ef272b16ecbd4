"""The progress of a partition's direct read, for applications: ``fetch.remote.progress.cb``.

The application gets a report for each partition that is read from the store at most once per interval, and again when the
partition leaves the store. The time left is an estimate at the pace of the last reports.

References: docs/consumer.md, "Progress of a long read".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

import attrs

from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.model import UNKNOWN_OFFSET

__all__ = ["Progress", "ProgressCallback", "ProgressReports", "ReadPace"]

_REPORTS_OF_A_PACE = 10


@attrs.frozen
class Progress:
    """One partition's direct read. ``offset`` is read next; at ``end_offset`` the broker's local log begins and takes over.

    ``record_bytes``: bytes of keys, values and headers that came from the store since the partition was assigned.
    ``seconds_left``: ``None`` until there is a pace.
    """

    topic: str
    partition: int
    offset: int
    end_offset: int
    record_bytes: int
    seconds_left: float | None


ProgressCallback = Callable[[Progress], object]


class ReadPace:
    """Offsets a second, by the last few reports of one read."""

    def __init__(self) -> None:
        self._reports: deque[tuple[float, int]] = deque(maxlen=_REPORTS_OF_A_PACE)

    def seconds_left(self, now: float, offset: int, end: int) -> float | None:
        """The time from ``offset`` to ``end``; ``now`` in seconds. A place before the last one begins a new read."""
        if self._reports and offset < self._reports[-1][1]:
            self._reports.clear()
        self._reports.append((now, offset))
        if offset >= end:
            return 0.0
        since, first = self._reports[0]
        return None if offset == first else (end - offset) * (now - since) / (offset - first)


class ProgressReports:
    """Decides which reports are due: ``interval`` in seconds. Not thread-safe: only the application's calls use it."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next = 0.0
        self._paces: dict[PartitionFlow, ReadPace] = {}

    def due(self, now: float, flows: Iterable[PartitionFlow]) -> list[Progress]:
        """Returns the reports that are due at ``now``, in seconds: none before the interval is over."""
        if now < self._next:
            return []
        before, self._paces = self._paces, {}
        reports = []
        for flow in flows:
            pace = before.get(flow)
            if flow.route is Route.REMOTE:
                self._paces[flow] = pace = pace or ReadPace()
            end = flow.bounds.earliest_local
            if pace is not None and not flow.paused and end != UNKNOWN_OFFSET:
                offset = flow.next_offset
                left = pace.seconds_left(now, offset, end)
                reports.append(Progress(flow.topic, flow.partition, offset, max(offset, end), flow.record_bytes, left))
        if reports:  # otherwise the first report would be an interval late
            self._next = now + self._interval
        return reports
