"""Plans a restore: turns facts about a tier into the segments to copy, or into refusals. Pure.

Theory of operation. A partition's log is the chain of segments along its lineage (:class:`TieredLog`). Kafka starts with any
files and does not warn. So each fact that would lose or change records is a *refusal*. The plan collects all refusals, and
nothing is copied while there is one. The user accepts a refusal by naming its subject.

============================ ========================================================================
refusal                      how the user accepts it
============================ ========================================================================
offsets are in no segment    names the gap
several copies of offsets    leaves one out by its id, or takes the copies that a broker reads
a segment is unreadable      leaves it out by its id
no configs for the topic     gives the configs
retention would delete       sets another retention in the configs
the log start is outside     gives another log start
the assignment is another    gives one of exactly the restored partitions
============================ ========================================================================

Offsets are inclusive at the start, and exclusive at the end unless a name says ``last``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any
from uuid import UUID

import attrs

from kafka_remote_client.model import (
    AbortedTransaction,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
    TopicPartition,
    uuid_to_text,
)
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.restore.replica_assignment import ReplicaAssignment
from kafka_remote_client.restore.topic_configs import TopicConfigs, deletion_by_retention, is_compacted

__all__ = ["Gap", "PartitionPlan", "PartitionTier", "RestorePlan", "RestoreRequest", "plan_partition", "plan_restore"]

_MOST_EMPTY = 10_000  # Kafka's ReplicationControlManager: "Excessively large number of partitions per request."


@attrs.frozen
class Gap:
    """Offsets ``first`` to ``last`` (both inclusive) that no segment holds."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


@attrs.frozen
class PartitionTier:
    """What was read of a partition's tier.

    ``chain``: the segments along ``lineage``; none if none is readable. ``readable``: all segments with metadata, also those of
    other lineages. ``unreadable``: the rest, with reasons. ``hanging``: transactions that are open at the end of the
    chain; None if no producer snapshot has them. ``unread``: the number of segments in the store that brokers do not read, by
    the metadata topic; they are in none of the others.
    """

    tip: TopicIdPartition
    lineage: LeaderEpochLineage = attrs.field(factory=lambda: LeaderEpochLineage(()))
    chain: tuple[TieredSegment, ...] = ()
    readable: tuple[RemoteLogSegmentMetadata, ...] = ()
    unreadable: Mapping[RemoteLogSegmentId, str] = attrs.field(factory=dict)
    hanging: tuple[AbortedTransaction, ...] | None = ()
    unread: int = 0
    left_out: frozenset[UUID] = frozenset()


@attrs.frozen
class RestoreRequest:
    """What the user wants and accepts. ``live_copies``: of several copies, take those that a broker reads.

    ``assignment`` None: one node has everything.
    """

    configs: TopicConfigs
    log_starts: Mapping[TopicPartition, int] = attrs.field(factory=dict)
    accepted_gaps: frozenset[tuple[TopicPartition, Gap]] = frozenset()
    live_copies: bool = False
    partition_counts: Mapping[str, int] = attrs.field(factory=dict)
    assignment: ReplicaAssignment | None = None


