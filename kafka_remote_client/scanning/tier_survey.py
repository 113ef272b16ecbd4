"""The facts about the partitions of a scan for a plan: segments, offsets of times, bounds of logs. It reads no records.

::

    tier alone     partitions of the store              [first segment, last segment, or the first undecided transaction)
    live           partitions of the cluster            [log start, last stable offset or high watermark)

The tier is examined first, and then the brokers. So the log's end is not below the end of the tier, except shortly after a
leader election. Then the scan ends where the leader says.

References: :mod:`~kafka_remote_client.scanning.scan_plan`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor, Future
from uuid import UUID

import attrs

from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.fallback import Fallback, TierUnavailableError
from kafka_remote_client.fetch.tier_reader import TierReader
from kafka_remote_client.model import IsolationLevel, TopicIdPartition, TopicPartition, uuid_to_text
from kafka_remote_client.protocol.metadata import MetadataTopic
from kafka_remote_client.remote_log.layout import ListedSegment
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.scanning.broker_part import BrokerPart
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import TieredPartition, TimeBounds, time_bounds, with_live_rest
from kafka_remote_client.threads import DaemonExecutor
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["partitions_of", "survey"]

_THREADS = 8
_BEGINNING = -2


@attrs.frozen
class _Facts:
    """``last``: the last segment, ``None`` if nothing is tiered."""

    tip: TopicIdPartition
    known: TieredPartition
    last: TieredSegment | None = None


def survey(
    tier: TierReader,
    scan: Scan,
    partitions: Sequence[TopicIdPartition],
    brokers: BrokerPart | None = None,
    *,
    prepared: int = 0,
) -> list[TieredPartition]:
    """Returns the facts about ``partitions``, which are some of :func:`partitions_of`; it examines several in parallel.

    Of the tier alone, a partition ends before the first transaction that is not decided there, under read_committed.
    ``prepared``: of how many partitions, which are read first, the first location is prepared meanwhile.

    Raises RemoteLogError kinds if metadata or transactions are not known, and the store's errors; TierUnavailableError, if a
    damaged segment is in front of all others that would be read, or behind them, or, for a live scan, if the tier's end is not
    in the leader's log; BrokerReadError if the leaders do not tell their logs' bounds.
    """
    times = time_bounds(scan)
    first_ones = set(partitions[:prepared])

    def facts(tip: TopicIdPartition) -> _Facts:
        try:
            return _surveyed(tier, scan, tip, times, look_ups, replaced=brokers is not None, prepares=tip in first_ones)
        except DirectFetchError as error:
            if brokers is None or not brokers.replaces_the_tier or isinstance(error, ConfigurationError):
                raise
            brokers.fell_back(Fallback(error.cause, error, tip.topic, tip.partition, _BEGINNING))
            return _Facts(tip, TieredPartition(TopicPartition(tip.topic, tip.partition), 0, 0))

    # Partitions wait for their look-ups. In one pool they could take all its threads, and no look-up would run.
    with (
        DaemonExecutor(_THREADS, "kafka-remote-survey") as workers,
        DaemonExecutor(_THREADS, "kafka-remote-survey") as look_ups,
    ):
        found = list(workers.map(facts, partitions))
        if brokers is None or not scan.live:
            return [one.known for one in found]
        bounds = brokers.log.bounds([one.known.topic_partition for one in found], scan.isolation_level)
        return list(workers.map(lambda one: _live(brokers, one, *bounds[one.known.topic_partition]), found))


def partitions_of(tier: TierReader, scan: Scan, brokers: BrokerPart | None = None) -> list[TopicIdPartition]:
    """Returns the partitions of the scan, in order: those of the tier, or for a live scan those of the cluster.

    Raises NoSegmentsError or BrokerReadError for a named topic that is missing, ConfigurationError for a named partition that
    is in none of the topics, for a name of several topics in the tier, and for a tier of another topic of that name.
    """
    if brokers is not None and scan.live:
        place, found = "cluster", _in_cluster(tier, scan, brokers)
    else:
        topics = scan.topics or [topic for topic in tier.topics() if scan.takes_topic(topic)]
        place, found = "store", [tip for topic in topics for tip in _in_tier(tier, topic)]
    missing = set(scan.partitions or ()) - {tip.partition for tip in found}
    if missing:
        names = ", ".join(scan.topics or dict.fromkeys(tip.topic for tip in found))
        raise ConfigurationError(f"the {place} has no records of partitions {sorted(missing)} of {names}")
    return [tip for tip in found if scan.takes(TopicPartition(tip.topic, tip.partition))]


def _in_tier(tier: TierReader, topic: str) -> Sequence[TopicIdPartition]:
    absence = tier.absence(topic)
    if absence is not None:
        raise absence
    return tier.partitions(topic)


def _in_cluster(tier: TierReader, scan: Scan, brokers: BrokerPart) -> list[TopicIdPartition]:
    described = brokers.log.topics(scan.topics or None)
    topics = scan.topics or sorted(name for name, one in described.items() if scan.takes_topic(name) and not one.is_internal)
    found = []
    for topic in topics:
        one = described[topic]
        topic_id = _topic_id(tier, topic, one, brokers)
        brokers.knows_topic(topic, topic_id)
        numbers = sorted(partition.partition_index for partition in one.partitions)
        found += [TopicIdPartition(topic_id, topic, number) for number in numbers]
    return found


def _topic_id(tier: TierReader, topic: str, described: MetadataTopic, brokers: BrokerPart) -> UUID:
    """Returns the topic's id in the cluster, or that of the tier if the cluster has no ids."""
    try:
        tiered = {tip.topic_id for tip in tier.partitions(topic)}
    except DirectFetchError as error:
        if isinstance(error, ConfigurationError) or not brokers.replaces_the_tier:
            raise
        tiered = set()  # each partition has the same failure, and logs it
    now = described.topic_id
    if tiered and now not in {ZERO_UUID, *tiered}:
        kept = ", ".join(uuid_to_text(one) for one in tiered)
        raise ConfigurationError(
            f"topic {topic} was created again: the cluster's has the topic id {uuid_to_text(now)}, the tier's {kept}; "
            "a scan without live=True reads the tier's"
        )
    return now if now != ZERO_UUID else next(iter(tiered), ZERO_UUID)


