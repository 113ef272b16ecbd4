"""The predicted cost of a job, from the source's own plan: segments, GETs, bytes, splits, dollars, time. Pure.

Theory of operation. For splits with the location requests of their tasks every GET is known
(:mod:`~kafka_remote_client.spark.planning.asked_requests`). The rest is estimated. The ranges of a query come with the segments
that are known; between known segments are stretches of which only the length in offsets is known. A known segment
costs a GET for each of its ranges. A stretch counts as segments like its neighbours; if a partition has no known segment,
like those of all partitions. The estimate is then scaled: by what was asked, over what it says of the same offsets::

    segments   |--s1--|--s2--|......?......|--s9--|        local tail
    splits     [------|-------------|-------------|---------)
    GETs          1      1    ~3      ~4      1        none: the broker
    asked      [------)      [---)                     here GETs and bytes are exact, and scale the others

The time is that of tasks on cores in order. A task takes as long as the slower of two: its bytes at the rate of a
core, or its GETs, ``in_flight`` at once, at the store's latency; plus one latency for its first location.

References: docs/spark.md.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby, zip_longest
from typing import Any

import attrs

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, Split, UnknownSpan, tiles
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.settings import default_of
from kafka_remote_client.spark.planning.asked_requests import AskedRequests
from kafka_remote_client.spark.planning.job_figures import JobFigures, Prices, counted_figures, side_by_side

__all__ = ["Assumptions", "JobPlan", "PartitionReadPlan", "estimate_job"]

_FOLLOW_FROM_SEGMENTS = ("segments", "segment_bytes")
_FOLLOW_FROM_REQUESTS = ("gets", "read_bytes", "dollars")


@attrs.frozen
class Assumptions:
    """The assumptions of a plan. Sizes in bytes, times in milliseconds.

    ``bytes_per_second``: what one core decodes and hands to Spark. ``in_flight``: GETs of one task at once.
    """

    cores: int = 1
    latency_ms: float = 20.0
    bytes_per_second: float = 100e6
    in_flight: int = default_of("fetch.remote.max.in.flight")
    range_bytes: int = default_of("fetch.remote.range.bytes")
    segment_bytes: int = 1024 * 1024 * 1024


@attrs.frozen
class PartitionReadPlan:
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
    """The predicted cost of a job. ``segments_exact``: all segments are known, else estimated. ``requests_exact``: all GETs
    are known, else they, their bytes and dollars are estimated.

    ``local_bytes``: estimated bytes of what comes through the broker. ``str()`` is a table for people.
    """

    figures: JobFigures
    segments_exact: bool
    requests_exact: bool
    local_bytes: int
    partitions: tuple[PartitionReadPlan, ...]
    assumptions: Assumptions
    prices: Prices

    def counted(self, counters: Mapping[str, object], *, splits: int | None = None, seconds: float | None = None) -> JobFigures:
        """The same figures from the counters of the job's tasks, added up, at the same prices. As ``counted_figures``."""
        return counted_figures(counters, splits=splits, seconds=seconds, prices=self.prices)

    def compared_with(self, counted: JobFigures) -> str:
        """Returns the table of planned and counted figures."""
        return side_by_side({"planned": self.figures, "counted": counted}, self._estimated)

    @property
    def _estimated(self) -> tuple[str, ...]:
        segments = () if self.segments_exact else _FOLLOW_FROM_SEGMENTS
        return "seconds", *segments, *(() if self.requests_exact else _FOLLOW_FROM_REQUESTS)

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
    ranges: Sequence[OffsetRange],
    splits: Sequence[Split],
    *,
    assumptions: Assumptions,
    asked: Sequence[AskedRequests] = (),
    prices: Prices | None = None,
) -> JobPlan:
    """``splits`` lie in ``ranges``, in their order, as ``plan_splits`` makes them. One range for each partition.

    ``asked``: the known requests of each split, if there are any.
    """
    prices = prices or Prices()
    by_partition: dict[TopicPartition, list[_Part]] = {}
    for part in _parts(splits, asked):
        by_partition.setdefault(part.split.topic_partition, []).append(part)
    typical = _typical((span for found in ranges for span in found.segments), assumptions)
    stretches = {
        found.topic_partition: [one for one in _stretches(found, typical) if _is_read(one, by_partition, found)]
        for found in ranges
    }
    for found in ranges:
        own = by_partition.get(found.topic_partition, [])
        _estimate(own, stretches[found.topic_partition], found.range_bytes or assumptions.range_bytes)
    _scale([part for parts in by_partition.values() for part in parts])
    costs: list[_SplitCost] = []
    partitions: list[PartitionReadPlan] = []
    for found in ranges:
        own, here = by_partition.get(found.topic_partition, []), stretches[found.topic_partition]
        costs_here = [_SplitCost.of(parts) for _, parts in groupby(own, lambda part: part.split)]
        opened = sum(stretch.segments for stretch in here)
        read = round(sum(cost.tiered_bytes for cost in costs_here))
        tiered_end = max(found.start, min(found.end, _tiered_end(found)))
        count = len(costs_here)
        partitions.append(PartitionReadPlan(*found.topic_partition, found.start, found.end, tiered_end, opened, count, read))
        costs += costs_here
    every = [stretch for here in stretches.values() for stretch in here]
    gets, read_bytes = round(sum(cost.gets for cost in costs)), round(sum(cost.tiered_bytes for cost in costs))
    figures = JobFigures(
        splits=len(splits),
        segments=sum(partition.segments for partition in partitions),
        segment_bytes=sum(stretch.segment_bytes for stretch in every),
        gets=gets,
        read_bytes=read_bytes,
        records=sum(split.offsets for split in splits),
        dollars=prices.of(gets, read_bytes),
        seconds=_makespan((_seconds(cost, assumptions) for cost in costs), assumptions.cores),
    )
    local = sum(cost.local_bytes for cost in costs)
    segments_exact = all(stretch.known for stretch in every)
    requests_exact = all(part.asked is not None or not part.gets for parts in by_partition.values() for part in parts)
    return JobPlan(figures, segments_exact, requests_exact, local, tuple(partitions), assumptions, prices)


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
class _Part:
    """Offsets ``[start, end)`` of a split, and what they cost: ``asked`` about, or estimated where that is ``None``."""

    split: Split
    start: int
    end: int
    asked: AskedRequests | None
    tiered_bytes: float = 0
    local_bytes: int = 0
    gets: float = 0


