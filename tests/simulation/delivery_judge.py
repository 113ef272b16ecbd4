"""Judges each call of a consumer when it returns: what it delivered, by the log. The invariants judge the rest at the end.

====  =============================================================================================================
I2    a read that starts at a committed offset delivers nothing below it
I3    offsets rise in a span
I4    no record between two delivered ones is left out, nor between a span's start and its first record
I5    a record is the log's, with all its fields
I6    no record of an aborted transaction, and none without an outcome, is delivered under read_committed
I7    nothing is delivered after a partition was given up, nor while it is paused
I8    a position does not pass a record that was not delivered, nor does a commit, to whichever member of the group
====  =============================================================================================================

Only at the end: I1 of the last records before a position (between records it is I4), I2 of two members (group_judgement.py),
I8's leader epochs, I9 (the standstill of a whole world is J9), I10, I11 of threads and sockets (memory is J7), and I12.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_remote_client.model import IsolationLevel
from tests.simulation.history_judge import HistoryJudge
from tests.simulation.judge import ViolationError
from tests.support.history import Place, Record
from tests.support.invariants.spans import Span

if TYPE_CHECKING:
    from tests.simulation.topic_logs import LedPartition

__all__ = ["DeliveryJudge"]


class DeliveryJudge(HistoryJudge):
    """Judges consumers of partitions that keep their logs."""

    def __init__(self, partitions: Sequence[LedPartition], level: IsolationLevel) -> None:
        super().__init__(partitions, level)
        self._next: dict[int, int] = {}
        """The next offset of each span, by the span's identity. The walker keeps all spans."""

    def _position(self, span: Span, place: Place) -> None:
        limit = self._next.get(id(span), span.start)
        if limit is not None:
            self._passes("the position", span.consumer, place, limit)

    def _commit(self, consumer: str, place: Place, limit: int) -> None:
        self._passes("the commit", consumer, place, limit)

    def _passes(self, what: str, consumer: str, place: Place, limit: int) -> None:
        if place.offset <= limit:
            return
        start = max(limit, self._walker.floors.get(place.key, 0))
        passed = self._partitions[place.partition].log.records(self._level, start, place.offset)
        if passed:
            text = f"{what} {place.offset} of orders-{place.partition} passes the record at {passed[0].offset}"
            raise ViolationError("I8", f"{consumer}: {text}")

    def _one(self, span: Span, record: Record) -> None:
        where, log = self._name(span), self._partitions[span.key[1]].log
        offset, at = record.offset, self._next.get(id(span), span.start)
        is_first = id(span) not in self._next
        self._next[id(span)] = offset + 1
        (entry,) = log.entries(offset, offset + 1) or (None,)
        if entry is None or (record.leader_epoch, record.value) != (entry.epoch, entry.value):
            raise ViolationError("I5", f"{where}: the record at {offset} is not the log's")
        if record.timestamp is None or record.timestamp[1] != entry.time_ms:
            raise ViolationError("I5", f"{where}: the record at {offset} has the timestamp {record.timestamp}")
        if not log.is_visible(self._level, offset):
            raise ViolationError("I6", f"{where}: the record at {offset} is aborted, or has no outcome")
        if at is None:
            return
        if offset < at:
            raise ViolationError("I2" if is_first else "I3", f"{where}: the record at {offset} comes after {at - 1}")
        skipped = log.records(self._level, max(at, span.floor), offset)
        if skipped:
            raise ViolationError("I4", f"{where}: from {at} on the record at {skipped[0].offset} is skipped")
