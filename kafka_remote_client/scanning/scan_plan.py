"""The plan of a scan: turns facts about the tier into splits, without parts that cannot match. Pure.

::

    segments   |---s1---|---s2---|---s3---|---s4---|       with the latest timestamp of each
    predicate     never    maybe    maybe    never
    hull                 [--)     [-------)                 from the first to the last offset that can match
    times                 |                                 the first record that is late enough
    splits                [-----)[--------)                 cut at the ends of segments, each about split_bytes

References: docs/tables.md, "Choose what to read".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.predicate import Predicate
from kafka_remote_client.scanning.pruning import Extent, Verdict, hull, verdict
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.splits import OffsetRange, Split, UnknownSpan, plan_splits, tiles
from kafka_remote_client.segment_spans import SegmentSpan

__all__ = ["ScanPlan", "TieredPartition", "TimeBounds", "plan_scan", "segments_in", "time_bounds", "with_live_rest"]

_LATEST = 2**63 - 1
_MILLISECOND = timedelta(milliseconds=1)


@attrs.frozen
class TimeBounds:
    """The time bounds of records, in milliseconds: ``oldest <= timestamp < youngest``; ``None`` = no such bound.

    ``youngest`` includes the scan's ``out_of_order``; it is ``None`` if that is not known.
    """

    oldest: int | None = None
    youngest: int | None = None


@attrs.frozen
class TieredPartition:
    """The facts about a partition's tier: offsets ``[start, end)`` are readable, and its segments, in order.

    ``first_young_enough``: every tiered record before this offset is too early for the scan's :class:`TimeBounds`; the tier's
    end if all of them are. ``first_too_young``: the scan may leave out records from here on. ``None`` = not looked up.
    ``tiered_end``: the first offset that is not tiered, ``None`` = ``end``.
    """

    topic_partition: TopicPartition
    start: int
    end: int
    segments: tuple[SegmentSpan, ...] = ()
    first_young_enough: int | None = None
    first_too_young: int | None = None
    tiered_end: int | None = None


@attrs.frozen
class ScanPlan:
    """The plan of a scan: ``splits``, by partition and offset, each with an id, and estimates of GETs and bytes.

    ``ends``: the end of each partition's read; a later scan, or a stream, continues there without gap or duplicate.
    ``segments``: the number of ``known_segments`` that are read.
    """

    scan: Scan
    splits: tuple[Split, ...]
    ends: dict[TopicPartition, int]
    segments: int
    known_segments: int

    @property
    def read_bytes(self) -> int:
        """The total of all splits."""
        return sum(split.size_in_bytes for split in self.splits)

    @property
    def broker_bytes(self) -> int:
        """The part of ``read_bytes`` that is not tiered, by estimate."""
        return sum(split.local_bytes for split in self.splits)

    @property
    def gets(self) -> int:
        """The total of all splits."""
        return sum(split.gets or 0 for split in self.splits)

    def __str__(self) -> str:
        live = f", about {self.broker_bytes:,} bytes of them from the brokers" if self.scan.live else ""
        return (
            f"{len(self.splits)} splits of {len(self.ends)} partitions: about {self.read_bytes:,} bytes in {self.gets:,} GETs, "
            f"{self.segments:,} of {self.known_segments:,} segments{live}"
        )


def time_bounds(scan: Scan) -> TimeBounds:
    """Returns the time bounds of the scan's filter, by its conditions on timestamps alone."""
    first, stop = hull(scan.filter, "timestamp", -_LATEST, _LATEST)
    if first == stop:
        return TimeBounds()
    oldest = None if first == -_LATEST else -(-first // 1000)
    if stop == _LATEST or scan.out_of_order is None:
        return TimeBounds(oldest)
    return TimeBounds(oldest, -(-stop // 1000) - (-scan.out_of_order // _MILLISECOND))


def with_live_rest(known: TieredPartition, log_start: int, end: int) -> TieredPartition:
    """Returns the partition as the log ``[log_start, end)``, of which ``known`` is the tiered part.

    A partition without segments is not tiered at all. The times of what is not tiered are unknown, so all of it can match.
    """
    tiered_end = known.end if known.segments else log_start
    too_young = known.first_too_young
    return attrs.evolve(
        known,
        start=log_start,
        end=end,
        first_too_young=None if too_young is None or too_young >= tiered_end else too_young,
        tiered_end=tiered_end,
    )


def plan_scan(scan: Scan, partitions: Iterable[TieredPartition], *, range_bytes: int) -> ScanPlan:
    """Returns the splits of a scan, from the facts about its partitions. ``range_bytes``: the most bytes of one GET."""
    known = sorted(partitions, key=lambda one: one.topic_partition)
    bounds = {one.topic_partition: _bounded(scan, one) for one in known}
    condition = scan.filter
    first, stop = hull(condition, "timestamp", -_LATEST, _LATEST)
    read = known if first < stop else []
    pieces = [piece for one in read for piece in _pieces(one, bounds[one.topic_partition], condition)]
    spans = {one.topic_partition: one.segments for one in known}
    splits = [
        attrs.evolve(split, gets=_gets(split, spans[split.topic_partition], range_bytes))
        for split in plan_splits(pieces, split_bytes=scan.split_bytes)
    ]
    return ScanPlan(
        scan,
        tuple(splits),
        {partition: end for partition, (_, end) in bounds.items()},
        segments=sum(len(segments_in(one.start, one.end, one.segments)) for one in pieces),
        known_segments=sum(len(one.segments) for one in known),
    )


def segments_in(start: int, end: int, segments: Sequence[SegmentSpan]) -> list[tuple[int, int, SegmentSpan]]:
    """Yields the parts of segments in ``[start, end)`` as (start, end, segment). The segments are in order."""
    first = bisect_right(segments, start, key=lambda span: span.end)
    last = bisect_left(segments, end, key=lambda span: span.start)
    return [tile for tile in tiles(start, end, segments[first:last]) if not isinstance(tile, UnknownSpan)]


def _bounded(scan: Scan, known: TieredPartition) -> tuple[int, int]:
    """Returns the offsets that are within the scan's bounds and in the tier."""
    start, end = scan.start_of(known.topic_partition), scan.end_of(known.topic_partition)
    first = known.start if start is None else max(start, known.start)
    return first, max(first, known.end if end is None else min(end, known.end))


def _pieces(known: TieredPartition, bounds: tuple[int, int], condition: Predicate | None) -> Iterator[OffsetRange]:
    """Returns the part of ``bounds`` that can match, as ranges of offsets with gaps between them."""
    start, end = bounds
    start = start if known.first_young_enough is None else max(start, min(known.first_young_enough, _first_unknown(known)))
    end = end if known.first_too_young is None else min(end, known.first_too_young)
    tiered_end = known.end if known.tiered_end is None else known.tiered_end
    whole = OffsetRange(known.topic_partition, start, end, known.segments, tiered_end)
    left = [found for tile in tiles(start, end, known.segments) if (found := _matching(known, tile, condition)) is not None]
    if not left:
        return
    cuts = [number for number, (one, other) in enumerate(pairwise(left), 1) if one[1] != other[0]]
    for first, last in pairwise([0, *cuts, len(left)]):
        inside = left[first][0], left[last - 1][1]
        spans = tuple(span for _, _, span in segments_in(*inside, known.segments))
        yield attrs.evolve(whole, start=inside[0], end=inside[1], segments=spans)


def _first_unknown(known: TieredPartition) -> int:
    """Returns the first offset that is in no segment: its time was not looked up."""
    at = known.start
    for span in known.segments:
        if span.start > at:
            break
        at = max(at, span.end)
    return at


def _matching(
    known: TieredPartition, tile: tuple[int, int, SegmentSpan] | UnknownSpan, condition: Predicate | None
) -> tuple[int, int] | None:
    """Returns the first and the last offset of a tile that a matching record can have; ``None`` if none can match."""
    start, end, span = (tile.start, tile.end, None) if isinstance(tile, UnknownSpan) else tile
    youngest = None if span is None or span.max_timestamp is None else span.max_timestamp * 1000
    extent = Extent(*known.topic_partition, start, end, youngest=youngest)
    if verdict(condition, extent) is Verdict.NEVER:
        return None
    first, stop = hull(condition, "offset", start, end)
    return (first, stop) if first < stop else None


def _gets(split: Split, segments: Sequence[SegmentSpan], range_bytes: int) -> int:
    """Counts GETs: a split requests each segment separately, in ranges of ``range_bytes``."""
    sizes = (
        span.size_in_bytes * (end - start) // (span.end - span.start)
        for start, end, span in segments_in(split.start, split.end, segments)
    )
    return sum(max(1, -(-size // range_bytes)) for size in sizes)
