"""Cuts offset ranges into splits, one task each: on segment bounds, sized by bytes, across both tiers. Pure.

::

    segments    |----s1----|--s2--|-----s3-----|--s4--|........ local tail
    range            [-----------------------------------)
    splits           [------------|------------|---------)      each about split_bytes, cut where a segment ends

A segment is cut only if ``min_partitions`` or ``max_records`` require more splits than there are segments. Offsets without a
known segment (the local tail, gaps between location requests that are far apart) are cut by size alone. Their sizes are
estimated from the neighbouring segments, because the sizes of records drift along a log.

References: Spark's KafkaOffsetRangeCalculator (minPartitions, maxRecordsPerPartition).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.segment_spans import SegmentSpan

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "OffsetRange",
    "Split",
    "UnknownSpan",
    "joined",
    "plan_splits",
    "sized",
    "tiles",
    "total_bytes",
]

DEFAULT_SPLIT_BYTES = 128 * 1024 * 1024
_ASSUMED_BYTES_PER_OFFSET = 1024.0


@attrs.frozen
class OffsetRange:
    """The offsets ``[start, end)`` of a partition to read, and the known segments in it, in order.

    ``tiered_end``: the first offset that is not tiered; ``None`` = not known, or nothing is tiered. ``range_bytes``: the size
    of the granted ranges, ``None`` if not known. ``tier_failure``: why the driver could not read the tier.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    segments: Sequence[SegmentSpan] = ()
    tiered_end: int | None = None
    range_bytes: int | None = None
    tier_failure: str | None = None


@attrs.frozen
class UnknownSpan:
    """Offsets ``[start, end)`` without a known segment, and the known segments on both sides; ``None`` = there is none."""

    start: int
    end: int
    before: SegmentSpan | None
    after: SegmentSpan | None

    @property
    def neighbours(self) -> tuple[SegmentSpan, ...]:
        """One or two of them, or none."""
        return tuple(span for span in (self.before, self.after) if span is not None)

    @property
    def density(self) -> float | None:
        """Bytes per offset: the mean of the neighbours; ``None`` without any."""
        found = self.neighbours
        return sum(span.density for span in found) / len(found) if found else None


