"""The facts about a tier for a plan: its partitions, their segments, and offsets of times. It reads no records.

References: :mod:`~kafka_remote_client.scanning.plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.model import IsolationLevel, TopicIdPartition, TopicPartition
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.scanning.plan import TieredPartition, TimeBounds, time_bounds
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.splits import SegmentSpan

__all__ = ["partitions_of", "survey"]

_THREADS = 8


def survey(tier: TierReader, scan: Scan) -> list[TieredPartition]:
    """Returns the facts about each partition of the scan; it examines several in parallel.

    Under read_committed a partition ends before the first transaction that is not decided in the tier.

    Raises as :func:`partitions_of`, RemoteLogError kinds if metadata or transactions are not known, and the store's
    raises.
    """
    partitions = partitions_of(tier, scan)
    times = time_bounds(scan)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka-remote-survey") as workers:
        return list(workers.map(lambda tip: _surveyed(tier, scan, tip, times), partitions))


def partitions_of(tier: TierReader, scan: Scan) -> list[TopicIdPartition]:
    """Returns the partitions of the scan that the tier has, in order.

    Raises NoSegmentsError for a named topic that is missing, ConfigurationError for a named partition that is in
    none of the topics, and for a name of several topics.
    """
    topics = scan.topics or [topic for topic in tier.topics() if scan.takes_topic(topic)]
    found = [tip for topic in topics for tip in _in_tier(tier, topic)]
    missing = set(scan.partitions or ()) - {tip.partition for tip in found}
    if missing:
        raise ConfigurationError(f"the store has no segments of partitions {sorted(missing)} of {', '.join(topics)}")
    return [tip for tip in found if scan.takes(TopicPartition(tip.topic, tip.partition))]


def _in_tier(tier: TierReader, topic: str) -> Sequence[TopicIdPartition]:
    absence = tier.absence(topic)
    if absence is not None:
        raise absence
    return tier.partitions(topic)


def _surveyed(tier: TierReader, scan: Scan, tip: TopicIdPartition, times: TimeBounds) -> TieredPartition:
    partition = TopicPartition(tip.topic, tip.partition)
    segments = tier.segments(tip)
    if not segments:
        return TieredPartition(partition, 0, 0)
    start, end = segments[0].start, segments[-1].end
    undecided = tier.first_undecided_offset(tip) if scan.isolation_level is IsolationLevel.READ_COMMITTED else None
    if undecided is not None:
        end = max(start, min(end, undecided))
    first = max(start, scan.start_of(partition) or 0)

    def at(time: int | None) -> int | None:
        if time is None or time <= 0:  # a record without a time has -1
            return None
        found = tier.offset_for_time(tip, time, first)
        return end if found is None else min(found, end)

    return TieredPartition(
        partition,
        start,
        end,
        tuple(_span(segment) for segment in segments),
        first_young_enough=at(times.oldest),
        first_too_young=at(times.youngest),
    )


def _span(segment: TieredSegment) -> SegmentSpan:
    metadata = segment.metadata
    whole = metadata.end_offset + 1 - metadata.start_offset
    size = metadata.segment_size_in_bytes * (segment.end - segment.start) // whole
    youngest = metadata.max_timestamp_ms if metadata.max_timestamp_ms >= 0 else None
    return SegmentSpan(segment.start, segment.end, size, youngest)
