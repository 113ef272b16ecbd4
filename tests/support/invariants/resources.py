"""Resources: I9 (progress), I11 (nothing is kept)."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from tests.support.history import (
    Closed,
    Event,
    History,
    Key,
    Measured,
    Moved,
    Opened,
    Outage,
    Paused,
    Polled,
    Produced,
    Resumed,
)
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk
from tests.support.invariants.violation import Violation, violation

__all__ = ["PATIENCE_SECONDS", "Wait", "leaked", "stalled", "waits"]

PATIENCE_SECONDS = 60.0


@attrs.frozen
class Wait:
    """A consumer polled for ``seconds`` while the partition had an item that arrived only at the end, or not at all."""

    consumer: str
    key: Key
    wanted: int
    seconds: float
    first: Event
    last: Event


def waits(history: History, oracle: Oracle) -> list[Wait]:
    """Returns the time that each partition made its consumer wait although the oracle had a next record (or the end).

    It counts from the first call that could have returned it, except while the partition is paused or the broker is out. A
    record below the log's start is not waited for.
    """
    produced: dict[Key, dict[int, int]] = {}
    for event in history.of(Produced):
        produced.setdefault((event.topic, event.partition), {})[event.offset] = event.number
    concern: dict[str, list[Event]] = {name: [] for name in history.consumers()}
    for event in history:
        of_all = isinstance(event, Outage | Moved)
        for events in concern.values() if of_all else [concern[event.consumer]] if event.consumer else []:
            events.append(event)
    announcing = {event.consumer for event in history.of(Opened) if event.announces_ends}
    return [
        wait
        for span in walk(history).spans
        for wait in _waits(
            history,
            concern[span.consumer],
            span,
            oracle,
            made=produced.get(span.key, {}),
            announces=span.consumer in announcing,
        )
    ]


def _waits(
    history: History, concern: Sequence[Event], span: Span, oracle: Oracle, *, made: Mapping[int, int], announces: bool
) -> Iterator[Wait]:
    """``concern``: the events of the consumer, of the logs, and outages.

    ``made``: the events about the partition's records, by offset. ``announces``: whether the consumer gets ends.
    """
    at, floor, reported = span.start, 0, False
    since: Event | None = None
    began = 0.0
    first = bisect_right(concern, span.began.number, key=lambda event: event.number)
    stop = None if span.ended is None else bisect_right(concern, span.ended.number, key=lambda event: event.number)
    before = concern[:first]
    out = next((not event.over for event in reversed(before) if isinstance(event, Outage)), False)
    paused = _paused(before, span)
    for event in [*(event for event in before if isinstance(event, Moved)), *concern[first:stop]]:
        if isinstance(event, Outage):
            out, since = not event.over, None
        elif isinstance(event, Moved) and event.key == span.key:
            floor = max(floor, event.log_start)
            at, since = (floor, None) if at is not None and floor > at else (at, since)
        elif isinstance(event, Paused | Resumed) and span.key in event.keys:
            paused, since = isinstance(event, Paused), None
        elif isinstance(event, Polled):
            came = [record.offset for record in event.records if record.place == span.key]
            ended = any(failure.is_end and failure.key == span.key for failure in event.errors)
            wanted = _wanted(oracle, span.key, at, reported=reported or not announces)
            due = wanted is not None and not paused and not out and _written(made, wanted) < event.number
            if due and wanted is not None and at is not None:
                if since is None:
                    since, began = event, event.began
                if came or ended:
                    yield Wait(span.consumer, span.key, wanted, event.at - began, since, event)
            if came or ended or not due:
                since = None
            at = max(came[-1] + 1, floor) if came else at  # records that were read before the log's start moved come later
            reported = ended or (reported and not came)
    last = history.events[-1] if span.ended is None else span.ended
    if since is not None and at is not None:
        yield Wait(span.consumer, span.key, at, last.at - began, since, last)


def _paused(before: Sequence[Event], span: Span) -> bool:
    """Whether a pause of the partition holds from before the span, through seeks and assignments."""
    for event in reversed(before):
        if isinstance(event, Closed):
            return False
        if isinstance(event, Paused | Resumed) and span.key in event.keys:
            return isinstance(event, Paused)
    return False


def _written(made: Mapping[int, int], offset: int) -> int:
    """Returns the event about the record at ``offset``, or a later one, which shows that it was written."""
    if offset in made or not made:
        return made.get(offset, -1)
    return min((number for later, number in made.items() if later > offset), default=-1)


def _wanted(oracle: Oracle, key: Key, at: int | None, *, reported: bool) -> int | None:
    """Returns the next item: a record, or the partition's end if that is not reported yet."""
    if at is None or not oracle.has_partition(key):
        return None
    following = oracle.next_offset(key, at)
    if following is None and not reported:
        return oracle.ends[key]
    return following


def stalled(history: History, oracle: Oracle, *, seconds: float = PATIENCE_SECONDS) -> list[Violation]:
    """I9: while the broker is up, each partition's next record, and its end, arrive within ``seconds`` of a poll.

    The default is generous, so that a slow machine is no violation; a test with its own clock passes the limit of its fault.
    """
    return [
        violation(
            "I9",
            f"did not come for {wait.seconds:.1f} s",
            wait.first,
            wait.last,
            consumer=wait.consumer,
            key=wait.key,
            offsets=[wait.wanted],
        )
        for wait in waits(history, oracle)
        if wait.seconds > seconds
    ]


def leaked(history: History, oracle: Oracle) -> list[Violation]:
    """I11: the process never holds more bytes than the limit; after the last close no new thread, socket or byte is left."""
    before = [event for event in history.of(Measured) if event.moment == "before"]
    found = []
    for event in history.of(Measured):
        if 0 <= event.bound < event.bytes_held:
            found.append(violation("I11", f"{event.bytes_held} bytes are held, more than {event.bound}", event))
        if event.moment != "after":
            continue
        if event.bytes_held > 0:
            found.append(violation("I11", f"{event.bytes_held} bytes are still held", event))
        if before and (extra := Counter(event.threads) - Counter(before[-1].threads)):
            found.append(violation("I11", f"threads are left: {sorted(extra)}", before[-1], event))
        if before and (more := len(event.sockets) - len(before[-1].sockets)) > 0:
            new = sorted(set(event.sockets) - set(before[-1].sockets))
            found.append(violation("I11", f"{more} sockets are left, of {new}", before[-1], event))
    return found
