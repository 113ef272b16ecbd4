"""Offsets by time and the ends of both tiers are those that a broker answers."""

from __future__ import annotations

import pytest

from kafka_remote_client.tiered_cluster import offset_lookup
from kafka_remote_client.tiered_cluster.batches import Marker
from kafka_remote_client.tiered_cluster.epochs import end_offset_of
from kafka_remote_client.tiered_cluster.offset_lookup import FoundOffset
from tests.tiered_cluster.logs import data, filled, marker, new_log
from tests.tiered_cluster.world import World


def tiered() -> World:
    """Batch n has the offsets from 10 n and the time 1000 + n. Offsets 0-59 are in the tier only, up to 79 in both."""
    world = World(filled(10, local_retention_bytes=6 * data().size))
    world.copy()
    world.change(world.log.locally_expired(0))
    return world


@pytest.mark.parametrize(
    ("time", "found"),
    [(0, (0, 1000)), (1003, (30, 1003)), (1009, (90, 1009)), (1010, (-1, -1))],
)
def test_time_is_found_in_either_tier(time: int, found: tuple[int, int]) -> None:
    world = tiered()
    result = offset_lookup.at_time(world.log, world.partition.remote, world.object, time)
    assert (result.offset, result.timestamp) == found
    assert result.leader_epoch == (0 if found[0] >= 0 else -1)


def test_deleted_records_are_not_found() -> None:
    world = tiered()
    world.change(world.log.with_log_start(25))
    assert offset_lookup.at_time(world.log, world.partition.remote, world.object, 0) == FoundOffset(25, 1002, 0)
    assert offset_lookup.earliest(world.log) == FoundOffset(25, leader_epoch=0)


def test_log_append_time_is_the_time_of_its_batch() -> None:
    log = new_log(log_append_time=True).appended([data(timestamp=5)], 77).replicated()
    assert offset_lookup.with_max_timestamp(log) == FoundOffset(0, 77, 0)
    assert offset_lookup.with_max_timestamp(new_log()) == FoundOffset()


def test_ends_of_the_tiers() -> None:
    world = tiered()
    log, remote = world.log, world.partition.remote
    assert offset_lookup.earliest_local(log).offset == log.local_log_start > 0
    assert offset_lookup.latest_tiered(log, remote) == FoundOffset(79, leader_epoch=0)
    assert offset_lookup.earliest_pending_upload(log, remote).offset == 80
    assert offset_lookup.latest_tiered(new_log(), World(new_log()).partition.remote) == FoundOffset()
    assert offset_lookup.earliest_pending_upload(new_log(), World(new_log()).partition.remote).offset == 0


def test_latest_committed_offset_is_the_last_stable_one() -> None:
    log = new_log().appended([data(), data(producer=1)], 0).replicated()
    assert offset_lookup.latest(log, committed=True).offset == 10
    assert offset_lookup.latest(log, committed=False).offset == 20
    log = log.appended([marker(Marker.COMMIT, 1)], 0).replicated()
    assert offset_lookup.latest(log, committed=True) == FoundOffset(21, leader_epoch=0)


@pytest.mark.parametrize(
    ("epoch", "found"), [(0, (0, 10)), (1, (1, 20)), (2, (1, 20)), (3, (3, 25)), (4, (-1, -1)), (-1, (-1, -1))]
)
def test_epochs_end_where_the_next_one_begins(epoch: int, found: tuple[int, int]) -> None:
    log = new_log().appended([data()], 0).elected(1).appended([data()], 0).elected(3)
    assert end_offset_of(log.lineage, epoch, 25) == found


def test_epoch_before_the_first_ends_at_its_start() -> None:
    log = filled(1).elected(1).with_log_start(10)
    assert end_offset_of(log.lineage[-1:], 0, 25) == (0, 10)
