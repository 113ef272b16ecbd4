"""The driver's look-up of segments before a job: lists them or requests some locations, and reads no data.

All sources know all segments (SegmentListingSource); a shim lists them in pages. Then splits end exactly where segments end,
without a location request. Partitions that an older shim does not list are asked, as follows.

A location names its segment with bounds and size. One question at the start of a partition's tiered part gives the bytes per
offset, and so how many splits there will be; one more question for each bound of those, side by side, gives segment bounds near
them. If records grow along the log, the gaps between those segments hold more than expected: up to ROUNDS times more
questions go to the largest gaps. The rest is estimated (:mod:`~kafka_remote_client.scanning.splits`). So
the cost grows with the number of splits, not of segments, and it is bounded: beyond ``budget`` questions bounds are further
apart.

::

    first answers   |s1|.......|s2|.......................|s3|       records after s2 are larger than before
    next round      |s1|.......|s2|......|s4|......|s5|...|s3|

Requests use read_uncommitted, because transactions do not affect a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.range_sizes import MIN_RANGE_BYTES, WINDOW_RANGES
from kafka_remote_client.location.source import LocationSource, SegmentListingSource, locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import IsolationLevel, PartitionOffsets, SegmentLocation, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, UnknownSpan, tiles
from kafka_remote_client.segment_spans import SegmentSpan, SegmentSpans
from kafka_remote_client.settings import default_of

__all__ = ["DEFAULT_BUDGET", "ROUNDS", "TierOffsets", "gap_offsets", "probe_offsets", "with_segments"]

DEFAULT_BUDGET = 512
ROUNDS = 4
_MUCH = 1.5
"""A gap gets a question if it holds this many times the bytes of a split."""
_LEAST_DENSITY = 1e-9
_THREADS = 8
_LIST_SECONDS = 30.0
"""How long a source may take to list the segments of all partitions; what is missing then is asked."""
TierOffsets: TypeAlias = Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]
"""The bounds of each partition's tiers, or an error instead."""
_WINDOW_BYTES = WINDOW_RANGES * default_of("fetch.remote.range.bytes")


def with_segments(
    source: LocationSource,
    ranges: Sequence[OffsetRange],
    *,
    split_bytes: int,
    clock: Clock,
    timeout: float,
    budget: int = DEFAULT_BUDGET,
    offsets: TierOffsets | None = None,
) -> list[OffsetRange]:
    """Returns the ranges with the segments that were found. ``timeout`` limits one question, in seconds. ``offsets``: the
    source's bounds of the tiers of these partitions, if known. Never raises: without an answer a range stays
    unchanged, and its splits have other bounds.
    """
    wanted = [found for found in ranges if found.start < found.end]
    if not wanted:
        return list(ranges)
    if offsets is None:
        offsets = source.offsets_of([found.topic_partition for found in wanted], Deadline(clock, timeout))
    listed = _listed(source, wanted, clock)
    known_ends = {found.topic_partition: _tiered_end(offsets[found.topic_partition]) for found in wanted}
    ends = {found.topic_partition: _asked_end(known_ends[found.topic_partition], found.end) for found in wanted}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-remote-plan") as workers:
        prober = _Prober(source, clock, timeout, workers, ends)
        asked = {found.topic_partition: found.start for found in wanted if found.topic_partition not in listed}
        # The first one is asked for a whole window, which shows how large ranges are.
        firsts = prober.locations(asked, _WINDOW_BYTES)
        known = {partition: {_span(location)} for partition, location in firsts.items()}
        if asked:
            prober.fill(known, split_bytes, budget - len(asked), len(asked))
    return [
        attrs.evolve(
            found,
            segments=listed.get(found.topic_partition) or _in_order(known.get(found.topic_partition, ())),
            tiered_end=known_ends.get(found.topic_partition),
            range_bytes=_range_bytes(firsts.get(found.topic_partition)),
        )
        for found in ranges
    ]


def probe_offsets(first: SegmentSpan, tiered_end: int, split_bytes: int, limit: int) -> list[int]:
    """Where to ask after the first segment: every ``split_bytes`` or so, at most ``limit`` times."""
    left = tiered_end - first.end
    if left <= 0 or limit <= 0:
        return []
    density = max(1, first.size_in_bytes) / (first.end - first.start)
    stride = max(1.0, max(split_bytes, first.size_in_bytes) / density, left / limit)
    return [first.end + int(n * stride) for n in range(math.ceil(left / stride))]


