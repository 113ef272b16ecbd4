"""The planner on made-up tiers: what is copied, and each refusal with what removes it."""

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.model import (
    AbortedTransaction,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicPartition,
    uuid_to_text,
)
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.restore.restore_plan import Gap, PartitionTier, RestorePlan, RestoreRequest, plan_restore
from tests.support.tier import TIP, metadata

NAME = TopicPartition(TIP.topic, TIP.partition)
KEEP = {TIP.topic: {"retention.ms": "-1"}}
NOW = 10**12


def lineage(*entries: tuple[int, int]) -> LeaderEpochLineage:
    return LeaderEpochLineage([EpochEntry(*entry) for entry in entries])


def whole(segment: RemoteLogSegmentMetadata) -> TieredSegment:
    return TieredSegment(segment, segment.start_offset, segment.end_offset + 1)


FIRST, SECOND, THIRD = metadata(0, 99, number=1), metadata(100, 199, number=2), metadata(200, 299, number=3)
TIER = PartitionTier(TIP, lineage((0, 0)), (whole(FIRST), whole(SECOND), whole(THIRD)), (FIRST, SECOND, THIRD))


def plan(tier: PartitionTier = TIER, request: RestoreRequest | None = None, **changes: object) -> RestorePlan:
    return plan_restore([tier], attrs.evolve(request or RestoreRequest(KEEP), **changes), NOW)


def test_copies_all_segments_of_a_whole_tier() -> None:
    found = plan()
    (partition,) = found.partitions
    assert found.refusals == partition.refusals == ()
    assert (partition.log_start, partition.end, partition.segments) == (0, 300, TIER.chain)
    assert partition.nbytes == found.nbytes == 3000
    assert found.topic_ids == {TIP.topic: TIP.topic_id}
    assert partition.missing == ("offsets from 300 on: they were only on the brokers",)


def test_next_leader_writes_in_a_later_epoch() -> None:
    tier = attrs.evolve(TIER, lineage=lineage((0, 0), (4, 250), (6, 300)))
    (partition,) = plan(tier).partitions
    assert partition.epochs == (EpochEntry(0, 0), EpochEntry(4, 250))
    assert partition.leader_epoch == 5


def test_leaves_out_segments_below_the_log_start() -> None:
    (partition,) = plan(log_starts={NAME: 150}).partitions
    assert (partition.log_start, partition.segments) == (150, TIER.chain[1:])
    assert partition.refusals == ()
    assert len(partition.missing) == 1


def test_keeps_the_last_segment_of_a_log_that_starts_at_its_end() -> None:
    (partition,) = plan(log_starts={NAME: 300}).partitions
    assert (partition.log_start, partition.segments) == (300, TIER.chain[2:])


@pytest.mark.parametrize("start", [99, 301])
def test_refuses_a_log_start_outside_the_tier(start: int) -> None:
    tier = attrs.evolve(TIER, chain=TIER.chain[1:])
    (refusal,) = plan(tier, log_starts={NAME: start}).refusals
    assert refusal == f"{NAME}: the log start {start} is outside the tier's offsets 100 to 300"


def test_takes_the_log_start_that_the_leader_epochs_show() -> None:
    """DeleteRecords moves the first epoch's start into a segment, which is copied from its own start."""
    tier = attrs.evolve(TIER, lineage=lineage((0, 30)), chain=(TieredSegment(FIRST, 30, 100), *TIER.chain[1:]))
    (partition,) = plan(tier).partitions
    assert (partition.log_start, partition.segments) == (30, TIER.chain)
    assert partition.missing[1] == "a log start above 30, if records were deleted"


def test_refuses_a_gap_unless_it_is_named() -> None:
    tier = attrs.evolve(TIER, chain=(TIER.chain[0], TIER.chain[2]))
    (refusal,) = plan(tier).refusals
    assert "no segment holds the offsets 100 to 199" in refusal
    assert plan(tier).partitions[0].gaps == (Gap(100, 199),)
    assert plan(tier, accepted_gaps=frozenset({(NAME, Gap(100, 199))})).refusals == ()
    assert len(plan(tier, accepted_gaps=frozenset({(NAME, Gap(100, 198))})).refusals) == 1


