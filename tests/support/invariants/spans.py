"""A history as spans: one consumer reads one partition, from its start until an event that ends or moves the read.

::

    assign, seek                                                       seek, revoke, unassign, assign, close
         │  start ──► delivery, delivery, (paused) ... delivery, end  │
         └──────────────────────────── a span ────────────────────────┘

A truncation of the log below the end of a span ends it too, and reading continues from the cut. For spans from before a cut,
only offsets below it can be compared.

A record outside of every span, or while its partition is paused, is a stray. This module checks nothing.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import attrs
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID

from tests.support.history import (
    Assigned,
    Closed,
    Event,
    History,
    Key,
    Moved,
    Opened,
    Paused,
    Polled,
    Record,
    Resumed,
    Revoked,
    Sought,
)

__all__ = ["Delivery", "Span", "Stray", "Walk", "Walker", "walk"]


@attrs.frozen
class Delivery:
    """A record and the call that gave it."""

    event: Polled
    record: Record


@attrs.frozen
class Stray:
    """A record without a reason. ``why``: "while paused", "after …" the end of the assignment, "never assigned"."""

    event: Polled
    record: Record
    why: str


@attrs.define
class Span:
    """``start``: the first offset to read, None if not known. ``end``: the reported end of the partition.

    ``opened`` "assign", "seek" or "cut", ``before`` the span that a seek or a cut ended, ``floor`` where the log began when it
    was read last, ``cut`` the lowest offset to which the log was cut since, ``ends`` each word of the partition's end: its
    event, its offset, and how many records had been delivered by then.
    """

    consumer: str
    key: Key
    start: int | None
    opened: str
    began: Event
    from_commit: bool = False
    before: Span | None = None
    ended: Event | None = None
    end: int | None = None
    ends: list[tuple[Event, int, int]] = attrs.field(factory=list)
    floor: int = 0
    cut: int | None = None
    deliveries: list[Delivery] = attrs.field(factory=list)

    @property
    def position(self) -> int | None:
        """The offset after all delivered records and reported gaps; None if there are none."""
        last = self.deliveries[-1].record.offset + 1 if self.deliveries else None
        return self.end if last is None else max(last, self.end or 0)

    @property
    def first_wanted(self) -> int | None:
        """The required start; if that is not known, the first delivered offset. At the log's start at the earliest."""
        start = self.deliveries[0].record.offset if self.start is None and self.deliveries else self.start
        return None if start is None else max(start, self.floor)

    def begins_at(self, logical: int) -> bool:
        """Whether it begins at this logical offset, wherever that is."""
        began = self.began
        places = began.places if isinstance(began, Assigned) else (began.place,) if isinstance(began, Sought) else ()
        return any(place.key == self.key and place.offset == logical for place in places)

    def __str__(self) -> str:
        return f"{self.consumer}'s read of {self.key[0]}-{self.key[1]} from {self.start}, begun by event {self.began.number}"


@attrs.define
class Walk:
    """All spans, in the order in which they began, and all strays."""

    spans: list[Span] = attrs.field(factory=list)
    strays: list[Stray] = attrs.field(factory=list)


class Walker:
    """Goes through events one by one: :meth:`see`. ``walk``: what they have shown so far, ``open``: the spans that go on."""

    def __init__(self) -> None:
        self.walk = Walk()
        self.open: dict[tuple[str, Key], Span] = {}
        self.gone: dict[tuple[str, Key], str] = {}
        self.paused: set[tuple[str, Key]] = set()
        self.floors: dict[Key, int] = {}
        self.resets: dict[str, str] = {}

    def begin(
        self, event: Event, key: Key, offset: int, opened: str, *, from_commit: bool = False, consumer: str | None = None
    ) -> None:
        owner = event.consumer if consumer is None else consumer
        before = self.open.get((owner, key))
        self.end(event, key, opened, owner)
        start = offset if offset >= 0 else self.floors.get(key, 0) if offset == OFFSET_BEGINNING else None
        span = Span(owner, key, start, opened, event, from_commit, before, floor=self.floors.get(key, 0))
        self.open[owner, key] = span
        self.walk.spans.append(span)

    def end(self, event: Event, key: Key, why: str, consumer: str | None = None) -> None:
        owner = event.consumer if consumer is None else consumer
        span = self.open.pop((owner, key), None)
        if span is not None:
            span.ended = event
            self.gone[owner, key] = f"after {why}"

    def end_all(self, event: Event, why: str) -> None:
        for consumer, key in list(self.open):
            if consumer == event.consumer:
                self.end(event, key, why)

    def cut(self, event: Moved, end: int) -> None:
        for span in [span for span in self.walk.spans if span.key == event.key]:
            span.cut = end if span.cut is None else min(span.cut, end)
        for (consumer, key), span in list(self.open.items()):
            if key == event.key and (span.position or 0) > end:
                # rd_kafka_toppar_handle_OffsetForLeaderEpoch() seeks there, unless the policy for resets is "error".
                anew = OFFSET_INVALID if self.resets.get(consumer) == "error" else end
                self.begin(event, key, anew, "cut", consumer=consumer)

    def see(self, event: Event) -> None:
        """The next event."""
        match event:
            case Polled():
                self.polled(event)
            case Assigned() | Revoked() | Sought() | Closed():
                self.moved_on(event)
            case Paused():
                self.paused |= {(event.consumer, key) for key in event.keys}
            case Resumed():
                self.paused -= {(event.consumer, key) for key in event.keys}
            case Moved():
                self.floors[event.key] = max(self.floors.get(event.key, 0), event.log_start)
                for (_, key), span in self.open.items():
                    if key == event.key:
                        span.floor = self.floors[key]
                if event.end is not None:
                    self.cut(event, event.end)
            case Opened():
                self.resets[event.consumer] = event.reset
            case _:
                pass

    def moved_on(self, event: Assigned | Revoked | Sought | Closed) -> None:
        if isinstance(event, Assigned):
            if not event.incremental:
                self.end_all(event, "assign")
            for place in event.places:
                self.begin(event, place.key, place.offset, "assign", from_commit=place.key in event.committed)
        elif isinstance(event, Revoked):
            for key in event.keys:
                self.end(event, key, "being lost" if event.lost else "being revoked")
        elif isinstance(event, Closed):
            self.end_all(event, "close")
            self.paused = {place for place in self.paused if place[0] != event.consumer}
        elif (event.consumer, event.place.key) in self.open:
            self.begin(event, event.place.key, event.place.offset, "seek")

    def polled(self, event: Polled) -> None:
        for record in event.records:
            place = event.consumer, record.place
            span = self.open.get(place)
            if span is None:
                self.walk.strays.append(Stray(event, record, self.gone.get(place, "never assigned")))
                continue
            if place in self.paused:
                self.walk.strays.append(Stray(event, record, "while paused"))
            span.deliveries.append(Delivery(event, record))
        for failure in event.errors:
            if failure.is_end and failure.key is not None and failure.offset is not None:
                span = self.open.get((event.consumer, failure.key))
                if span is not None:
                    span.end = failure.offset
                    span.ends.append((event, failure.offset, len(span.deliveries)))


_WALKED: WeakKeyDictionary[History, tuple[list[Event], Walk]] = WeakKeyDictionary()


def walk(history: History) -> Walk:
    """Goes through a history. The invariants that judge the same events share the result, and do not change it."""
    known = _WALKED.get(history)
    if known is not None and known[0] == history.events:
        return known[1]
    walker = Walker()
    for event in history:
        walker.see(event)
    _WALKED[history] = list(history.events), walker.walk
    return walker.walk
