"""What a job will take, from the plan that the source itself makes: segments, GETs, bytes, splits, dollars, time. Pure.

Theory of operation. The ranges of a query come with the segments that were learnt of; between known segments lie stretches of
which only the length in offsets is known. A segment that is known costs a GET for each range of it. A stretch is taken for
segments like its neighbours; where a partition has no known segment, like those of all partitions. All that follows from it is
an estimate::

    segments   |--s1--|--s2--|......?......|--s9--|        local tail
    splits     [------|-------------|-------------|---------)
    GETs          1      1    ~3      ~4      1        none: the broker

The time is that of tasks taken by cores in their order. A task takes as long as the slower of two: its bytes at the rate of a
core, or its GETs, so many at once, at the store's latency; and one latency more for its first location.

References: docs/spark.md.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import attrs

from kafka_remote_client.settings import default_of
from kafka_remote_client.spark.offsets.json_offsets import TopicPartition
from kafka_remote_client.spark.planning.job_figures import JobFigures, Prices, counted_figures, side_by_side
from kafka_remote_client.spark.planning.splits import Gap, OffsetRange, SegmentSpan, Split, tiles

__all__ = ["Assumptions", "JobPlan", "PartitionPlan", "estimate_job"]

_FOLLOW_FROM_SEGMENTS = ("segments", "segment_bytes", "gets", "read_bytes", "dollars")


@attrs.frozen
class Assumptions:
    """What a plan takes for granted. Sizes in bytes, times in milliseconds.

    ``bytes_per_second``: what one core decodes and hands to Spark. ``in_flight``: GETs of one task at once.
    """

    cores: int = 1
    latency_ms: float = 20.0
    bytes_per_second: float = 100e6
    in_flight: int = default_of("fetch.remote.max.in.flight")
    range_bytes: int = default_of("fetch.remote.range.bytes")
    segment_bytes: int = 1024 * 1024 * 1024


@attrs.frozen
class PartitionPlan:
    """What is read of one partition: offsets ``[start, end)``; those from ``tiered_end`` on come through the broker."""

    topic: str
    partition: int
    start: int
    end: int
    tiered_end: int
    segments: int
    splits: int
    read_bytes: int


@attrs.frozen
class JobPlan:
    """What a job will take. ``segments_exact``: all segments were seen; else they, and what follows, are estimated.

    ``local_bytes``: estimated bytes of what comes through the broker. ``str()`` is a table for people.
    """

    figures: JobFigures
    segments_exact: bool
    local_bytes: int
    partitions: tuple[PartitionPlan, ...]
    assumptions: Assumptions
    prices: Prices

    def counted(self, counters: Mapping[str, object], *, splits: int | None = None, seconds: float | None = None) -> JobFigures:
        """The same figures from the counters of the job's tasks, added up, at the same prices. As ``counted_figures``."""
        return counted_figures(counters, splits=splits, seconds=seconds, prices=self.prices)

    def compared_with(self, counted: JobFigures) -> str:
        """The table with what was counted beside what was planned."""
        return side_by_side({"planned": self.figures, "counted": counted}, self._estimated)

    @property
    def _estimated(self) -> tuple[str, ...]:
        return "seconds", *(() if self.segments_exact else _FOLLOW_FROM_SEGMENTS)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return attrs.asdict(self)

    def __str__(self) -> str:
        told = self.assumptions
        lines = [
            side_by_side({"planned": self.figures}, self._estimated),
            "",
            f"Partitions: {len(self.partitions)}. About {self.local_bytes:,} bytes come through the broker.",
            f"~ is an estimate: {told.cores} cores of {told.bytes_per_second / 1e6:g} MB/s each, {told.latency_ms:g} ms a GET, "
            f"{told.in_flight} at once for each task.",
            f"Prices: ${self.prices.per_1000_gets:g} for 1,000 GETs, ${self.prices.per_gb:g} for a GB.",
        ]
        return "\n".join(lines)


def estimate_job(
    ranges: Sequence[OffsetRange], splits: Sequence[Split], *, assumptions: Assumptions, prices: Prices | None = None
) -> JobPlan:
    """``splits`` tile ``ranges``, in their order, as ``plan_splits`` makes them."""
    prices = prices or Prices()
    by_partition: dict[TopicPartition, list[Split]] = {}
    for split in splits:
        by_partition.setdefault(split.topic_partition, []).append(split)
    typical = _typical((span for found in ranges for span in found.segments), assumptions)
    costs: list[_SplitCost] = []
    partitions: list[PartitionPlan] = []
    segments = segment_bytes = 0
    exact = True
    for found in ranges:
        own = by_partition.get(found.topic_partition, ())
        stretches = list(_stretches(found, typical))
        costs_here = _costs(own, stretches, found.range_bytes or assumptions.range_bytes)
        opened = sum(stretch.segments for stretch in stretches)
        read = sum(cost.tiered_bytes for cost in costs_here)
        segments += opened
        segment_bytes += sum(stretch.segment_bytes for stretch in stretches)
        exact &= all(stretch.known for stretch in stretches)
        tiered_end = max(found.start, min(found.end, _tiered_end(found)))
        partitions.append(PartitionPlan(*found.topic_partition, found.start, found.end, tiered_end, opened, len(own), read))
        costs += costs_here
    gets, read_bytes = sum(cost.gets for cost in costs), sum(cost.tiered_bytes for cost in costs)
    figures = JobFigures(
        splits=len(splits),
        segments=segments,
        segment_bytes=segment_bytes,
        gets=gets,
        read_bytes=read_bytes,
        records=sum(split.offsets for split in splits),
        dollars=prices.of(gets, read_bytes),
        seconds=_makespan((_seconds(cost, assumptions) for cost in costs), assumptions.cores),
    )
    local = sum(cost.local_bytes for cost in costs)
    return JobPlan(figures, exact, local, tuple(partitions), assumptions, prices)