def test_holes_of_a_compacted_topic_are_no_gaps() -> None:
    tier = attrs.evolve(TIER, chain=(TIER.chain[0], TIER.chain[2]))
    assert plan(tier, RestoreRequest({TIP.topic: {"cleanup.policy": "compact"}})).refusals == ()


def test_refuses_several_copies_without_a_choice() -> None:
    copy = metadata(100, 199, number=9)
    tier = attrs.evolve(TIER, readable=(*TIER.readable, copy))
    (refusal,) = plan(tier).refusals
    ids = ", ".join(sorted(uuid_to_text(UUID(int=number)) for number in (2, 9)))
    assert refusal == f"{NAME}: several segments hold offsets within 100 to 199: {ids}: choose one"
    assert plan(tier, live_copies=True).refusals == ()


def test_reports_copies_that_overlap_in_part_once() -> None:
    tier = attrs.evolve(TIER, readable=(*TIER.readable, metadata(50, 149, number=8), metadata(140, 160, number=9)))
    (refusal,) = plan(tier).refusals
    assert "within 0 to 199" in refusal
    assert refusal.count("AAAAAAAAAAAAAAAAAAAA") == 4


def test_copies_of_another_lineage_need_no_choice() -> None:
    stale = metadata(100, 199, number=9, epochs=[(3, 100)])
    assert plan(attrs.evolve(TIER, readable=(*TIER.readable, stale))).refusals == ()


def test_copies_below_the_log_start_need_no_choice() -> None:
    tier = attrs.evolve(TIER, readable=(*TIER.readable, metadata(0, 99, number=9)))
    assert plan(tier, log_starts={NAME: 100}).refusals == ()


def test_finds_copies_of_a_segment_in_which_the_lineage_begins() -> None:
    copy = metadata(0, 99, number=9)
    chain = (TieredSegment(FIRST, 30, 100), *TIER.chain[1:])
    tier = attrs.evolve(TIER, lineage=lineage((0, 30)), chain=chain, readable=(*TIER.readable, copy))
    assert "within 30 to 99" in plan(tier).refusals[0]


def test_cuts_a_segment_where_the_one_before_ends() -> None:
    late = metadata(50, 199, number=9)
    chain = (TIER.chain[0], TieredSegment(late, 100, 200), TIER.chain[2])
    tier = attrs.evolve(TIER, chain=chain, readable=(FIRST, late, THIRD))
    (partition,) = plan(tier, live_copies=True).partitions
    assert partition.segments == chain
    assert partition.gaps == ()


def test_refuses_an_unreadable_segment() -> None:
    tier = attrs.evolve(TIER, unreadable={metadata(300, 399, number=7).remote_log_segment_id: "it lacks the log"})
    (refusal,) = plan(tier).refusals
    assert refusal == f"{NAME}: segment {uuid_to_text(UUID(int=7))} is unreadable: it lacks the log"


def test_refuses_a_topic_without_configs() -> None:
    (refusal,) = plan(request=RestoreRequest({})).refusals
    assert refusal == f"{TIP.topic}: the tier does not have the topic's configs: add them (--configs)"


def test_refuses_a_retention_that_deletes_the_restore() -> None:
    (refusal,) = plan(request=RestoreRequest({TIP.topic: {}})).refusals
    assert refusal.startswith(f"{NAME}: retention.ms 604800000 (Kafka's default) deletes")


def test_refuses_arguments_about_other_partitions() -> None:
    other = TopicPartition("other", 3)
    found = plan(log_starts={other: 1}, accepted_gaps=frozenset({(other, Gap(1, 2))}), partition_counts={"more": 2})
    assert found.refusals == (
        "other-3: it is not among the restored partitions",
        "more: it is not among the restored topics",
    )


def test_an_assignment_places_exactly_the_restored_partitions() -> None:
    other = TopicPartition("other", 0)
    found = plan(assignment={NAME: (1,), other: (1,)}, partition_counts={TIP.topic: TIP.partition + 1})
    empty = [f"{TIP.topic}-{number}: the assignment does not place it" for number in range(TIP.partition)]
    assert list(found.refusals) == [*empty, "other-0: the assignment places it, and it is not among the restored partitions"]
    assert plan(assignment={TopicPartition(TIP.topic, n): (2, 1) for n in range(TIP.partition + 1)}).refusals == ()


