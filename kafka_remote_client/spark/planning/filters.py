"""Filters that Spark passes to the source, and the offset ranges of a query after them. Pure.

::

    column      | filters                                       | leaves out             | handled
    topic,      | = <=> < <= > >= IN, IS [NOT] NULL and their   | partitions             | fully
    partition   | negations; topic also LIKE 'a%', '%a', '%a%'  |                        |
    offset      | = <=> < <= > >=, IN of one, NOT <, NOT >, …   | offsets at both ends   | fully
    offset      | IN of several                                 | offsets at both ends,  | Spark filters too
                |                                               | segments between them  |
    timestamp   | = <=> > >= IN, NOT <, NOT <=                  | offsets before the     | Spark filters too
                |                                               | first that is as late, |
                |                                               | earlier segments       |
    timestamp   | < <=                                          | nothing: unknown       | by Spark
                |                                               | a segment's earliest   |
    any of them | IS NOT NULL                                   | nothing: it is true    | fully
    all others  |                                               | nothing                | by Spark

Theory of operation. Spark does not evaluate a filter that is *handled fully*, so the rest of a range must have exactly the rows
for which it is true. A filter that Spark evaluates too may leave rows for which it is false, but must keep all for which it is
true. Spark evaluates filters with null, or with a value of another type than the column's.

References: PySpark's DataSourceReader.pushFilters.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange

__all__ = ["ALL_ROWS", "Narrowing", "narrowing_of"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp", "timestampType"})
_TYPES: dict[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": datetime}
_NEGATED = {
    "LessThan": "GreaterThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
    "GreaterThan": "LessThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "In": lambda value, wanted: value in wanted,
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": lambda value, wanted: wanted in value,
}
_ON_TEXT = frozenset({"StringStartsWith", "StringEndsWith", "StringContains"})


@attrs.frozen
class _Filter:
    """One of PySpark's filters: its class's name, the column, the value. ``negated``: as under Not."""

    kind: str
    column: str
    value: Any
    negated: bool

    @classmethod
    def of(cls, given: Any) -> _Filter | None:
        """``None`` for a filter that this source does not take."""
        negated = type(given).__name__ == "Not"
        inner = given.child if negated else given
        kind = type(inner).__name__
        path: tuple[str, ...] = getattr(inner, "attribute", ())
        if len(path) != 1 or kind == "Not":
            return None
        if negated and kind in _NEGATED:
            kind, negated = _NEGATED[kind], False
        return cls(kind, path[0], getattr(inner, "value", None), negated)

    def values(self) -> Sequence[Any] | None:
        """The value, or those of IN; ``None`` where one is not of the column's type."""
        values: tuple[Any, ...] = tuple(self.value) if self.kind == "In" else (self.value,)
        return values if values and all(_is_of(self.column, value) for value in values) else None


