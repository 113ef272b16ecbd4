"""What is read of a tier before it is planned."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.listing import TierListing
from kafka_remote_client.restore.tier import read_partition, read_snapshot
from tests.support.new_node import planned, two_segments
from tests.support.tier import LAYOUT, TIP, Tier, batch, checkpoint


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