@attrs.frozen
class Split:
    """The work of one task: the offsets ``[start, end)`` of a partition, about ``size_in_bytes`` bytes.

    ``tiered_end`` and ``tier_failure`` are those of its range. ``max_broker_bytes``: its share of ``remote.maxBrokerBytes``,
    ``None`` = no limit. ``gets``: the estimated number of requested ranges, ``None`` = not planned. Two splits of the same
    offsets are equal, even if these fields differ.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    size_in_bytes: int
    tiered_end: int | None = attrs.field(default=None, eq=False)
    tier_failure: str | None = attrs.field(default=None, eq=False)
    max_broker_bytes: int | None = attrs.field(default=None, eq=False)
    gets: int | None = attrs.field(default=None, eq=False)

    @property
    def offsets(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end - self.start

    @property
    def local_bytes(self) -> int:
        """The estimated bytes from the broker: those that are not tiered, or all if the tier fails."""
        if self.tiered_end is None or self.tier_failure is not None:
            return self.size_in_bytes
        local = max(0, self.end - max(self.start, self.tiered_end))
        return self.size_in_bytes * local // max(1, self.offsets)

    def part(self, start: int, end: int) -> Split:
        """Returns its part ``[start, end)``, with bytes in proportion to the offsets, and GETs only for the whole split."""
        size = self.size_in_bytes * (end - start) // self.offsets
        gets = self.gets if (start, end) == (self.start, self.end) else None
        return attrs.evolve(self, start=start, end=end, size_in_bytes=size, gets=gets)

    @property
    def id(self) -> str:
        """The name ``topic-partition-start-end``, the same in every attempt and every job. It is a valid file name."""
        return f"{self.topic_partition.topic}-{self.topic_partition.partition}-{self.start}-{self.end}"


def plan_splits(
    ranges: Iterable[OffsetRange],
    *,
    split_bytes: int = DEFAULT_SPLIT_BYTES,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[Split]:
    """Returns splits that tile the ranges, in order. An empty range has none.

    There are at least ``min_partitions`` splits, unless there are fewer offsets. No split spans more than ``max_records``
    offsets.
    """
    cells = sized(ranges, split_bytes)
    target = split_bytes if min_partitions is None else min(split_bytes, total_bytes(cells) // min_partitions + 1)
    splits = [split for tiled in cells for split in _packed(tiled, target, max_records)]
    parts = [1 if max_records is None else -(-split.offsets // max_records) for split in splits]
    if min_partitions is not None:
        parts = _more_parts(splits, parts, min_partitions)
    return [
        piece
        for split, count in zip(splits, parts, strict=True)
        for piece in ((split,) if count == 1 else _divided(split, count))
    ]


def sized(ranges: Iterable[OffsetRange], largest_gap: int | None = None) -> list[list[Split]]:
    """Returns each non-empty range, tiled with its parts of segments and the gaps between them, and the bytes of each.

    Gaps are cut into pieces of about ``largest_gap`` bytes; ``None`` = not cut.
    """
    wanted = [found for found in ranges if found.start < found.end]
    density = cache(lambda: _density(span for found in wanted for span in found.segments))
    return [list(_cells(found, density, largest_gap)) for found in wanted]


def total_bytes(tiled: Iterable[Iterable[Split]]) -> int:
    """Returns the bytes of all parts of :func:`sized`."""
    return sum(part.size_in_bytes for parts in tiled for part in parts)


def joined(splits: Iterable[Split], kind: Callable[[Split], object]) -> Iterator[Split]:
    """Joins neighbours that one read can cover: of the same partition, without a gap between them, and of equal ``kind``."""
    last: Split | None = None
    last_kind: object = None
    for split in splits:
        split_kind = kind(split)
        if last is None:
            last = split
        elif (last.topic_partition, last.end, last_kind) == (split.topic_partition, split.start, split_kind):
            gets = None if last.gets is None or split.gets is None else last.gets + split.gets
            last = attrs.evolve(last, end=split.end, size_in_bytes=last.size_in_bytes + split.size_in_bytes, gets=gets)
        else:
            yield last
            last = split
        last_kind = split_kind
    if last is not None:
        yield last


def tiles(start: int, end: int, segments: Sequence[SegmentSpan]) -> Iterator[tuple[int, int, SegmentSpan] | UnknownSpan]:
    """Tiles ``[start, end)``: the part of each segment in it, as (start, end, segment), and the gaps between them."""
    at, before = start, None
    for span in segments:
        first = max(at, span.start)  # without max and min, which take half the time of a large plan
        last = min(end, span.end)
        if at < first and at < end:
            yield UnknownSpan(at, min(first, end), before, span)
            at = min(first, end)
        if first < last:
            yield first, last, span
            at = last
        before = span
    if at < end:
        yield UnknownSpan(at, end, before, None)


def _density(spans: Iterable[SegmentSpan]) -> float:
    """Returns the bytes per offset of all known segments."""
    offsets = size = 0
    for span in spans:
        offsets += span.end - span.start
        size += span.size_in_bytes
    return size / offsets if offsets else _ASSUMED_BYTES_PER_OFFSET


def _cells(found: OffsetRange, elsewhere: Callable[[], float], largest_gap: int | None) -> Iterator[Split]:
    """Tiles a range with its segments, cut to the range, and with the gaps between and after them.

    ``elsewhere`` returns the bytes per offset if no segment of this partition is known.
    """
    partition, tiered_end, failure = found.topic_partition, found.tiered_end, found.tier_failure
    for tile in tiles(found.start, found.end, found.segments):
        if isinstance(tile, UnknownSpan):
            density = elsewhere() if tile.density is None else tile.density
            size = int((tile.end - tile.start) * density)
            whole = Split(partition, tile.start, tile.end, size, tiered_end, failure)
            pieces = 1 if largest_gap is None else -(-whole.size_in_bytes // max(1, largest_gap))
            yield from _divided(whole, max(1, min(pieces, whole.offsets)))
        else:
            start, end, span = tile
            size = span.size_in_bytes * (end - start) // (span.end - span.start)
            yield Split(partition, start, end, size, tiered_end, failure)


def _packed(cells: Sequence[Split], target: int, max_records: int | None) -> Iterator[Split]:
    """Joins neighbours as long as they stay within both bounds."""
    joined = cells[0]
    for cell in cells[1:]:
        size = joined.size_in_bytes + cell.size_in_bytes
        if size > target or (max_records is not None and cell.end - joined.start > max_records):
            yield joined
            joined = cell
        else:
            joined = attrs.evolve(joined, end=cell.end, size_in_bytes=size)
    yield joined


def _more_parts(splits: Sequence[Split], parts: Sequence[int], wanted: int) -> list[int]:
    """Returns the number of parts of each split for ``wanted`` parts in total. It cuts the largest parts first."""
    counts = list(parts)
    heap = [(-(split.size_in_bytes + 1) / counts[i], i) for i, split in enumerate(splits) if counts[i] < split.offsets]
    heapq.heapify(heap)
    missing = wanted - sum(counts)
    while missing > 0 and heap:
        _, index = heap[0]
        counts[index] += 1
        missing -= 1
        if counts[index] < splits[index].offsets:
            heapq.heapreplace(heap, (-(splits[index].size_in_bytes + 1) / counts[index], index))
        else:
            heapq.heappop(heap)
    return counts


def _divided(split: Split, count: int) -> Iterator[Split]:
    """Returns ``count`` parts whose numbers of offsets differ by at most one."""
    bounds = [split.start + split.offsets * n // count for n in range(count + 1)]
    sizes = [split.size_in_bytes * n // count for n in range(count + 1)]
    for n in range(count):
        yield attrs.evolve(split, start=bounds[n], end=bounds[n + 1], size_in_bytes=sizes[n + 1] - sizes[n])
