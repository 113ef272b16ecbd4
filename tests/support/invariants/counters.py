"""Counters: I12. It compares three sources: the consumer's counters, its deliveries, and the servers' logs.

::

    counters (Counted)   records from store and broker, fallbacks by cause        the product's
    log lines (FellBack) one for each fallback, with its cause                    the product's
    history (Polled)     records that came                                        the recorder's
    servers (Served)     offsets that the store and the broker sent               the servers' own logs
    faults (Fired)       causes that the injected faults may lead to              the test's

A record that only one server sent is from that server. If the records of a partition change from those that only the store
sent to tiered ones that only the broker sent, the partition fell back.
"""

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
    Fired,
    History,
    Key,
    Moved,
    Opened,
    Paused,
    Polled,
    Revoked,
    Served,
    Sought,
    Source,
)
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk
from tests.support.invariants.violation import Violation, violation

__all__ = ["miscounted"]

_ALWAYS = {TURNED_OFF, "breaker-open"}
"""Causes that follow from a call of the application, and from any failure."""


def miscounted(history: History, oracle: Oracle) -> list[Violation]:
    """I12: each fallback counts once under its cause, and records count under the server that sent them.

    If partitions were sought, paused, revoked or not read to their ends, records may have been
    gathered and never delivered: then at least the delivered ones must be counted.
    """
    servers = _Servers.of(history)
    return [breach for event in history.of(Counted) for breach in _miscounted(history, oracle, servers, event)]


def _miscounted(history: History, oracle: Oracle, servers: _Servers, event: Counted) -> Iterator[Violation]:
    earlier = [e for e in history.events[: event.number] if e.consumer == event.consumer]
    seen = Counter(e.cause for e in earlier if isinstance(e, FellBack))
    if seen != Counter(event.fallbacks):
        yield violation("I12", f"fallbacks are counted as {dict(event.fallbacks)}, the log has {dict(seen)}", event)
    came = sum(len(e.records) for e in earlier if isinstance(e, Polled))
    counted = event.from_store + event.from_broker
    straight = _read_straight(history, oracle, event)
    if counted < came or (counted > came and straight):
        text = f"{event.from_store} of the store and {event.from_broker} of the broker are counted, {came} came"
        yield violation("I12", text, event)
    if servers.logged:
        spans = [span for span in walk(History(history.events[: event.number])).spans if span.consumer == event.consumer]
        yield from _by_servers(spans, servers, event, once=straight and _falls_back_once(earlier))
    reported = [fired.causes for fired in history.of(Fired) if fired.causes is not None]
    causes = frozenset(event.fallbacks) - frozenset[str]().union(*reported) - _ALWAYS
    if reported and causes:
        yield violation("I12", f"fallbacks are counted under {sorted(causes)}, which no injected fault leads to", event)


def _by_servers(spans: list[Span], servers: _Servers, event: Counted, *, once: bool) -> Iterator[Violation]:
    """``once``: each partition was read in one pass, and falls back at most once."""
    for source, count in ((Source.STORE, event.from_store), (Source.BROKER, event.from_broker)):
        sent = sum(servers.only(source, span.key, offset) for span in spans for offset in _offsets(span))
        if count < sent:
            yield violation("I12", f"{count} records of the {source.value} are counted, only it sent {sent} of those", event)
    fallbacks = sum(event.fallbacks.values())
    taken_over = sum(servers.taken_over(span.key, _offsets(span)) for span in spans)
    if fallbacks < taken_over:
        yield violation("I12", f"{fallbacks} fallbacks are counted, the broker took over {taken_over} times", event)
    asked = {span.key for span in spans if servers.sent_tiered(span.key)}
    if once and Source.BROKER in servers.logged and fallbacks > len(asked):
        text = f"{fallbacks} fallbacks are counted, the broker sent tiered records of {len(asked)} partitions"
        yield violation("I12", text, event)


@attrs.frozen
class _Servers:
    """What the servers sent, by their own logs. ``logged``: sources that have one."""

    logged: frozenset[Source]
    sent: dict[tuple[Source, Key], set[int]]
    tiered: dict[Key, int]

    @classmethod
    def of(cls, history: History) -> _Servers:
        sent: dict[tuple[Source, Key], set[int]] = {}
        tiered: dict[Key, int] = {}
        for event in history.of(Served):
            sent.setdefault((event.source, event.key), set()).update(offset for some in event.offsets for offset in some)
            if event.local_start is not None:  # it only increases: offsets below the first one were tiered all the time
                tiered.setdefault(event.key, event.local_start)
        return cls(frozenset(event.source for event in history.of(Served)), sent, tiered)

    def only(self, source: Source, key: Key, offset: int) -> bool:
        """Whether the record is from that server, because the other one never sent it."""
        other = Source.BROKER if source is Source.STORE else Source.STORE
        return other in self.logged and offset not in self.sent.get((other, key), ())

    def taken_over(self, key: Key, offsets: list[int]) -> int:
        """How often records that only the store sent are followed by tiered ones that only the broker sent."""
        times, by_store = 0, False
        for offset in offsets:
            if self.only(Source.STORE, key, offset):
                by_store = True
            elif by_store and offset < self.tiered.get(key, 0) and self.only(Source.BROKER, key, offset):
                times, by_store = times + 1, False
        return times

    def sent_tiered(self, key: Key) -> bool:
        """Whether the broker sent anything that the store has."""
        return any(offset < self.tiered.get(key, 0) for offset in self.sent.get((Source.BROKER, key), ()))


def _offsets(span: Span) -> list[int]:
    return [delivery.record.offset for delivery in span.deliveries]


def _falls_back_once(events: list[Event]) -> bool:
    return all(event.falls_back_once for event in events if isinstance(event, Opened))


def _is_turned_off(event: Event) -> bool:
    """Whether the application left the store, which drops its waiting records."""
    return isinstance(event, FellBack) and event.cause == TURNED_OFF


def _read_straight(history: History, oracle: Oracle, counted: Counted) -> bool:
    """Whether all gathered records were delivered: one assignment, read to its ends without a seek or pause.

    An end does not count if more was produced after it, because later records may have been gathered.
    """
    own = [e for e in history.events[: counted.number] if e.consumer == counted.consumer]
    turned = any(isinstance(e, Sought | Paused | Revoked | Closed | Moved) or _is_turned_off(e) for e in own)
    spans = [s for s in walk(history).spans if s.consumer == counted.consumer]
    ended = all(s.end is not None and oracle.next_offset(s.key, s.end) is None for s in spans)
    return not turned and sum(isinstance(e, Assigned) for e in own) == 1 and ended
