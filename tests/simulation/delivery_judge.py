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
from tests.simulation.judge import ViolationError
from tests.support.history import Committed, Event, Opened, Place, Polled, Positioned, Record, Stored
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
        self._groups: dict[str, str] = {}
        self._spans = 0
        self._limits: dict[tuple[str, int], int] = {}
        """Up to where the members of a group got records, began, or know a committed offset, by group and partition.

        It never falls: a commit of what came before a seek may end after it.
        """
        self._at_the_end: set[tuple[str, int]] = set()
        """Groups and partitions without a limit, because a read that begins at the end is there only with its first record."""

    def judge(self, events: Sequence[Event]) -> None:
        """``events``: the whole history. Looks at what is new. Raises ViolationError."""
        new = events[self._judged :]
        for event in new:
            self._walker.see(event)
            self._note_starts()
            if isinstance(event, Polled):
                self._delivered(event)
            elif isinstance(event, Positioned):
                for place in event.places:
                    self._position(event.consumer, place)
            elif isinstance(event, Opened):
                self._groups[event.consumer] = event.group
            elif isinstance(event, Stored) or (isinstance(event, Committed) and event.seen):
                for place in event.places:
                    self._reach(event.consumer, place.partition, place.offset)
        for event in new:  # a call may commit before it returns the records
            if isinstance(event, Committed) and not event.seen:
                for place in event.places:
                    self._commit(event.consumer, place)
        self._judged = len(events)

    def _note_starts(self) -> None:
        spans = self._walker.walk.spans
        for span in spans[self._spans :]:
            consumer, partition = span.consumer, span.key[1]
            place = self._groups[consumer], partition
            if span.begins_at_the_end:
                self._at_the_end.add(place)
            elif span.start is not None:
                if place in self._at_the_end:  # it may have passed markers there
                    self._reach(consumer, partition, self._partitions[partition].log.end)
                self._reach(consumer, partition, span.start)
        self._spans = len(spans)

    def _reach(self, consumer: str, partition: int, offset: int) -> None:
        place = self._groups[consumer], partition
        self._limits[place] = max(self._limits.get(place, -1), offset)
        self._at_the_end.discard(place)

    def _position(self, consumer: str, place: Place) -> None:
        span = self._walker.open.get((consumer, place.key))
        if span is not None:
            self._passes("the position", consumer, place, self._next.get(id(span), span.start))

    def _commit(self, consumer: str, place: Place) -> None:
        of_group = self._groups[consumer], place.partition
        self._passes("the commit", consumer, place, None if of_group in self._at_the_end else self._limits.get(of_group))

    def _passes(self, what: str, consumer: str, place: Place, limit: int | None) -> None:
        if limit is None or limit < 0 or place.offset <= limit:
            return
        start = max(limit, self._walker.floors.get(place.key, 0))
        passed = self._partitions[place.partition].log.records(self._level, start, place.offset)
        if passed:
            text = f"{what} {place.offset} of orders-{place.partition} passes the record at {passed[0].offset}"
            raise ViolationError("I8", f"{consumer}: {text}")

    def _delivered(self, event: Polled) -> None:
        strays = self._walker.walk.strays
        if strays:
            raise ViolationError("I7", f"{event.consumer}: the record at {strays[0].record.offset} came {strays[0].why}")
        for record in event.records:
            self._one(self._walker.open[event.consumer, record.place], record)

    def _one(self, span: Span, record: Record) -> None:
        where, log = f"{span.consumer}, {span.key[0]}-{span.key[1]}", self._partitions[span.key[1]].log
        offset, at = record.offset, self._next.get(id(span), span.start)
        is_first = id(span) not in self._next
        self._next[id(span)] = offset + 1
        self._reach(span.consumer, span.key[1], offset + 1)
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
            raise ViolationError("I2" if is_first else "I3", f"{where}: the record at {offset} comes after {at - 1}")
        skipped = log.records(self._level, max(at, span.floor), offset)
        if skipped:
            raise ViolationError("I4", f"{where}: from {at} on the record at {skipped[0].offset} is skipped")
