"""The rule for groups whose members join and leave, plain or direct: the checker of ``tests/state_machine/groups.py``.

A member that gives up a partition regularly has committed its records before the next one starts. So at most one
such read gets a record, unless librdkafka repeats it in one of the ways that have a name here. The checker looks for each
in the history of the read that it excuses, and it excuses nothing else. The same rule applies to groups of plain
members alone, which produced the list.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from itertools import pairwise

from confluent_kafka import KafkaError

from tests.support.group_script import undelivered
from tests.support.history import History, Key, Refused
from tests.support.invariants.checker import violations
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk

__all__ = ["STUCK_SECONDS", "Excuse", "excuses", "judge", "repeated", "shared_badly"]

STUCK_SECONDS = 120.0
"""A member is stuck (I9) after this time without a partition's next record. I9 does not apply while members join and leave: the
driver adds an :class:`~tests.support.history.Outage` to the history."""
_NOT_NOW = {
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
}
"""The coordinator's errors for a commit at the wrong time of a rebalance."""


class Excuse(Enum):
    """Why records of one read may also be in another one."""

    LOST = "the partition was lost, or the member died"
    REFUSED = "the member's last commit was refused, and on_commit got the error"
    BEGUN_ANEW = "librdkafka began below the committed offset, or a second time (its issue 5345)"


def excuses(history: History, always_direct: Collection[str]) -> list[tuple[Span, Excuse | None]]:
    """Each read, and its excuse. ``always_direct``: members that set the starts of partitions, and so never restart one."""
    refused = [event for event in history.of(Refused) if event.code in _NOT_NOW]
    return [(span, _excuse(span, refused, always_direct)) for span in walk(history).spans]


def _excuse(span: Span, refused: list[Refused], always_direct: Collection[str]) -> Excuse | None:
    if span.ended is None or getattr(span.ended, "lost", False):
        return Excuse.LOST
    if not span.deliveries:
        return None
    last = span.deliveries[-1]
    for event in refused:
        after_it = event.consumer == span.consumer and event.number > last.event.number
        if after_it and any(place.key == span.key and place.offset == last.record.offset + 1 for place in event.places):
            return Excuse.REFUSED
    return Excuse.BEGUN_ANEW if _is_begun_anew(span) and span.consumer not in always_direct else None


def _is_begun_anew(span: Span) -> bool:
    offsets = [delivery.record.offset for delivery in span.deliveries]
    if span.from_commit and span.start is not None and offsets[0] < span.start:
        return True
    return any(later <= earlier for earlier, later in pairwise(offsets))


def judge(history: History, oracle: Oracle, always_direct: Collection[str]) -> None:
    """Raises AssertionError with every record that no member got, or two got without an excuse, and every other violation."""
    excused, wrong = excuses(history, always_direct), shared_badly(history, oracle, always_direct)
    anew = {
        (number, span.key)
        for span, excuse in excused
        if excuse is Excuse.BEGUN_ANEW
        for number in (span.began.number, *(delivery.event.number for delivery in span.deliveries))
    }
    broken = [
        str(breach)
        for breach in violations(history, oracle, seconds=STUCK_SECONDS)
        if breach.invariant not in {"I2", "I3"} or breach.key is None or (breach.events[0], breach.key) not in anew
    ]
    if wrong or broken:
        raise AssertionError("\n".join([*broken[:20], *wrong[:20], f"{len(broken)} and {len(wrong)} in all"]))


def shared_badly(history: History, oracle: Oracle, always_direct: Collection[str]) -> list[str]:
    """Returns in words each record that no member got, or two got without an excuse."""
    nobody = [f"{key[0]}-{key[1]} at {offset} came to nobody" for key, offset in undelivered(history, oracle)]
    twice = repeated(history, always_direct).items()
    return nobody + [f"{place[0][0]}-{place[0][1]} at {place[1]} came in {reads}" for place, reads in twice]


def repeated(history: History, always_direct: Collection[str]) -> dict[tuple[Key, int], str]:
    """Returns only the records that were delivered twice without an excuse, with their reads."""
    return _twice(excuses(history, always_direct))


def _twice(excused: list[tuple[Span, Excuse | None]]) -> dict[tuple[Key, int], str]:
    """Returns records of several reads without an excuse, and the reads."""
    came: dict[tuple[Key, int], list[Span]] = {}
    for span, excuse in excused:
        if excuse is None:
            for offset in {delivery.record.offset for delivery in span.deliveries}:
                came.setdefault((span.key, offset), []).append(span)
    return {place: "; ".join(map(_told_of, spans)) for place, spans in came.items() if len(spans) > 1}


def _told_of(span: Span) -> str:
    return f"{span}, ended by {span.ended}"
