"""Follows the history of all consumers of a world, call by call, for delivery_judge.py and replaced_log_judge.py."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_END

from kafka_remote_client.model import IsolationLevel
from tests.simulation.judge import ViolationError
from tests.support.history import Committed, Event, Opened, Place, Polled, Positioned, Record, Stored
from tests.support.invariants.spans import Span, Walker

if TYPE_CHECKING:
    from tests.simulation.topic_logs import LedPartition

__all__ = ["HistoryJudge"]


class HistoryJudge(ABC):
    """Tells its subclass each start, record, position and commit. I7 it judges itself."""

    def __init__(self, partitions: Sequence[LedPartition], level: IsolationLevel) -> None:
        self._partitions = partitions
        self._level = level
        self._walker = Walker()
        self._judged = 0
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
        commits: list[tuple[str, Place]] = []
        for event in events[self._judged :]:
            self._walker.see(event)
            self._note_starts()
            if isinstance(event, Polled):
                self._delivered(event)
            elif isinstance(event, Positioned):
                for place in event.places:
                    self._positioned(event.consumer, place)
            elif isinstance(event, Opened):
                self._groups[event.consumer] = event.group
            elif isinstance(event, Stored) or (isinstance(event, Committed) and event.seen):
                for place in event.places:
                    self._reach(event.consumer, place.partition, place.offset)
            elif isinstance(event, Committed):
                commits += [(event.consumer, place) for place in event.places if self._has_limit(event.consumer, place)]
        for consumer, place in commits:  # a call may commit before it returns the records
            self._committed(consumer, place)
        self._judged = len(events)

    def judge_ends(self) -> None:  # noqa: B027 - not each judge has a rule for it
        """All has come that comes. Raises ViolationError if a read that goes on lacks a record."""

    # -- what a subclass judges ----------------------------------------------------------------------------------------------

    def _started(self, span: Span, start: int) -> None:  # noqa: B027 - not each judge keeps starts
        """A read begins at an offset that is known."""

    @abstractmethod
    def _one(self, span: Span, record: Record) -> None:
        """A record was delivered."""

    @abstractmethod
    def _position(self, span: Span, place: Place) -> None:
        """The application was told a position of a read that goes on."""

    @abstractmethod
    def _commit(self, consumer: str, place: Place, limit: int) -> None:
        """An offset was committed. ``limit``: up to where the group has got records."""

    @staticmethod
    def _name(span: Span) -> str:
        return f"{span.consumer}, {span.key[0]}-{span.key[1]}"

    # -- events --------------------------------------------------------------------------------------------------------------

    def _note_starts(self) -> None:
        spans = self._walker.walk.spans
        for span in spans[self._spans :]:
            consumer, partition = span.consumer, span.key[1]
            place = self._groups[consumer], partition
            if span.begins_at(OFFSET_END):
                self._at_the_end.add(place)
            elif span.start is not None:
                if place in self._at_the_end:  # it may have passed markers there
                    self._reach(consumer, partition, self._partitions[partition].log.end)
                self._reach(consumer, partition, span.start)
                self._started(span, span.start)
        self._spans = len(spans)

    def _reach(self, consumer: str, partition: int, offset: int) -> None:
        place = self._groups[consumer], partition
        self._limits[place] = max(self._limits.get(place, -1), offset)
        self._at_the_end.discard(place)

    def _delivered(self, event: Polled) -> None:
        strays = self._walker.walk.strays
        if strays:
            raise ViolationError("I7", f"{event.consumer}: the record at {strays[0].record.offset} came {strays[0].why}")
        for record in event.records:
            self._reach(event.consumer, record.partition, record.offset + 1)
            self._one(self._walker.open[event.consumer, record.place], record)

    def _positioned(self, consumer: str, place: Place) -> None:
        span = self._walker.open.get((consumer, place.key))
        if span is not None and place.offset >= 0:
            self._position(span, place)

    def _has_limit(self, consumer: str, place: Place) -> bool:
        """Not if the first record of a read that began at the end comes later, and may come from another log."""
        return (self._groups[consumer], place.partition) not in self._at_the_end

    def _committed(self, consumer: str, place: Place) -> None:
        limit = self._limits.get((self._groups[consumer], place.partition), -1)
        if limit >= 0 and self._has_limit(consumer, place):
            self._commit(consumer, place, limit)
