"""What the driver learns about segments before a job: asks for locations here and there, and reads nothing.

A location names its segment with bounds and size. One question at the start of a partition's tiered part gives the bytes per
offset, and so how many splits there will be; one more question for each bound of those, side by side, gives segment bounds near
them. What lies between is estimated (:mod:`~kafka_remote_client.spark.planning`). So the cost grows with the number
of splits, not of segments, and it is bounded: beyond ``budget`` questions bounds are further apart. It works with every
location source.

Locations are asked as a reader of uncommitted records would: transactions are no concern of a plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.fetch.plan import MIN_RANGE_BYTES, WINDOW_RANGES
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.model import UNKNOWN_EPOCH, IsolationLevel, PartitionOffsets, SegmentLocation
from kafka_remote_client.spark.offsets import TopicPartition
from kafka_remote_client.spark.planning import OffsetRange, SegmentSpan

__all__ = ["DEFAULT_BUDGET", "probe_offsets", "with_segments"]

DEFAULT_BUDGET = 512
_THREADS = 8
_WINDOW_BYTES = WINDOW_RANGES * 8 * 1024 * 1024


def with_segments(
    source: LocationSource,
    ranges: Sequence[OffsetRange],
    *,
    split_bytes: int,
    clock: Clock,
    timeout: float,
    budget: int = DEFAULT_BUDGET,
) -> list[OffsetRange]:
    """The ranges with the segments that were learnt of. ``timeout`` bounds one question, in seconds. Never raises: where
    nothing can be learnt, a range is as it was, and its splits are cut elsewhere.
    """
    wanted = [found for found in ranges if found.start < found.end]
    if not wanted:
        return list(ranges)
    offsets = source.offsets_of([found.topic_partition for found in wanted], Deadline(clock, timeout))
    known_ends = {found.topic_partition: _tiered_end(offsets[found.topic_partition]) for found in wanted}
    tiered = {found.topic_partition: _asked_end(known_ends[found.topic_partition], found.end) for found in wanted}
    prober = _Prober(source, clock, timeout)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-remote-plan") as workers:
        # The first one is asked for a whole window, which shows how large ranges are.
        locations = list(
            workers.map(
                lambda found: prober.locate(found.topic_partition, found.start, tiered[found.topic_partition], _WINDOW_BYTES),
                wanted,
            )
        )
        firsts = [None if found is None else _span(found) for found in locations]
        each = max(1, (budget - len(wanted)) // len(wanted))
        questions = [
            (found.topic_partition, offset)
            for found, first in zip(wanted, firsts, strict=True)
            if first is not None
            for offset in probe_offsets(first, tiered[found.topic_partition], split_bytes, each)
        ]
        answers = list(workers.map(lambda q: (q[0], prober.segment(q[0], q[1], tiered[q[0]])), questions))
    spans: dict[TopicPartition, set[SegmentSpan]] = {found.topic_partition: set() for found in wanted}
    for partition, span in [*zip((found.topic_partition for found in wanted), firsts, strict=True), *answers]:
        if span is not None:
            spans[partition].add(span)
    sizes = {
        found.topic_partition: _range_bytes(location) for found, location in zip(wanted, locations, strict=True) if location
    }
    return [
        attrs.evolve(
            found,
            segments=tuple(sorted(spans.get(found.topic_partition, ()), key=lambda span: span.start)),
            tiered_end=known_ends.get(found.topic_partition),
            range_bytes=sizes.get(found.topic_partition),
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


def _tiered_end(offsets: PartitionOffsets | DirectFetchError) -> int | None:
    return None if isinstance(offsets, DirectFetchError) or offsets.latest_tiered < 0 else offsets.latest_tiered + 1


def _asked_end(tiered_end: int | None, end: int) -> int:
    """The first offset that need not be asked for. What is not known is asked for."""
    return end if tiered_end is None else min(end, tiered_end)


def _span(found: SegmentLocation) -> SegmentSpan:
    segment = found.metadata
    # A shim's location does not say how young the records are: -1.
    youngest = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else None
    return SegmentSpan(segment.start_offset, segment.end_offset + 1, segment.segment_size_in_bytes, youngest)


def _range_bytes(found: SegmentLocation) -> int | None:
    """How large ranges are; a single one may be the rest of a segment, which says nothing."""
    return max(granted.range.size for granted in found.ranges) if len(found.ranges) > 1 else None


class _Prober:
    def __init__(self, source: LocationSource, clock: Clock, timeout: float) -> None:
        self._source = source
        self._clock = clock
        self._timeout = timeout

    def segment(self, partition: TopicPartition, offset: int, tiered_end: int) -> SegmentSpan | None:
        found = self.locate(partition, offset, tiered_end, MIN_RANGE_BYTES)
        return None if found is None else _span(found)

    def locate(self, partition: TopicPartition, offset: int, tiered_end: int, max_bytes: int) -> SegmentLocation | None:
        if offset >= tiered_end:
            return None
        try:
            found = self._source.locate(
                *partition,
                offset,
                leader_epoch=UNKNOWN_EPOCH,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                max_bytes=max_bytes,
                deadline=Deadline(self._clock, self._timeout),
            )
        except DirectFetchError:
            return None
        return found if isinstance(found, SegmentLocation) else None