def gap_offsets(segments: Sequence[SegmentSpan], tiered_end: int, split_bytes: int, limit: int) -> list[int]:
    """Where to ask in the gaps after the first of these segments, at most ``limit`` times: most in those with the most bytes.

    A gap that holds less than a split is left alone, unless each segment is to be its own split.
    """
    gaps = [tile for tile in tiles(segments[0].start, tiered_end, segments) if isinstance(tile, UnknownSpan)]
    sizes = [(gap.end - gap.start) * max(gap.density or 0.0, _LEAST_DENSITY) for gap in gaps]
    wanted = []
    for gap, size in zip(gaps, sizes, strict=True):
        usual = sum(span.size_in_bytes for span in gap.neighbours) / len(gap.neighbours)
        if split_bytes < usual:
            wanted.append((gap, size, usual, True))
        elif size > _MUCH * split_bytes:
            wanted.append((gap, size, float(split_bytes), False))
    # If there are too many questions for the budget, pieces are larger, and small gaps get none.
    smallest = sum(size for _, size, _, _ in wanted) / max(1, limit)
    found = []
    for gap, size, target, from_start in sorted(wanted, key=lambda one: -one[1]):
        length = gap.end - gap.start
        share = size / max(1.0, target, smallest)
        pieces = max(1, min(length, round(share))) if from_start else max(2, min(length, math.ceil(share)))
        found += [gap.start + length * n // pieces for n in range(0 if from_start else 1, pieces)]
    return sorted(found[: max(0, limit)])


def _listed(source: LocationSource, wanted: Sequence[OffsetRange], clock: Clock) -> dict[TopicPartition, SegmentSpans]:
    """Returns the segments of each range whose partition the source lists, in order."""
    if not isinstance(source, SegmentListingSource):
        return {}
    answers = source.segments_of([found.topic_partition for found in wanted], Deadline(clock, _LIST_SECONDS))
    return {
        found.topic_partition: answers[found.topic_partition].within(found.start, found.end)
        for found in wanted
        if found.topic_partition in answers
    }


def _tiered_end(offsets: PartitionOffsets | DirectFetchError) -> int | None:
    return None if isinstance(offsets, DirectFetchError) or offsets.latest_tiered < 0 else offsets.latest_tiered + 1


def _asked_end(tiered_end: int | None, end: int) -> int:
    """Returns the first offset that needs no question. Unknown offsets need one."""
    return end if tiered_end is None else min(end, tiered_end)


def _in_order(spans: Iterable[SegmentSpan]) -> tuple[SegmentSpan, ...]:
    return tuple(sorted(spans, key=lambda span: span.start))


def _span(found: SegmentLocation) -> SegmentSpan:
    segment = found.metadata
    # A shim's location has no timestamp: -1.
    youngest = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else None
    return SegmentSpan(segment.start_offset, segment.end_offset + 1, segment.segment_size_in_bytes, youngest)


def _range_bytes(found: SegmentLocation | None) -> int | None:
    """Returns the size of ranges. A single range may be the rest of a segment, which does not show it."""
    return None if found is None or len(found.ranges) < 2 else max(granted.range.size for granted in found.ranges)


@attrs.frozen
class _Prober:
    """Asks several questions at once. ``ends``: from where on nothing need be asked. ``timeout``: of one question."""

    source: LocationSource
    clock: Clock
    timeout: float
    workers: ThreadPoolExecutor
    ends: Mapping[TopicPartition, int]

    def fill(self, known: Mapping[TopicPartition, set[SegmentSpan]], split_bytes: int, budget: int, partitions: int) -> None:
        """Adds to the first segment of each partition the results of ``budget`` questions, shared by ``partitions``."""
        asked: set[tuple[TopicPartition, int]] = set()
        for number in range(1 + ROUNDS):
            # Later rounds know more, so half of what is left is kept for them.
            limit = max(1, (budget if number == ROUNDS else budget // 2) // partitions)
            questions = [
                (partition, offset)
                for partition, spans in known.items()
                for offset in self._offsets(partition, spans, split_bytes, limit, first=number == 0)
                if (partition, offset) not in asked
            ]
            if not questions or (number and len(questions) > budget):
                return
            asked.update(questions)
            budget -= len(questions)
            answers = self._answers(questions, MIN_RANGE_BYTES)
            for (partition, _), found in zip(questions, answers, strict=True):
                if found is not None:
                    known[partition].add(_span(found))

    def _offsets(
        self, partition: TopicPartition, spans: Iterable[SegmentSpan], split_bytes: int, limit: int, *, first: bool
    ) -> list[int]:
        segments = _in_order(spans)
        if first:
            return probe_offsets(segments[0], self.ends[partition], split_bytes, limit)
        return gap_offsets(segments, self.ends[partition], split_bytes, limit)

    def locations(self, offsets: Mapping[TopicPartition, int], max_bytes: int) -> dict[TopicPartition, SegmentLocation]:
        """Returns the answers without errors."""
        answers = self._answers(list(offsets.items()), max_bytes)
        return {partition: found for partition, found in zip(offsets, answers, strict=True) if found is not None}

    def _answers(self, questions: Sequence[tuple[TopicPartition, int]], max_bytes: int) -> Iterable[SegmentLocation | None]:
        return self.workers.map(lambda asked: self._locate(asked[0], asked[1], max_bytes), questions)

    def _locate(self, partition: TopicPartition, offset: int, max_bytes: int) -> SegmentLocation | None:
        if offset >= self.ends[partition]:
            return None
        topic, number = partition
        question = LocationQuestion(
            topic=topic,
            partition=number,
            offset=offset,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            max_bytes=max_bytes,
        )
        try:
            found = locate_one(self.source, question, Deadline(self.clock, self.timeout))
        except DirectFetchError:
            return None
        return found if isinstance(found, SegmentLocation) else None