def _surveyed(
    tier: TierReader,
    scan: Scan,
    tip: TopicIdPartition,
    times: TimeBounds,
    look_ups: Executor,
    *,
    replaced: bool,
    prepares: bool,
) -> _Facts:
    """``replaced``: the brokers read what the tier cannot give. ``prepares``: the partition is read next."""
    partition = TopicPartition(tip.topic, tip.partition)
    segments = tier.segments(tip)
    begins = None if scan.live else _check_damage(tier, scan, tip, segments, replaced=replaced)
    if not segments:
        return _Facts(tip, TieredPartition(partition, 0, 0))
    start, end = segments[0].start if begins is None else begins, segments[-1].end
    first = max(start, scan.start_of(partition) or 0)
    if prepares and times.oldest is None:  # otherwise the first offset is not known yet
        tier.prepare(tip, first, scan.isolation_level)

    def look_up(time: int | None, *, markers: bool) -> Future[int | None] | None:
        if time is None or time <= 0:  # a record without a time has -1
            return None
        return look_ups.submit(tier.offset_for_time, tip, time, first, markers=markers)

    oldest = look_up(times.oldest, markers=True)
    # The broker's clock sets the time of a marker. Older records may come after it, so it ends no read.
    youngest = look_up(times.youngest, markers=False)
    undecided = tier.first_undecided_offset(tip) if scan.isolation_level is IsolationLevel.READ_COMMITTED else None
    if undecided is not None:
        end = max(start, min(end, undecided))

    def at(looked_up: Future[int | None] | None) -> int | None:
        if looked_up is None:
            return None
        found = looked_up.result()
        return end if found is None else min(found, end)

    known = TieredPartition(
        partition,
        start,
        end,
        tuple(segment.span for segment in segments),
        first_young_enough=at(oldest),
        first_too_young=at(youngest),
    )
    return _Facts(tip, known, segments[-1])


def _check_damage(
    tier: TierReader, scan: Scan, tip: TopicIdPartition, segments: Sequence[TieredSegment], *, replaced: bool
) -> int | None:
    """Returns where a damaged segment in front of all others begins, if the brokers read it; ``None`` without one.

    Raises TierUnavailableError for such a segment that the brokers do not read, and for one behind all others, whose end is not
    known. The tier begins behind the first and ends before the second, and nothing else shows that their records are missing. A
    segment that lacks an object is not counted: retention deletes segments in this order, object by object.
    """
    partition = TopicPartition(tip.topic, tip.partition)
    start, end = scan.start_of(partition) or 0, scan.end_of(partition)
    begins: int | None = None
    for listed, why in tier.damaged(tip):
        at = listed.start_offset
        if end is not None and at >= end:
            continue
        if not segments:
            raise _damage(listed, why)
        first, tiered_end = segments[0].start, segments[-1].end
        if at >= tiered_end:
            raise _damage(listed, why, f"; an end_offset of {tiered_end} leaves it out")
        if at < first and start < first:
            if not replaced:
                raise _damage(listed, why, f"; a start_offset of {first} leaves it out")
            begins = at if begins is None else begins
    return begins


def _damage(listed: ListedSegment, why: str, advice: str = "") -> TierUnavailableError:
    tip = listed.remote_log_segment_id.topic_id_partition
    return TierUnavailableError(
        f"cannot read {tip.topic}-{tip.partition} at offset {listed.start_offset} from the tier: "
        f"segment {listed.remote_log_segment_id} is damaged: {why}{advice}"
    ).with_context(topic=tip.topic, partition=tip.partition, offset=listed.start_offset)


def _live(brokers: BrokerPart, facts: _Facts, log_start: int, log_end: int) -> TieredPartition:
    """Returns the facts with the rest of the log. Raises TierUnavailableError if the tier is not a part of this log."""
    known, last = facts.known, facts.last
    if last is not None and last.end > log_start:
        tip, end = facts.tip, last.end
        epoch = last.metadata.epoch_for_offset(end - 1)
        if brokers.log.diverges(known.topic_partition, tip.topic_id, end, epoch):
            raise TierUnavailableError(
                f"the tier of {known.topic_partition} ends at offset {end} of leader epoch {epoch}, which is not in the log of "
                f"the leader (it ends at {log_end}): a leader election lost records, or the brokers are of another cluster"
            ).with_context(topic=tip.topic, partition=tip.partition, offset=end)
    return with_live_rest(known, log_start, log_end)