@attrs.frozen
class PartitionPlan:
    """One partition. ``segments`` are copied in this order; ``end`` is the next offset that a producer gets."""

    tip: TopicIdPartition
    log_start: int
    end: int
    segments: tuple[TieredSegment, ...]
    epochs: tuple[EpochEntry, ...]
    gaps: tuple[Gap, ...]
    hanging: tuple[AbortedTransaction, ...] | None
    missing: tuple[str, ...]
    refusals: tuple[str, ...]

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.tip.topic, self.tip.partition)

    @property
    def nbytes(self) -> int:
        """Bytes of the logs to copy, as Kafka wrote them."""
        return sum(segment.metadata.segment_size_in_bytes for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The epoch for the next leader: above all in the tier, so that clients notice where the lost tail was cut off."""
        return self.epochs[-1].epoch + 1

    def as_json(self) -> dict[str, Any]:
        """The object of ``--output json``."""
        return {
            "type": "partition",
            "topic": self.tip.topic,
            "topic_id": uuid_to_text(self.tip.topic_id),
            "partition": self.tip.partition,
            "log_start": self.log_start,
            "end_offset": self.end,
            "segments": len(self.segments),
            "bytes": self.nbytes,
            "leader_epochs": [[entry.epoch, entry.start_offset] for entry in self.epochs],
            "gaps": [[gap.first, gap.last] for gap in self.gaps],
            "hanging_transactions": None if self.hanging is None else [[t.producer_id, t.first_offset] for t in self.hanging],
            "missing": list(self.missing),
            "refusals": list(self.refusals),
        }


@attrs.frozen
class RestorePlan:
    """The whole restore. ``empty`` are the partitions of its topics of which the tier has nothing that is restored.

    ``assignment`` None: one node has everything.
    """

    partitions: tuple[PartitionPlan, ...]
    empty: tuple[TopicPartition, ...]
    refusals: tuple[str, ...]
    assignment: ReplicaAssignment | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all logs to copy."""
        return sum(partition.nbytes for partition in self.partitions)

    @property
    def topic_ids(self) -> dict[str, UUID]:
        """The topics, in order."""
        return {partition.tip.topic: partition.tip.topic_id for partition in self.partitions}

    def as_json(self) -> dict[str, Any]:
        """The last object of ``--output json``."""
        return {
            "type": "plan",
            "topics": len(self.topic_ids),
            "partitions": len(self.partitions),
            "empty_partitions": [str(one) for one in self.empty],
            "segments": sum(len(partition.segments) for partition in self.partitions),
            "bytes": self.nbytes,
            "refusals": list(self.refusals),
        }


def plan_restore(tiers: Sequence[PartitionTier], request: RestoreRequest, now_ms: int) -> RestorePlan:
    """The plan for all partitions; ``now_ms`` is what retention counts from."""
    plans = tuple(plan_partition(tier, request, now_ms) for tier in tiers if tier.chain)
    numbers: dict[str, set[int]] = {}
    for tier in tiers:
        numbers.setdefault(tier.tip.topic, set()).add(tier.tip.partition)
    known = {plan.name for plan in plans}
    refusals = [refusal for plan in plans for refusal in plan.refusals]
    refusals += (refusal for tier in tiers if not tier.chain for refusal in _unreadable(tier))
    without = sorted(numbers.keys() - request.configs.keys())
    refusals += (f"{topic}: the tier does not have the topic's configs: add them (--configs)" for topic in without)
    refusals += _strangers(request, known)
    empty: list[TopicPartition] = []
    for topic, found in sorted(numbers.items()):
        filled = sum(name.topic == topic for name in known)
        count = request.partition_counts.get(topic, max(found) + 1)
        if not filled:
            refusals.append(f"{topic}: the tier has no segment to restore")
        elif count <= max(found):
            refusals.append(f"{topic}: it has partition {max(found)} in the tier, so it has more than {count} partitions")
        elif count - filled > _MOST_EMPTY:
            words = f"{count - filled} empty partitions are more than Kafka creates at once, which is {_MOST_EMPTY}"
            refusals.append(f"{topic}: {words}")
        else:
            empty += (name for name in (TopicPartition(topic, number) for number in range(count)) if name not in known)
    if request.assignment is not None:
        refusals += _misplaced(request.assignment, {*known, *empty})
    return RestorePlan(plans, tuple(empty), tuple(refusals), request.assignment)


def plan_partition(tier: PartitionTier, request: RestoreRequest, now_ms: int) -> PartitionPlan:
    """The plan for one partition that has a chain."""
    name = TopicPartition(tier.tip.topic, tier.tip.partition)
    configs = request.configs.get(tier.tip.topic, {})
    chain = tuple(_without_overlap(tier.chain))
    first, end = tier.chain[0].start, chain[-1].end
    refusals: list[str] = []
    log_start = request.log_starts.get(name, first)
    if not first <= log_start <= end:
        refusals.append(f"{name}: the log start {log_start} is outside the tier's offsets {first} to {end}")
    segments = tuple(segment for segment in chain if segment.end > log_start) or chain[-1:]
    gaps = tuple(Gap(before.end, after.start - 1) for before, after in pairwise(segments) if before.end < after.start)
    if not is_compacted(configs):
        refusals += (
            f"{name}: no segment holds the offsets {gap.first} to {gap.last}: consumers would skip them without an error"
            for gap in gaps
            if (name, gap) not in request.accepted_gaps
        )
    if not request.live_copies:
        refusals += (f"{name}: {words}: choose one" for words in _overlaps(tier, segments))
    refusals += _unreadable(tier)
    sizes = [(one.metadata.max_timestamp_ms, one.metadata.segment_size_in_bytes) for one in segments]
    if tier.tip.topic in request.configs and (deletes := deletion_by_retention(configs, sizes, now_ms)) is not None:
        refusals.append(f"{name}: {deletes}")
    return PartitionPlan(
        tip=tier.tip,
        log_start=log_start,
        end=end,
        segments=segments,
        epochs=tuple(entry for entry in tier.lineage if entry.start_offset < end),
        gaps=gaps,
        hanging=tier.hanging,
        missing=tuple(_missing(tier, log_start, name in request.log_starts)),
        refusals=tuple(refusals),
    )


def _unreadable(tier: PartitionTier) -> Iterator[str]:
    for one, why in tier.unreadable.items():
        yield f"{tier.tip.topic}-{tier.tip.partition}: segment {uuid_to_text(one.id)} is unreadable: {why}"


def _without_overlap(chain: Sequence[TieredSegment]) -> Iterator[TieredSegment]:
    """The segments from their own start on, or from where the one before ends: a log start may lie within a batch."""
    end = 0
    for segment in chain:
        yield attrs.evolve(segment, start=max(segment.metadata.start_offset, end))
        end = segment.end


def _misplaced(assignment: ReplicaAssignment, restored: set[TopicPartition]) -> Iterator[str]:
    for name in sorted(restored - assignment.keys()):
        yield f"{name}: the assignment does not place it"
    for name in sorted(assignment.keys() - restored):
        yield f"{name}: the assignment places it, and it is not among the restored partitions"


def _strangers(request: RestoreRequest, known: Iterable[TopicPartition]) -> Iterator[str]:
    """Arguments about partitions that are not restored: a typing error would be accepted without effect."""
    partitions = set(known)
    topics = {one.topic for one in partitions}
    for name in sorted({*request.log_starts, *(at for at, _ in request.accepted_gaps)} - partitions):
        yield f"{name}: it is not among the restored partitions"
    for topic in sorted(request.partition_counts.keys() - topics):
        yield f"{topic}: it is not among the restored topics"


def _overlaps(tier: PartitionTier, segments: Sequence[TieredSegment]) -> Iterator[str]:
    """Offsets of which several segments of the log's lineage have a copy, with these segments."""
    floor, ceiling = max(segments[0].start, tier.lineage.entries[0].start_offset), segments[-1].end
    copies = []
    for metadata in tier.readable:
        start = max(metadata.start_offset, floor)
        end = min(tier.lineage.agreed_end(metadata, start), ceiling)
        if start < end:
            copies.append((start, end, uuid_to_text(metadata.remote_log_segment_id.id)))
    copies.sort()
    while copies:
        start, end, one = copies.pop(0)
        several = [one]
        while copies and copies[0][0] < end:
            _, other_end, other = copies.pop(0)
            end = max(end, other_end)
            several.append(other)
        if len(several) > 1:
            yield f"several segments hold offsets within {start} to {end - 1}: {', '.join(several)}"


def _missing(tier: PartitionTier, log_start: int, log_start_given: bool) -> Iterator[str]:
    end = tier.chain[-1].end
    yield f"offsets from {end} on: they were only on the brokers"
    if not log_start_given and log_start:
        yield f"a log start above {log_start}, if records were deleted"
    if tier.unread:
        yield f"{tier.unread} segments of the store that are deleted or unfinished by the metadata topic"
    if tier.hanging is None:
        yield "the last producer snapshot: hanging transactions are found while the logs are copied"
