"""Content: I5 (one value, the oracle's), I6 (nothing aborted, no control record, nothing undecided)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.history import Event, History, Key, Moved, Opened, Outcome, Polled, Produced, Record
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.violation import Violation, violation

__all__ = ["different", "uncommitted"]

_OPEN = {Outcome.ABORTED, Outcome.OPEN}


def different(history: History, oracle: Oracle) -> list[Violation]:
    """I5 [inconsistent-offsets]: an offset has one record, which equals the oracle's and the produced one, byte for byte.

    Records from before a truncation of the log to a lower offset (:class:`Moved` with an end) are another lineage, and not
    compared.
    """
    written = {(event.topic, event.partition, event.offset): event for event in history.of(Produced)}
    cuts = [event for event in history.of(Moved) if event.end is not None]
    first: dict[tuple[str, int, int], tuple[Event, Record]] = {}
    found = []
    for event, record in _deliveries(history):
        if any(cut.key == record.place and cut.number > event.number and record.offset >= (cut.end or 0) for cut in cuts):
            continue
        place = (*record.place, record.offset)
        truth = oracle.get(record.place, record.offset)
        earlier, other = first.setdefault(place, (event, record))
        if truth is not None and record != truth:
            text = f"is not the oracle's: {_difference(record, truth)}"
            found.append(violation("I5", text, event, key=record.place, offsets=[record.offset]))
        elif record != other:
            text = f"differs from what came before: {_difference(record, other)}"
            found.append(violation("I5", text, earlier, event, key=record.place, offsets=[record.offset]))
        made = written.get(place)
        if made is not None and _differs(record, made):
            text = "is not what was produced there"
            found.append(violation("I5", text, made, event, consumer=event.consumer, key=record.place, offsets=[record.offset]))
    return found


def uncommitted(history: History, oracle: Oracle) -> list[Violation]:
    """I6 [G1a, precommitted-read]: read_committed delivers nothing aborted or undecided; no read delivers control records."""
    committed = {event.consumer for event in history.of(Opened) if event.isolation != "read_uncommitted"}
    outcomes = {(event.topic, event.partition, event.offset): event.outcome for event in history.of(Produced)}
    moves = history.of(Moved)
    found = []
    for event, record in _deliveries(history):
        key, offset = record.place, record.offset
        outcome = outcomes.get((*key, offset))
        if event.consumer in committed and outcome in _OPEN:
            found.append(violation("I6", f"is of a transaction that is {outcome.value}", event, key=key, offsets=[offset]))
        elif (
            oracle.has_partition(key)
            and oracle.get(key, offset) is None
            and outcome is None
            and not _is_gone(moves, key, event, offset)
        ):
            end = oracle.ends[key]
            what = (
                f"lies past the end {end}"
                if offset >= end
                else "is none that the oracle delivers: aborted, or a control record"
            )
            found.append(violation("I6", what, event, key=key, offsets=[offset]))
    return found


def _is_gone(moves: list[Moved], key: Key, event: Event, offset: int) -> bool:
    """Whether the log lost the record: cut off after it was delivered, or deleted, also before, when it was read ahead."""
    return any(
        moved.key == key
        and (offset < moved.log_start or (moved.end is not None and offset >= moved.end and moved.number > event.number))
        for moved in moves
    )


def _deliveries(history: History) -> Iterator[tuple[Event, Record]]:
    for event in history.of(Polled):
        for record in event.records:
            yield event, record


def _difference(one: Record, two: Record) -> str:
    names = [name for name in Record._fields if getattr(one, name) != getattr(two, name)]
    return ", ".join(f"{name} {_shown(getattr(one, name))} for {_shown(getattr(two, name))}" for name in names)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _differs(record: Record, made: Produced) -> bool:
    if (record.key, record.value) != (made.key, made.value):
        return True
    return made.headers is not None and tuple(map(tuple, made.headers)) != (record.headers or ())