@attrs.frozen
class _Segment:
    """A segment of the usual size."""

    offsets: float
    size: float


@attrs.frozen
class _Stretch:
    """Tiered offsets ``[start, end)``: a part of one known segment, or of some that are like ``segment``."""

    start: int
    end: int
    size: int
    segments: int
    segment_bytes: int
    known: bool
    usual: _Segment


@attrs.define
class _SplitCost:
    tiered_bytes: int = 0
    local_bytes: int = 0
    gets: int = 0


def _typical(spans: Iterable[SegmentSpan], assumptions: Assumptions) -> _Segment:
    offsets = size = count = 0
    for span in spans:
        offsets += span.end - span.start
        size += span.size_in_bytes
        count += 1
    if not count:
        return _Segment(assumptions.segment_bytes / 1024, assumptions.segment_bytes)
    return _Segment(offsets / count, size / count)


def _tiered_end(found: OffsetRange) -> int:
    """Where the tier ends; where nobody said so, at the last segment that was seen."""
    if found.tiered_end is not None:
        return found.tiered_end
    return max((span.end for span in found.segments), default=found.start)


def _stretches(found: OffsetRange, elsewhere: _Segment) -> Iterator[_Stretch]:
    """Tiles the tiered part of a range. ``elsewhere``: the usual segment where none of this partition is known."""
    end = min(found.end, _tiered_end(found))
    for tile in tiles(found.start, end, found.segments):
        if isinstance(tile, Gap):
            yield _unknown(tile.start, tile.end, _between(tile, elsewhere))
        else:
            start, until, span = tile
            usual = _Segment(span.end - span.start, span.size_in_bytes)
            size = span.size_in_bytes * (until - start) // (span.end - span.start)
            yield _Stretch(start, until, size, 1, span.size_in_bytes, known=True, usual=usual)


def _between(gap: Gap, elsewhere: _Segment) -> _Segment:
    """The segments that a gap is taken for: of the mean size of its neighbours, and of their mean bytes per offset."""
    if not gap.density:
        return elsewhere
    size = sum(span.size_in_bytes for span in gap.neighbours) / len(gap.neighbours)
    return _Segment(size / gap.density, size)


def _unknown(start: int, end: int, usual: _Segment) -> _Stretch:
    count = max(1, round((end - start) / usual.offsets))
    size = int((end - start) / usual.offsets * usual.size)
    return _Stretch(start, end, size, count, max(size, int(count * usual.size)), known=False, usual=usual)


def _costs(splits: Sequence[Split], stretches: Sequence[_Stretch], range_bytes: int) -> list[_SplitCost]:
    """What each split costs. Both are in order, and no split reaches over the end of the partition."""
    costs, at = [], 0
    for split in splits:
        cost = _SplitCost()
        tiered = 0
        while at < len(stretches) and stretches[at].start < split.end:
            stretch = stretches[at]
            start, end = max(split.start, stretch.start), min(split.end, stretch.end)
            tiered += end - start
            part = Fraction(end - start, stretch.end - stretch.start)
            cost.tiered_bytes += round(stretch.size * part)
            cost.gets += _gets(stretch, part, range_bytes)
            if stretch.end > split.end:
                break
            at += 1
        cost.local_bytes = split.size_in_bytes * (split.offsets - tiered) // split.offsets
        costs.append(cost)
    return costs


def _gets(stretch: _Stretch, part: Fraction, range_bytes: int) -> int:
    """The GETs of one split for its part of a stretch. A split requests each segment by itself, in ranges of ``range_bytes``.

    Two splits that share a range both request it, so each rounds up. Fractions keep an exact quotient from rounding up.
    """
    if stretch.known:
        return max(1, math.ceil(stretch.size * part / range_bytes))
    each = max(1, math.ceil(stretch.usual.size / range_bytes))
    return max(1, math.ceil(stretch.segments * part * each))


def _seconds(cost: _SplitCost, told: Assumptions) -> float:
    latency = told.latency_ms / 1000
    waiting = math.ceil(cost.gets / told.in_flight) * latency
    return latency + max(waiting, (cost.tiered_bytes + cost.local_bytes) / told.bytes_per_second)


def _makespan(tasks: Iterable[float], cores: int) -> float:
    """When the last task ends, if each goes to the core that is free first."""
    free = [0.0] * cores
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)