def test_creates_partitions_that_were_never_tiered() -> None:
    number = TIP.partition
    found = plan(partition_counts={TIP.topic: number + 3})
    assert [one.partition for one in found.empty] == [n for n in range(number + 3) if n != number]
    assert [one.partition for one in plan().empty] == list(range(number))


def test_refuses_fewer_partitions_than_the_tier_has() -> None:
    (refusal,) = plan(partition_counts={TIP.topic: TIP.partition}).refusals
    assert refusal.startswith(f"{TIP.topic}: it has partition {TIP.partition} in the tier")


@pytest.mark.parametrize("most", [10_000, 10_001])
def test_refuses_more_empty_partitions_than_kafka_creates_at_once(most: int) -> None:
    found = plan(partition_counts={TIP.topic: most + 1})
    told = f"{TIP.topic}: {most} empty partitions are more than Kafka creates at once, which is 10000"
    assert found.refusals == ((told,) if most > 10_000 else ())
    assert len(found.empty) == (0 if most > 10_000 else most)


def test_creates_a_partition_empty_whose_segments_are_all_left_out() -> None:
    other = attrs.evolve(TIP, partition=TIP.partition + 1)
    segment = RemoteLogSegmentId(other, UUID(int=7))
    half = PartitionTier(other, unreadable={segment: "it lacks the log"})
    found = plan_restore([TIER, half], RestoreRequest(KEEP), NOW)
    assert found.refusals == (f"orders-8: segment {uuid_to_text(segment.id)} is unreadable: it lacks the log",)
    left_out = plan_restore([TIER, attrs.evolve(half, unreadable={})], RestoreRequest(KEEP), NOW)
    assert left_out.refusals == ()
    assert [one.tip for one in left_out.partitions] == [TIP]
    assert found.empty == left_out.empty == tuple(TopicPartition(TIP.topic, n) for n in (*range(TIP.partition), 8))
    fewer = plan_restore([TIER, half], RestoreRequest(KEEP, partition_counts={TIP.topic: 8}), NOW)
    assert fewer.refusals[-1] == "orders: it has partition 8 in the tier, so it has more than 8 partitions"
    stranger = plan_restore([TIER, half], RestoreRequest(KEEP, log_starts={TopicPartition("orders", 8): 5}), NOW)
    assert stranger.refusals[-1] == "orders-8: it is not among the restored partitions"


def test_needs_a_readable_segment_of_each_topic() -> None:
    found = plan(PartitionTier(TIP))
    assert found.refusals == (f"{TIP.topic}: the tier has no segment to restore",)
    assert found.partitions == found.empty == ()


def test_says_that_a_snapshot_is_missing() -> None:
    (partition,) = plan(attrs.evolve(TIER, hanging=None)).partitions
    assert partition.missing[1].startswith("the last producer snapshot")
    assert partition.as_json()["hanging_transactions"] is None


def test_shows_itself_as_json() -> None:
    tier = attrs.evolve(TIER, chain=(TIER.chain[0], TIER.chain[2]), hanging=(AbortedTransaction(8, 250),))
    found = plan(tier)
    assert found.partitions[0].as_json() == {
        "type": "partition",
        "topic": TIP.topic,
        "topic_id": uuid_to_text(TIP.topic_id),
        "partition": TIP.partition,
        "log_start": 0,
        "end_offset": 300,
        "segments": 2,
        "bytes": 2000,
        "leader_epochs": [[0, 0]],
        "gaps": [[100, 199]],
        "hanging_transactions": [[8, 250]],
        "missing": ["offsets from 300 on: they were only on the brokers"],
        "refusals": list(found.refusals),
    }
    assert found.as_json() == {
        "type": "plan",
        "topics": 1,
        "partitions": 1,
        "empty_partitions": [f"{TIP.topic}-{n}" for n in range(TIP.partition)],
        "segments": 2,
        "bytes": 2000,
        "refusals": list(found.refusals),
    }
    assert str(found.partitions[0].gaps[0]) == "100-199"
