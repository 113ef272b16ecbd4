"""Evaluates a predicate for a whole range of offsets, by facts that need no read. Pure.

::

    known of a segment   topic, partition, offsets [start, end), its latest timestamp; rarely its earliest one
    verdict              NEVER: no record matches, ALWAYS: all do, MAYBE: each record must be checked
    hull                 from the first to the last value of one column that a matching record can have

    predicate  offset in (5, 7, 900)      timestamp >= 2000
    segment    offsets [0, 100)           youngest 1500          -> NEVER
    segment    offsets [100, 200)                                -> NEVER, by its offsets
    segment    offsets [0, 100)           youngest 2500          -> MAYBE, hull of its offsets [5, 8)

Theory of operation. Topic, partition, offset and timestamp are never null, so NEVER means false for each record, and ALWAYS
true: ``~`` exchanges them. Unknown facts give MAYBE.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import attrs

from kafka_remote_client.scanning.predicate import And, Comparison, HeaderIs, IsIn, IsNull, Not, Operator, Or, Predicate, Scalar

__all__ = ["Extent", "Verdict", "hull", "verdict"]

_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})


class Verdict(Enum):
    """The part of an extent's records that matches."""

    NEVER = "never"
    MAYBE = "maybe"
    ALWAYS = "always"

    @property
    def opposite(self) -> Verdict:
        """The verdict of the negation."""
        return {Verdict.NEVER: Verdict.ALWAYS, Verdict.ALWAYS: Verdict.NEVER}.get(self, Verdict.MAYBE)


@attrs.frozen
class Extent:
    """The records of a partition with offsets ``[start, end)``, which is not empty.

    ``oldest``, ``youngest``: bounds of the records' timestamps, in microseconds; ``None`` = not known.
    """

    topic: str
    partition: int
    start: int
    end: int
    oldest: int | None = None
    youngest: int | None = None

    def bounds(self, column: str) -> tuple[Scalar | None, Scalar | None]:
        """The least and the largest value of a column; ``None`` = not known."""
        known: dict[str, tuple[Scalar | None, Scalar | None]] = {
            "topic": (self.topic, self.topic),
            "partition": (self.partition, self.partition),
            "offset": (self.start, self.end - 1),
            "timestamp": (self.oldest, self.youngest),
        }
        return known.get(column, (None, None))


def verdict(predicate: Predicate | None, extent: Extent) -> Verdict:
    """Returns which records of the extent match; without a predicate all do."""
    match predicate:
        case None:
            return Verdict.ALWAYS
        case And(parts):
            return _all([verdict(part, extent) for part in parts])
        case Or(parts):
            return _all([verdict(part, extent).opposite for part in parts]).opposite
        case Not(part):
            return verdict(part, extent).opposite
        case Comparison(column, how, value):
            return _compared(how, *extent.bounds(column), value)
        case IsIn(column, values):
            least, largest = extent.bounds(column)
            return _all([_compared(Operator.EQUAL, least, largest, value).opposite for value in values]).opposite
        case IsNull(column) if column in _NEVER_NULL:
            return Verdict.NEVER
        case _:
            return Verdict.MAYBE


def hull(predicate: Predicate | None, column: str, start: int, end: int) -> tuple[int, int]:
    """Returns the smallest ``[first, stop)`` in ``[start, end)`` that contains the values of a numeric column of all matches.

    It uses only the predicate's conditions on that column. Nothing can match if ``first`` equals ``stop``.
    """
    match predicate:
        case And(parts):
            found = [hull(part, column, start, end) for part in parts]
            first, stop = max(one[0] for one in found), min(one[1] for one in found)
            return (first, stop) if first < stop else (start, start)
        case Or(parts):
            return _around((hull(part, column, start, end) for part in parts), start)
        case Not(part):
            return _hull_of_negation(part, column, start, end)
        case Comparison(name, how, int(value)) if name == column:
            return _clipped(how, value, start, end)
        case IsIn(name, values) if name == column:
            numbers = [value for value in values if isinstance(value, int)]
            return _around((_clipped(Operator.EQUAL, value, start, end) for value in numbers), start)
        case _:
            return start, end


def _hull_of_negation(predicate: Predicate, column: str, start: int, end: int) -> tuple[int, int]:
    match predicate:
        case Not(part):
            return hull(part, column, start, end)
        case And(parts):
            return hull(Or(tuple(Not(part) for part in parts)), column, start, end)
        case Or(parts):
            return hull(And(tuple(Not(part) for part in parts)), column, start, end)
        case Comparison(name, how, value):
            return hull(Comparison(name, how.opposite, value), column, start, end)
        case IsIn() | IsNull() | HeaderIs():
            return start, end
        case _:
            raise TypeError(f"unknown predicate: {predicate!r}")


def _around(found: Iterable[tuple[int, int]], start: int) -> tuple[int, int]:
    there = [(first, stop) for first, stop in found if first < stop]
    return (min(first for first, _ in there), max(stop for _, stop in there)) if there else (start, start)


def _clipped(how: Operator, value: int, start: int, end: int) -> tuple[int, int]:
    first, stop = {
        Operator.EQUAL: (value, value + 1),
        Operator.NOT_EQUAL: (start, end),
        Operator.LESS: (start, value),
        Operator.LESS_EQUAL: (start, value + 1),
        Operator.GREATER: (value + 1, end),
        Operator.GREATER_EQUAL: (value, end),
    }[how]
    first, stop = max(first, start), min(stop, end)
    return (first, stop) if first < stop else (start, start)


def _all(found: Iterable[Verdict]) -> Verdict:
    """The verdict of a conjunction."""
    verdicts = set(found)
    if Verdict.NEVER in verdicts:
        return Verdict.NEVER
    return Verdict.MAYBE if Verdict.MAYBE in verdicts else Verdict.ALWAYS


def _compared(how: Operator, least: Scalar | None, largest: Scalar | None, value: Scalar) -> Verdict:
    match how:
        case Operator.EQUAL:
            if _below(value, least) or _below(largest, value):
                return Verdict.NEVER
            return Verdict.ALWAYS if least is not None and least == largest == value else Verdict.MAYBE
        case Operator.LESS:
            if _below(largest, value):
                return Verdict.ALWAYS
            return Verdict.NEVER if least is not None and not _below(least, value) else Verdict.MAYBE
        case Operator.GREATER:
            if _below(value, least):
                return Verdict.ALWAYS
            return Verdict.NEVER if largest is not None and not _below(value, largest) else Verdict.MAYBE
        case _:
            return _compared(how.opposite, least, largest, value).opposite


def _below(one: Scalar | None, other: Scalar | None) -> bool:
    """Whether both are known, and one is below the other. Both have the kind of their column."""
    return one is not None and other is not None and one < other  # type: ignore[operator] # as said
