"""What it takes and what is counted: I9 (progress), I11 (nothing is kept), I12 (fallbacks and records are counted)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import attrs

from kafka_remote_client.consumer.routing import TURNED_OFF
from tests.support.history import (
    Assigned,
    Closed,
    Counted,
    Event,
    FellBack,
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
    Revoked,
    Sought,
)
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk
from tests.support.invariants.violation import Violation, violation

__all__ = ["PATIENCE_SECONDS", "Wait", "leaked", "miscounted", "stalled", "waits"]

PATIENCE_SECONDS = 60.0


@attrs.frozen
class Wait:
    """A consumer asked for ``seconds`` and the partition had something that did not come, or came at the end of it."""

    consumer: str
    key: Key
    wanted: int
    seconds: float
    first: Event
    last: Event


def waits(history: History, oracle: Oracle) -> list[Wait]:
    """How long each partition let its consumer wait though the oracle had a next record (or the end) of it.

    Counted from the first call that could have given it. Nothing is counted while the partition is paused or the broker is out.
    """
    return [wait for span in walk(history).spans for wait in _waits(history, span, oracle)]


def _waits(history: History, span: Span, oracle: Oracle) -> Iterator[Wait]:
    made = {event.offset: event.number for event in history.of(Produced) if (event.topic, event.partition) == span.key}
    announces = any(event.announces_ends for event in history.of(Opened, span.consumer))
    at, told = span.start, False
    since: Event | None = None
    began = 0.0
    paused = out = False
    last: Event = span.began
    for event in history.events[span.began.number + 1 : None if span.ended is None else span.ended.number + 1]:
        last = event
        if isinstance(event, Outage):
            out, since = not event.over, None
        elif event.consumer != span.consumer:
            continue
        elif isinstance(event, Paused | Resumed) and span.key in event.keys:
            paused, since = isinstance(event, Paused), None
        elif isinstance(event, Polled):
            came = [record.offset for record in event.records if record.place == span.key]
            ended = any(failure.is_end and failure.key == span.key for failure in event.errors)
            wanted = _wanted(oracle, span.key, at, told=told or not announces)
            due = wanted is not None and not paused and not out and made.get(wanted, -1) < event.number
            if due and wanted is not None and at is not None:
                if since is None:
                    since, began = event, event.began
                if came or ended:
                    yield Wait(span.consumer, span.key, wanted, event.at - began, since, event)
            if came or ended or not due:
                since = None
            at = came[-1] + 1 if came else at
            told = ended or (told and not came)
    if since is not None and at is not None:
        yield Wait(span.consumer, span.key, at, last.at - began, since, last)


def _wanted(oracle: Oracle, key: Key, at: int | None, *, told: bool) -> int | None:
    """What comes next: a record, or the partition's end where that is still to be told."""
    if at is None or not oracle.knows(key):
        return None
    following = oracle.next_offset(key, at)
    if following is None and not told:
        return oracle.ends[key]
    return following


def stalled(history: History, oracle: Oracle, *, seconds: float = PATIENCE_SECONDS) -> list[Violation]:
    """I9: while the broker is up each partition's next record, and its end, come within ``seconds`` of being asked for.

    Generous by default, so that a slow machine is no breach; a test on a clock of its own asks for the budget of its fault.
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
    """I11: no more bytes than the bound are held; after the last close no thread, socket or byte is left that is new."""
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
        if before and 0 <= before[-1].sockets < event.sockets:
            found.append(violation("I11", f"{event.sockets - before[-1].sockets} sockets are left", before[-1], event))
    return found


def miscounted(history: History, oracle: Oracle) -> list[Violation]:
    """I12: each fallback is counted once under its cause, and records from store and broker add up to those delivered.

    Where partitions were taken back on the way (seek, pause, revocation) or not read to their ends, records may have been
    gathered and never handed out: then no fewer are counted than came.
    """
    found = []
    for event in history.of(Counted):
        earlier = [e for e in history.events[: event.number] if e.consumer == event.consumer]
        seen = Counter(e.cause for e in earlier if isinstance(e, FellBack))
        if seen != Counter(event.fallbacks):
            found.append(violation("I12", f"fallbacks are counted as {dict(event.fallbacks)} and were {dict(seen)}", event))
        came = sum(len(e.records) for e in earlier if isinstance(e, Polled))
        counted = event.from_store + event.from_broker
        if counted < came or (counted > came and _read_straight(history, oracle, event)):
            text = f"{event.from_store} of the store and {event.from_broker} of the broker are counted, {came} came"
            found.append(violation("I12", text, event))
    return found


def _is_turned_off(event: Event) -> bool:
    """Whether the application left the store: what waits of it is taken back then."""
    return isinstance(event, FellBack) and event.cause == TURNED_OFF


def _read_straight(history: History, oracle: Oracle, counted: Counted) -> bool:
    """Whether everything that was gathered was handed out too: one assignment, read to its ends without a turn.

    An end behind which more was produced is none: what has come since may have been gathered.
    """
    own = [e for e in history.events[: counted.number] if e.consumer == counted.consumer]
    turned = any(isinstance(e, Sought | Paused | Revoked | Closed | Moved) or _is_turned_off(e) for e in own)
    spans = [s for s in walk(history).spans if s.consumer == counted.consumer]
    ended = all(s.end is not None and oracle.next_offset(s.key, s.end) is None for s in spans)
    return not turned and sum(isinstance(e, Assigned) for e in own) == 1 and ended
