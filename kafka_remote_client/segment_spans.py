"""The segments of a partition as a plan knows them: offsets, sizes and times. Pure.

A plan of a large tier holds hundreds of thousands of segments. So their fields are in four arrays, 32 bytes for each segment,
and a :class:`SegmentSpan` exists only while it is looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import attrs

__all__ = ["SegmentSpan", "SegmentSpans", "proportional"]

_UNKNOWN_TIME = -1


@attrs.frozen
class SegmentSpan:
    """Offsets ``[start, end)`` and their size in bytes: a segment, or several in a row that are planned together.

    ``max_timestamp``: the latest timestamp in it, in milliseconds; ``None`` = not known.
    """

    start: int
    end: int
    size_in_bytes: int
    max_timestamp: int | None = None

    @property
    def density(self) -> float:
        """Bytes per offset."""
        return self.size_in_bytes / (self.end - self.start)


def proportional(size: int, offsets: int, whole: int) -> int:
    """The bytes of ``offsets`` offsets of a segment that has ``size`` bytes for ``whole`` offsets."""
    return size * offsets // whole


class SegmentSpans(Sequence[SegmentSpan]):
    """A sequence of spans in little memory, which only :meth:`add` changes. It equals other SegmentSpans of the same spans."""

    __slots__ = ("_columns",)

    def __init__(self, spans: Iterable[SegmentSpan] = ()) -> None:
        self._columns = (array("q"), array("q"), array("q"), array("q"))
        starts, ends, sizes, times = (column.append for column in self._columns)
        for span in spans:
            starts(span.start)
            ends(span.end)
            sizes(span.size_in_bytes)
            times(_UNKNOWN_TIME if span.max_timestamp is None else span.max_timestamp)

    def add(self, entries: Iterable[tuple[bytes, int, int, int, int, int, int, int]]) -> None:
        """Appends the offsets of segments that belong to the log, with bytes in proportion.

        Entries have the fields of ``protocol.segment_list.SegmentEntry``, which were checked.
        """
        starts, ends, sizes, times = (column.append for column in self._columns)
        for _, start, end, first, following, _, youngest, size in entries:
            starts(first)
            ends(following)
            sizes(proportional(size, following - first, end + 1 - start))
            times(youngest)

    def within(self, start: int, end: int) -> SegmentSpans:
        """Returns the spans that hold offsets of ``[start, end)``."""
        if self and start < self._columns[1][0] and self._columns[0][-1] < end:
            return self
        return SegmentSpans(span for span in self if span.start < end and span.end > start)

    @property
    def nbytes(self) -> int:
        """The memory that the spans take."""
        return sum(column.itemsize * len(column) for column in self._columns)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[SegmentSpan]:
        for values in zip(*self._columns, strict=True):
            yield _span(*values)

    @overload
    def __getitem__(self, place: int) -> SegmentSpan: ...
    @overload
    def __getitem__(self, place: slice) -> SegmentSpans: ...
    def __getitem__(self, place: int | slice) -> SegmentSpan | SegmentSpans:
        if isinstance(place, slice):
            part = SegmentSpans()
            starts, ends, sizes, times = self._columns
            part._columns = (starts[place], ends[place], sizes[place], times[place])
            return part
        return _span(*(column[place] for column in self._columns))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SegmentSpans) and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment]  # it may grow

    def __repr__(self) -> str:
        return f"SegmentSpans({list(self)!r})"


def _span(start: int, end: int, size: int, youngest: int) -> SegmentSpan:
    return SegmentSpan(start, end, size, youngest if youngest >= 0 else None)