@attrs.frozen
class Narrowing:
    """The result of all pushed filters: offsets ``[first_offset, end_offset)`` of partitions that pass all ``tests``.

    ``nothing``: no row matches. ``offsets``: only these match, sorted. ``youngest``: every row that matches is at
    least so young, in milliseconds. ``None`` = no limit.
    """

    tests: tuple[Callable[[TopicPartition], bool], ...] = ()
    nothing: bool = False
    first_offset: int | None = None
    end_offset: int | None = None
    offsets: tuple[int, ...] | None = None
    youngest: int | None = None

    def ranges(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Returns the ranges without the excluded partitions and offsets, and without empty ranges."""
        return [
            narrowed
            for found in ranges
            if not self.nothing and all(test(found.topic_partition) for test in self.tests)
            if (narrowed := self._bounded(found)).start < narrowed.end
        ]

    def from_times(self, ranges: Iterable[OffsetRange], first_as_young: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """Returns the ranges from the first record on that is late enough; -1 in ``first_as_young`` = no record is."""
        found = []
        for one in ranges:
            first = first_as_young[one.topic_partition]
            if 0 <= first < one.end:
                found.append(attrs.evolve(one, start=max(one.start, first)))
        return found

    def without_segments(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Returns the ranges without known segments that have no matching row."""
        return [piece for found in ranges for piece in self._pieces(found)]

    def _bounded(self, found: OffsetRange) -> OffsetRange:
        start, end = found.start, found.end
        if self.first_offset is not None:
            start = max(start, self.first_offset)
        if self.end_offset is not None:
            end = min(end, self.end_offset)
        return attrs.evolve(found, start=start, end=max(start, end))

    def _pieces(self, found: OffsetRange) -> list[OffsetRange]:
        pieces, at, first = [], found.start, 0
        for number, span in enumerate(found.segments):
            start, end = max(at, span.start), min(span.end, found.end)
            if start < end and not self._may_hold(start, end, span.max_timestamp):
                pieces.append(attrs.evolve(found, start=at, end=start, segments=found.segments[first:number]))
                at, first = end, number + 1
        pieces.append(attrs.evolve(found, start=at, segments=found.segments[first:]))
        return [piece for piece in pieces if piece.start < piece.end]

    def _may_hold(self, start: int, end: int, max_timestamp: int | None) -> bool:
        if self.youngest is not None and max_timestamp is not None and max_timestamp < self.youngest:
            return False
        if self.offsets is None:
            return True
        place = bisect_left(self.offsets, start)
        return place < len(self.offsets) and self.offsets[place] < end


ALL_ROWS = Narrowing()
"""Nothing is left out."""


def _is_of(column: str, value: Any) -> bool:
    """Whether a value has the column's type; a time without a time zone has not."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return False
    return isinstance(value, _TYPES[column]) and not isinstance(value, bool)


def narrowing_of(filters: Iterable[Any]) -> tuple[Narrowing, list[Any]]:
    """Returns the result of all filters, and the filters that Spark must evaluate. Filters are PySpark's."""
    narrowing, kept = ALL_ROWS, []
    for given in filters:
        found = _Filter.of(given)
        narrowed, handled = (narrowing, False) if found is None else _with(narrowing, found)
        narrowing = narrowed
        if not handled:
            kept.append(given)
    return narrowing, kept


def _with(narrowing: Narrowing, found: _Filter) -> tuple[Narrowing, bool]:
    """Returns the narrowing with one more filter, and whether that is handled fully."""
    if found.column in _NEVER_NULL and found.kind in {"IsNull", "IsNotNull"}:
        never = (found.kind == "IsNull") is not found.negated
        return (attrs.evolve(narrowing, nothing=True) if never else narrowing), True
    if found.column not in _TYPES or found.kind not in _TESTS:
        return narrowing, False
    values = found.values()
    if values is None or (found.kind in _ON_TEXT and found.column != "topic"):
        return narrowing, False
    if found.column in {"topic", "partition"}:
        return attrs.evolve(narrowing, tests=(*narrowing.tests, _partition_test(found))), True
    if found.negated:
        return narrowing, False
    if found.column == "offset":
        return _with_offsets(narrowing, found.kind, values)
    return _with_times(narrowing, found.kind, values), False


def _partition_test(found: _Filter) -> Callable[[TopicPartition], bool]:
    test, wanted = _TESTS[found.kind], found.value

    def passes(partition: TopicPartition) -> bool:
        return test(getattr(partition, found.column), wanted) is not found.negated

    return passes


def _with_offsets(narrowing: Narrowing, kind: str, values: Sequence[int]) -> tuple[Narrowing, bool]:
    least, most = min(values), max(values)
    first = {"LessThan": None, "LessThanOrEqual": None, "GreaterThan": most + 1}.get(kind, least)
    end = {"GreaterThan": None, "GreaterThanOrEqual": None, "LessThan": most}.get(kind, most + 1)
    if first is not None:
        first = first if narrowing.first_offset is None else max(first, narrowing.first_offset)
        narrowing = attrs.evolve(narrowing, first_offset=first)
    if end is not None:
        end = end if narrowing.end_offset is None else min(end, narrowing.end_offset)
        narrowing = attrs.evolve(narrowing, end_offset=end)
    if least == most:
        return narrowing, True
    wanted = set(values) if narrowing.offsets is None else set(values) & set(narrowing.offsets)
    return attrs.evolve(narrowing, offsets=tuple(sorted(wanted))), False


def _with_times(narrowing: Narrowing, kind: str, values: Sequence[datetime]) -> Narrowing:
    if kind in {"LessThan", "LessThanOrEqual"}:
        return narrowing
    # A record's time is in whole milliseconds, so one that is later than a part of one is at least the next.
    least = min(-((_EPOCH - value) // _MILLISECOND) for value in values)
    if least <= 0:
        return narrowing  # records without a time have -1, and nothing is older than that
    return attrs.evolve(narrowing, youngest=least if narrowing.youngest is None else max(least, narrowing.youngest))
