from __future__ import annotations

import itertools

import pytest

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.remote_log.followed_partition import TRANSITIONS, FollowedPartition, FollowEvent, FollowState

REPLAYING, READY, DISTRUSTED = FollowState


def test_an_empty_partition_is_ready_at_once():
    assert FollowedPartition(0, 0).state is READY
    assert FollowedPartition(17, 17).state is READY


def test_a_snapshot_counts_once_its_last_record_is_read_again():
    partition = FollowedPartition.continued(17, 17, leader_epoch=3)
    assert (partition.state, partition.next_offset) == (REPLAYING, 16)
    assert partition.record(16, 3) is False
    partition.applied()
    partition.end_of_partition(17)
    assert (partition.state, partition.next_offset, partition.leader_epoch) == (READY, 17, 3)
    assert partition.record(17, 4) is True
    assert partition.leader_epoch == 4


@pytest.mark.parametrize("leader_epoch", [2, 4, -1])
def test_a_snapshot_that_ends_with_another_record_raises_once(leader_epoch):
    partition = FollowedPartition.continued(17, 20, leader_epoch=3)
    with pytest.raises(RemoteLogMetadataError, match=f"leader epoch {leader_epoch} instead of 3, the log was truncated"):
        partition.record(16, leader_epoch)
    partition.doubt()
    partition.read_anew(16, 20)
    assert partition.record(16, leader_epoch) is True


@pytest.mark.parametrize("end", [16, 17, 20])
def test_a_snapshot_whose_last_record_is_gone_raises_once(end):
    """Compaction removed it, or the log was truncated since its end was asked for."""
    partition = FollowedPartition.continued(17, 17, leader_epoch=3)
    with pytest.raises(RemoteLogMetadataError, match="no record at offset 16"):
        partition.end_of_partition(end)
    partition.doubt()
    partition.read_anew(0, 17)
    partition.end_of_partition(17)
    assert partition.state is READY


def test_a_later_record_with_a_key_does_not_confirm_a_snapshot():
    partition = FollowedPartition.continued(17, 20, leader_epoch=3)
    with pytest.raises(RemoteLogMetadataError, match="expected offset 16, got 18"):
        partition.record(18, 3, keyed=True)


def test_ready_when_the_last_record_known_at_the_start_is_applied():
    partition = FollowedPartition(3, 5)
    partition.record(3)
    partition.applied()
    assert partition.state is REPLAYING
    partition.record(4)
    assert partition.state is REPLAYING
    partition.applied()
    assert partition.state is READY


def test_end_of_the_partition_makes_it_ready_only_after_that_record():
    partition = FollowedPartition(0, 5)
    partition.end_of_partition(4)
    assert partition.state is REPLAYING
    partition.end_of_partition(5)
    assert partition.state is READY


@pytest.mark.parametrize("offset", [0, 2, 100])
def test_a_gap_or_a_step_back_raises_once(offset):
    partition = FollowedPartition(1, 200)
    with pytest.raises(RemoteLogMetadataError, match=f"expected offset 1, got {offset}"):
        partition.record(offset)
    partition.record(offset + 1)


def test_holes_are_normal_once_a_record_has_a_key():
    partition = FollowedPartition(0, 10)
    partition.record(4, keyed=True)
    partition.record(7)
    partition.applied()
    assert partition.state is REPLAYING
    partition.record(9, keyed=True)
    partition.applied()
    assert partition.state is READY


@pytest.mark.parametrize("offset", [3, 4])
def test_a_step_back_raises_in_a_compacted_partition(offset):
    partition = FollowedPartition(0, 10)
    partition.record(4, keyed=True)
    with pytest.raises(RemoteLogMetadataError, match=f"expected offset 5, got {offset}"):
        partition.record(offset, keyed=True)


def test_a_partition_read_again_is_not_compacted_until_it_shows():
    partition = FollowedPartition(0, 10)
    partition.record(4, keyed=True)
    partition.read_anew(0, 10)
    with pytest.raises(RemoteLogMetadataError, match="expected offset 0, got 4"):
        partition.record(4)


def test_records_after_a_doubt_change_nothing():
    partition = FollowedPartition(0, 1)
    partition.doubt()
    partition.record(0)
    partition.applied()
    assert partition.state is DISTRUSTED
    ready = FollowedPartition(0, 0)
    ready.doubt()
    assert ready.state is DISTRUSTED


def test_a_partition_read_again_is_trusted_only_at_its_new_end():
    partition = FollowedPartition(0, 1)
    partition.doubt()
    partition.read_anew(3, 5)
    assert (partition.state, partition.next_offset) == (REPLAYING, 3)
    partition.end_of_partition(4)
    assert partition.state is REPLAYING
    partition.end_of_partition(5)
    assert partition.state is READY
    partition.doubt()
    partition.read_anew(5, 5)
    assert partition.state is READY


def test_the_transition_table_is_complete():
    assert set(TRANSITIONS) == set(itertools.product(FollowState, FollowEvent))