@attrs.frozen
class _SplitCost:
    tiered_bytes: float
    local_bytes: int
    gets: float

    @classmethod
    def of(cls, parts: Iterable[_Part]) -> _SplitCost:
        """That of one split, of its parts."""
        own = list(parts)
        return cls(
            sum(part.tiered_bytes for part in own),
            sum(part.local_bytes for part in own),
            sum(part.gets for part in own),
        )


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
    """The end of the tier; if that is unknown, the end of the last known segment."""
    if found.tiered_end is not None:
        return found.tiered_end
    return max((span.end for span in found.segments), default=found.start)


def _stretches(found: OffsetRange, elsewhere: _Segment) -> Iterator[_Stretch]:
    """Tiles the tiered part of a range. ``elsewhere``: the usual segment where none of this partition is known."""
    end = min(found.end, _tiered_end(found))
    for tile in tiles(found.start, end, found.segments):
        if isinstance(tile, UnknownSpan):
            yield _unknown(tile.start, tile.end, _between(tile, elsewhere))
        else:
            start, until, span = tile
            usual = _Segment(span.end - span.start, span.size_in_bytes)
            size = span.size_in_bytes * (until - start) // (span.end - span.start)
            yield _Stretch(start, until, size, 1, span.size_in_bytes, known=True, usual=usual)


def _between(gap: UnknownSpan, elsewhere: _Segment) -> _Segment:
    """Returns the assumed segments of a gap, with its neighbours' mean size and mean bytes per offset."""
    if not gap.density:
        return elsewhere
    size = sum(span.size_in_bytes for span in gap.neighbours) / len(gap.neighbours)
    return _Segment(size / gap.density, size)


def _unknown(start: int, end: int, usual: _Segment) -> _Stretch:
    count = max(1, round((end - start) / usual.offsets))
    size = int((end - start) / usual.offsets * usual.size)
    return _Stretch(start, end, size, count, max(size, int(count * usual.size)), known=False, usual=usual)


def _parts(splits: Sequence[Split], asked: Sequence[AskedRequests]) -> Iterator[_Part]:
    """Yields each split, cut at the end of its known requests."""
    for split, known in zip_longest(splits, asked):
        reached = split.start if known is None else known.end
        if known is not None and split.start < reached:
            yield _Part(split, split.start, reached, known)
        if reached < split.end:
            yield _Part(split, reached, split.end, None)


def _is_read(stretch: _Stretch, parts: Mapping[TopicPartition, Sequence[_Part]], found: OffsetRange) -> bool:
    """Whether a split holds any of it: filters may leave out segments."""
    return any(part.start < stretch.end and stretch.start < part.end for part in parts.get(found.topic_partition, ()))


def _estimate(parts: Sequence[_Part], stretches: Sequence[_Stretch], range_bytes: int) -> None:
    """Adds the cost of each part by its stretches. Both are in order, and no part crosses the end of its partition."""
    at = 0
    for part in parts:
        tiered = 0
        while at < len(stretches) and stretches[at].start < part.end:
            stretch = stretches[at]
            start, end = max(part.start, stretch.start), min(part.end, stretch.end)
            tiered += end - start
            share = Fraction(end - start, stretch.end - stretch.start)
            part.tiered_bytes += round(stretch.size * share)
            part.gets += _gets(stretch, share, range_bytes)
            if stretch.end > part.end:
                break
            at += 1
        part.local_bytes = part.split.size_in_bytes * (part.end - part.start - tiered) // part.split.offsets


def _scale(parts: Sequence[_Part]) -> None:
    """Replaces estimates by known requests, and scales the other estimates by the difference."""
    known = [(part, part.asked) for part in parts if part.asked is not None]
    gets = _ratio(sum(asked.gets for _, asked in known), sum(part.gets for part, _ in known))
    size = _ratio(sum(asked.read_bytes for _, asked in known), sum(part.tiered_bytes for part, _ in known))
    for part in parts:
        part.gets = part.gets * gets if part.asked is None else part.asked.gets
        part.tiered_bytes = part.tiered_bytes * size if part.asked is None else part.asked.read_bytes


def _ratio(asked: float, estimated: float) -> float:
    return asked / estimated if asked and estimated else 1.0


def _gets(stretch: _Stretch, part: Fraction, range_bytes: int) -> int:
    """The GETs of one split for its share of a stretch. A split requests each segment by itself, in ranges of ``range_bytes``.

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
