"""What is read of a tier before it is planned."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.tier_listing import TierListing
from kafka_remote_client.restore.partition_tier import read_partition, read_snapshot
from kafka_remote_client.restore.restore_plan import RestoreRequest, plan_restore
from tests.support.damaged_tier import GoldenMetadata
from tests.support.new_node import CONFIGS, planned, two_segments
from tests.support.tier import LAYOUT, TIP, Tier, batch, checkpoint, metadata, update


def test_a_segment_that_is_cut_at_its_end_has_no_snapshot() -> None:
    tier = two_segments()
    first, _ = planned(tier).partitions[0].segments
    assert read_snapshot(tier.store, LAYOUT, first) is not None
    assert read_snapshot(tier.store, LAYOUT, attrs.evolve(first, end=3)) is None


def test_a_partition_with_nothing_but_an_unfinished_copy_has_no_chain() -> None:
    tier = Tier()
    segment = tier.add([batch(0, 3)], number=1)
    del tier.store.objects[LAYOUT.object_key(segment, ObjectKind.TIME_INDEX)]
    found = read_partition(tier.store, LAYOUT, TierListing(tier.store, LAYOUT), TIP)
    assert (found.chain, list(found.unreadable)) == ((), [segment.remote_log_segment_id])
    left_out = read_partition(tier.store, LAYOUT, TierListing(tier.store, LAYOUT), TIP, [UUID(int=1)])
    assert (left_out.chain, left_out.unreadable) == ((), {})


def test_needs_a_segment_of_the_newest_lineage() -> None:
    tier = Tier()
    segment = tier.add([batch(0, 3)], number=1)
    listing = TierListing(tier.store, LAYOUT)
    listing.cache(TIP)
    tier.put(segment, ObjectKind.LEADER_EPOCH, checkpoint((4, 0)))
    with pytest.raises(ConfigurationError, match="no segment agrees with the leader epochs of the newest one"):
        read_partition(tier.store, LAYOUT, listing, TIP)


def published(tier: Tier) -> GoldenMetadata:
    """The metadata topic of a tier."""
    known = GoldenMetadata()
    tier.publish(known)
    return known


def test_a_segment_that_is_being_deleted_is_below_the_log_start() -> None:
    tier = two_segments()
    known = published(tier)
    first, second = tier.cache.list_all_remote_log_segments()
    assert known.apply(update(first, RemoteLogSegmentState.DELETE_SEGMENT_STARTED))
    found = read_partition(tier.store, LAYOUT, TierListing(tier.store, LAYOUT), TIP, metadata=known)
    assert [one.metadata.remote_log_segment_id for one in found.chain] == [second.remote_log_segment_id]
    plan = plan_restore([found], RestoreRequest(CONFIGS), 0)
    assert (plan.refusals, plan.partitions[0].log_start) == ((), 5)
    assert "1 segments of the store that are deleted or unfinished by the metadata topic" in plan.partitions[0].missing


def test_the_metadata_topic_chooses_between_copies() -> None:
    tier = two_segments()
    known = published(tier)
    tier.add([batch(0, 3), batch(3, 2)], number=3)  # whole, and nobody said that it is finished
    listing = TierListing(tier.store, LAYOUT)
    assert plan_restore([read_partition(tier.store, LAYOUT, listing, TIP)], RestoreRequest(CONFIGS), 0).refusals
    found = read_partition(tier.store, LAYOUT, listing, TIP, metadata=known)
    assert plan_restore([found], RestoreRequest(CONFIGS), 0).refusals == ()
    assert (len(found.readable), found.unread) == (2, 1)


def test_a_finished_segment_without_objects_is_refused() -> None:
    tier = two_segments()
    known = published(tier)
    lost = metadata(11, 20, number=9, epochs=[(2, 11)])
    known.apply(lost)
    known.apply(update(lost, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    listing = TierListing(tier.store, LAYOUT)
    found = read_partition(tier.store, LAYOUT, listing, TIP, metadata=known)
    assert found.unreadable == {lost.remote_log_segment_id: "the store does not have it"}
    assert read_partition(tier.store, LAYOUT, listing, TIP, [UUID(int=9)], known).unreadable == {}


def test_needs_metadata_of_the_partition() -> None:
    class Unready(GoldenMetadata):
        def ready(self, topic_id_partition: object) -> bool:
            return False

    tier = two_segments()
    listing, unready = TierListing(tier.store, LAYOUT), Unready()
    tier.publish(unready)
    for known, said in (
        (GoldenMetadata(), "does not have it: it may belong to another cluster"),
        (unready, "is inconsistent for it"),
    ):
        with pytest.raises(ConfigurationError, match=f"orders-7: the metadata topic {said}"):
            read_partition(tier.store, LAYOUT, listing, TIP, metadata=known)
