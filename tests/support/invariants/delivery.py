"""Deliveries and their order: I1 (lost), I2 (twice), I3 (order), I4 (skipped), I7 (not requested).

The names in brackets are those of Jepsen's Kafka checker. See ``docs/testing.md`` for what each says.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from operator import attrgetter

from tests.support.history import Event, History, Key, Opened, Outcome, Produced
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk
from tests.support.invariants.violation import Violation, violation

__all__ = ["duplicated", "lost", "out_of_order", "skipped", "unrequested"]

_COMMITTED = {Outcome.PLAIN, Outcome.COMMITTED}
_OFFSET = attrgetter("offset")


def lost(history: History, oracle: Oracle) -> list[Violation]:
    """I1 [lost-write, unseen]: every committed record between a span's start and its position was delivered in it.

    Committed records are the acknowledged ones, if the history has them (:class:`Produced`), and those of the oracle.
    """
    uncommitted = {event.consumer for event in history.of(Opened) if event.isolation == "read_uncommitted"}
    acknowledged: dict[Key, list[Produced]] = {}
    for event in history.of(Produced):
        acknowledged.setdefault((event.topic, event.partition), []).append(event)
    for events in acknowledged.values():
        events.sort(key=_OFFSET)
    found = []
    for span in walk(history).spans:
        start, stop = span.first_wanted, span.position
        if start is None or stop is None:
            continue
        stop = stop if span.cut is None else min(stop, span.cut)
        everything = span.consumer in uncommitted
        wanted = set(oracle.offsets(span.key, start, stop))
        wanted.update(
            event.offset
            for event in _between(acknowledged.get(span.key, []), start, stop)
            if (event.outcome in _COMMITTED or (everything and event.outcome is not Outcome.UNKNOWN))
        )
        missing = sorted(wanted.difference(delivery.record.offset for delivery in span.deliveries))
        if missing:
            text = f"{len(missing)} committed records never came, though the position is {stop}"
            found.append(violation("I1", text, span.began, span.ended, key=span.key, offsets=missing))
    return found


def _between(events: list[Produced], start: int, stop: int) -> list[Produced]:
    return events[bisect_left(events, start, key=_OFFSET) : bisect_left(events, stop, key=_OFFSET)]


def duplicated(history: History, oracle: Oracle) -> list[Violation]:
    """I2 [duplicate]: a span has no record twice, and a span from a committed offset has no record below it."""
    found = []
    for span in walk(history).spans:
        first: dict[int, Event] = {}
        twice: dict[int, Event] = {}
        for delivery in span.deliveries:
            offset = delivery.record.offset
            if offset in first:
                twice.setdefault(offset, delivery.event)
            first.setdefault(offset, delivery.event)
        if twice:
            offset, again = next(iter(twice.items()))
            found.append(violation("I2", "came twice", first[offset], again, key=span.key, offsets=twice))
        start = span.start if span.from_commit else None
        below = [] if start is None else [delivery for delivery in span.deliveries if delivery.record.offset < start]
        if below:
            text = f"comes again though {start} was committed"
            offsets = [delivery.record.offset for delivery in below]
            found.append(violation("I2", text, span.began, below[0].event, key=span.key, offsets=offsets))
    return found


def out_of_order(history: History, oracle: Oracle) -> list[Violation]:
    """I3 [int-/nonmonotonic-poll]: offsets strictly increase within a call and from call to call."""
    found = []
    for span in walk(history).spans:
        for one, two in pairwise(span.deliveries):
            if two.record.offset <= one.record.offset:
                where = "in one call" if one.event is two.event else "in a later call"
                offsets = [one.record.offset, two.record.offset]
                found.append(violation("I3", f"does not rise, {where}", one.event, two.event, key=span.key, offsets=offsets))
    return found


def skipped(history: History, oracle: Oracle) -> list[Violation]:
    """I4 [int-/poll-skip]: between a span's start and a record, two records, a record and the end is no record that the oracle
    delivers.
    """
    return [breach for span in walk(history).spans for breach in _skipped(span, oracle)]


def _skipped(span: Span, oracle: Oracle) -> Iterator[Violation]:
    at, cut = span.first_wanted, sys.maxsize if span.cut is None else span.cut
    if at is None:
        return
    before: Event = span.began
    for delivery in span.deliveries:
        offset = delivery.record.offset
        missing = oracle.offsets(span.key, max(at, span.floor), min(offset, cut))
        if missing:
            text = f"{len(missing)} records were skipped on the way to {offset}"
            yield violation("I4", text, before, delivery.event, key=span.key, offsets=missing)
        at, before = max(at, offset + 1), delivery.event
    for event, end, count in span.ends:
        start = span.first_wanted if count == 0 else span.deliveries[count - 1].record.offset + 1
        missing = [] if start is None else oracle.offsets(span.key, max(start, span.floor), min(end, cut))
        if missing:
            text = f"the end {end} was reported before {len(missing)} records had come"
            yield violation("I4", text, event, key=span.key, offsets=missing)


def unrequested(history: History, oracle: Oracle) -> list[Violation]:
    """I7: no delivery after revoke, unassign, assign or close returned, nor while paused, nor from before a seek."""
    walked = walk(history)
    found = [
        violation("I7", f"came {stray.why}", stray.event, key=stray.record.place, offsets=[stray.record.offset])
        for stray in walked.strays
    ]
    for span in walked.spans:
        if not span.deliveries or span.start is None:
            continue
        first = span.deliveries[0]
        offset = first.record.offset
        if offset < span.start and not span.from_commit:
            text = f"came although the {span.opened} said {span.start}"
            found.append(violation("I7", text, span.began, first.event, key=span.key, offsets=[offset]))
        elif span.before is not None and oracle.offsets(span.key, max(span.start, span.floor), offset):
            old = span.before.position
            if old is not None and oracle.next_offset(span.key, old) == offset:
                text = f"goes on where the seek to {span.start} left off"
                found.append(violation("I7", text, span.began, first.event, key=span.key, offsets=[offset]))
    return found
