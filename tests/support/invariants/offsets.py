"""Positions: I8 (positions and commits), I10 (jumps of the log are reported)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise

from confluent_kafka import OFFSET_END

from tests.support.history import Closed, Committed, Event, History, Key, Moved, Opened, Place, Polled, Positioned, Stored
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, Walker, walk
from tests.support.invariants.violation import Violation, violation

__all__ = ["ahead", "unreported"]


def ahead(history: History, oracle: Oracle) -> list[Violation]:
    """I8: a position, or a commit, never passes an undelivered record; its leader epoch is that of the last one.

    librdkafka moves over markers and aborted records as soon as it has read them, so a position may be at the next record of
    the oracle, or at the oracle's end. A position is compared with the consumer's own span, a commit with all deliveries to any
    consumer of the group. Offsets that the application stored or sought, or that were committed before, are what it requested.
    """
    groups = {event.consumer: event.group for event in history.of(Opened)}
    spans = walk(history).spans
    requested = _Requested(groups, oracle)
    found = []
    for event in history:
        if isinstance(event, Positioned):
            for place in event.places:
                found += _position(event, place, spans, oracle)
        elif isinstance(event, Committed):
            for place in event.places:
                found += _commit(history, event, place, requested, oracle)
        requested.see(event)
    return found


class _Requested:
    """What consumers have requested and got so far, event by event."""

    def __init__(self, groups: Mapping[str, str], oracle: Oracle) -> None:
        self._groups = groups
        self._oracle = oracle
        self._walker = Walker()
        self._spans = 0
        self._stored: dict[Key, int] = {}
        self._limits: dict[tuple[str | None, Key], int] = {}
        self._at_the_end: set[tuple[str | None, Key]] = set()
        self._handed: defaultdict[tuple[str | None, Key], dict[int, int | None]] = defaultdict(dict)

    def see(self, event: Event) -> None:
        """The next event."""
        strays = len(self._walker.walk.strays)
        self._walker.see(event)
        for span in self._walker.walk.spans[self._spans :]:
            place = self._groups.get(span.consumer), span.key
            self._limits[place] = max(self._limits.get(place, -1), span.start or -1)
            if span.begins_at(OFFSET_END):
                self._at_the_end.add(place)
            elif span.start is not None and place in self._at_the_end:
                self._at_the_end.remove(place)
                self._limits[place] = max(self._limits[place], self._oracle.ends.get(span.key, -1))
        self._spans = len(self._walker.walk.spans)
        if isinstance(event, Stored) or (isinstance(event, Committed) and event.seen):
            for one in event.places:
                self._stored[one.key] = max(self._stored.get(one.key, -1), one.offset)
        elif isinstance(event, Polled):
            never = [stray.record for stray in self._walker.walk.strays[strays:] if stray.why != "while paused"]
            for record in event.records:
                if record not in never:
                    place, after = (self._groups.get(event.consumer), record.place), record.offset + 1
                    self._handed[place][after] = record.leader_epoch
                    self._limits[place] = max(self._limits[place], after)
                    self._at_the_end.discard(place)

    def limit(self, consumer: str, key: Key) -> int:
        """The highest offset that was stored, seen as committed, a start, or after a delivered record; -1 without any.

        It is not known (-1) from a start at the end of the log until the first record from there. If the next start comes
        before that record, it is the end of the log: the consumer may have passed markers there.
        """
        place = self._groups.get(consumer), key
        return -1 if place in self._at_the_end else max(self._stored.get(key, -1), self._limits.get(place, -1))

    def log_start(self, key: Key) -> int:
        """The offset below which the log has no records any more."""
        return self._walker.floors.get(key, 0)

    def handed(self, consumer: str, key: Key) -> Mapping[int, int | None]:
        """The offsets after the delivered records of the consumer's group, with the records' leader epochs."""
        return self._handed[self._groups.get(consumer), key]


def _position(event: Positioned, place: Place, spans: list[Span], oracle: Oracle) -> list[Violation]:
    if place.offset < 0:
        return []
    mine = [s for s in spans if (s.consumer, s.key) == (event.consumer, place.key) and _covers(s, event)]
    if not mine:
        return []
    span = mine[-1]
    handed = [d.record for d in span.deliveries if d.event.number < event.number]
    limit = handed[-1].offset + 1 if handed else span.start
    if limit is not None and place.offset > oracle.reach(place.key, max(limit, span.floor)):
        text = f"the position is {place.offset}, but only what lies below {limit} was handed out"
        return [violation("I8", text, span.began, event, key=place.key, offsets=[place.offset])]
    return _epoch(event, place, {record.offset + 1: record.leader_epoch for record in handed[-1:]}, "position")


def _commit(history: History, event: Committed, place: Place, requested: _Requested, oracle: Oracle) -> list[Violation]:
    limit, handed = requested.limit(event.consumer, place.key), requested.handed(event.consumer, place.key)
    if limit < 0:
        return []  # what was committed before this history began
    reach = oracle.reach(place.key, max(limit, requested.log_start(place.key)))
    if place.offset > reach and not _in_progress(history, event):
        text = f"{place.offset} is committed, but only what lies below {limit} was handed out"
        return [violation("I8", text, event, key=place.key, offsets=[place.offset])]
    return _epoch(event, place, handed, "commit")


def _in_progress(history: History, event: Event) -> bool:
    """Whether a delivering call had begun at this event: its records count although they are not recorded yet."""
    for later in history.events[event.number + 1 :]:
        if isinstance(later, Polled | Closed) and later.consumer == event.consumer:
            return isinstance(later, Polled) and later.began <= event.at and bool(later.records)
    return False


def _epoch(event: Event, place: Place, handed: Mapping[int, int | None], what: str) -> list[Violation]:
    """Without an epoch there is nothing to compare. A missing epoch after a record that has one is a violation."""
    epoch = handed.get(place.offset)
    if epoch is None or epoch < 0 or place.leader_epoch == epoch:
        return []
    text = f"the {what} has leader epoch {place.leader_epoch}, the record before it {epoch}"
    return [violation("I8", text, event, key=place.key, offsets=[place.offset])]


def _covers(span: Span, event: Event) -> bool:
    return span.began.number < event.number and (span.ended is None or span.ended.number >= event.number)


def unreported(history: History, oracle: Oracle) -> list[Violation]:
    """I10: lost records are reported as to the oracle.

    The errors of each partition equal the oracle's. With the policy "error", an error precedes a record after a gap that the
    moved log start left.
    """
    found = []
    met: dict[Key, list[int]] = {}
    for event in history.of(Polled):
        for failure in event.errors:
            if failure.key is not None and not failure.is_end:
                met.setdefault(failure.key, []).append(failure.code)
    for key in sorted({*met, *oracle.errors}):
        mine, theirs = Counter(set(met.get(key, ()))), Counter(set(oracle.errors.get(key, ())))
        if mine != theirs and oracle.has_partition(key):
            found.append(violation("I10", f"errors {sorted(mine)} came where the oracle got {sorted(theirs)}", key=key))
    resets = {event.consumer: event.reset for event in history.of(Opened)}
    for span in walk(history).spans:
        if resets.get(span.consumer) == "error":
            found += _silent_jumps(history, span)
    return found


def _silent_jumps(history: History, span: Span) -> list[Violation]:
    moves = [event for event in history.of(Moved) if event.key == span.key and event.log_start]
    found = []
    for one, two in pairwise(span.deliveries):
        jumped = [
            move
            for move in moves
            if one.record.offset + 1 < move.log_start <= two.record.offset and one.event.number < move.number < two.event.number
        ]
        reported = any(
            failure.key == span.key and not failure.is_end
            for event in history.of(Polled, span.consumer)
            if one.event.number <= event.number <= two.event.number
            for failure in event.errors
        )
        if jumped and not reported:
            offsets = [one.record.offset, two.record.offset]
            found.append(
                violation(
                    "I10",
                    "jumped silently",
                    one.event,
                    jumped[-1],
                    two.event,
                    consumer=span.consumer,
                    key=span.key,
                    offsets=offsets,
                )
            )
    return found
