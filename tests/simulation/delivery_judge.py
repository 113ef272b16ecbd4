"""Judges each call of a consumer when it returns: what it delivered, by the log. The invariants judge the rest at the end.

====  =============================================================================================================
I3    offsets rise in a span
I4    no record between two delivered ones is left out, nor between a span's start and its first record
I5    a record is the log's, with all its fields
I6    no record of an aborted transaction, and none without an outcome, is delivered under read_committed
I7    nothing is delivered after a partition was given up, nor while it is paused
====  =============================================================================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_remote_client.model import IsolationLevel
from tests.simulation.judge import ViolationError
from tests.support.history import Event, Polled, Record
from tests.support.invariants.spans import Span, Walker

if TYPE_CHECKING:
    from tests.simulation.topic_logs import LedPartition

__all__ = ["DeliveryJudge"]


class DeliveryJudge:
    """Follows the history of all consumers of a world."""

    def __init__(self, partitions: Sequence[LedPartition], level: IsolationLevel) -> None:
        self._partitions = partitions
        self._level = level
        self._walker = Walker()
        self._judged = 0
        self._next: dict[int, int] = {}
        """The next offset of each span, by the span's identity. The walker keeps all spans."""

    def judge(self, events: Sequence[Event]) -> None:
        """``events``: the whole history. Looks at what is new. Raises ViolationError."""
        for event in events[self._judged :]:
            self._walker.see(event)
            if isinstance(event, Polled):
                self._delivered(event)
        self._judged = len(events)

    def _delivered(self, event: Polled) -> None:
        strays = self._walker.walk.strays
        if strays:
            raise ViolationError("I7", f"{event.consumer}: the record at {strays[0].record.offset} came {strays[0].why}")
        for record in event.records:
            self._one(self._walker.open[event.consumer, record.place], record)

    def _one(self, span: Span, record: Record) -> None:
        where, log = f"{span.consumer}, {span.key[0]}-{span.key[1]}", self._partitions[span.key[1]].log
        offset, at = record.offset, self._next.get(id(span), span.start)
        self._next[id(span)] = offset + 1
        (entry,) = log.entries(offset, offset + 1) or (None,)
        if entry is None or (record.leader_epoch, record.value) != (entry.epoch, entry.value):
            raise ViolationError("I5", f"{where}: the record at {offset} is not the log's")
        if record.timestamp is None or record.timestamp[1] != entry.time_ms:
            raise ViolationError("I5", f"{where}: the record at {offset} has the timestamp {record.timestamp}")
        if offset >= log.stable_end(self._level) or log.is_hidden(self._level, offset):
            raise ViolationError("I6", f"{where}: the record at {offset} is aborted, or has no outcome")
        if at is None:
            return
        if offset < at:
            raise ViolationError("I3", f"{where}: the record at {offset} comes after {at - 1}")
        skipped = log.records(self._level, max(at, span.floor), offset)
        if skipped:
            raise ViolationError("I4", f"{where}: from {at} on the record at {skipped[0].offset} is skipped")
