from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.events import (
    RemoteLogSegmentMetadataSnapshot,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.metadata_keys import EndOffsetKey, SegmentKey
from kafka_remote_client.remote_log.metadata_snapshot import pack
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from tests.support.tier import TIP, metadata, update


@pytest.fixture
def store():
    return RemoteLogMetadataStore()


def test_events_reach_the_cache_of_their_partition(store):
    segment = metadata(0, 9)
    assert store.apply(segment)
    assert store.apply(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    assert store.cache(TIP).remote_log_segment_metadata(0, 3).start_offset == 0
    assert store.partitions() == [TIP]
    assert store.dropped_events == 0


def test_events_that_do_not_apply_are_dropped_and_counted(store):
    segment = metadata(0, 9)
    assert not store.apply(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    assert store.cache(TIP) is None
    store.apply(segment)
    assert not store.apply(update(segment, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED))
    assert store.dropped_events == 2


def test_an_impossible_event_raises(store):
    with pytest.raises(RemoteLogMetadataError):
        store.apply(metadata(0, 9, state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED))


@pytest.mark.parametrize(
    "key",
    [
        SegmentKey(TIP.topic_id, TIP.partition, UUID(int=1), RemoteLogSegmentState.COPY_SEGMENT_STARTED),
        EndOffsetKey(TIP.topic_id, TIP.topic, TIP.partition, 9, -1, update=False),
    ],
)
def test_a_tombstone_removes_what_is_known_and_nothing_else(store, key):
    assert not store.remove(key)
    store.apply(metadata(0, 9), keyed=True)
    assert not store.remove(key._replace(partition=8))
    assert store.remove(key)
    assert not store.remove(key)
    assert store.cache(TIP).list_all_remote_log_segments() == []
    assert store.dropped_events == 0


def test_a_snapshot_record_raises(store):
    snapshot = RemoteLogSegmentMetadataSnapshot(UUID(int=1), 0, 9, 1, 0, 0, (), 10, None, RemoteLogSegmentState(1))
    with pytest.raises(RemoteLogMetadataError, match="snapshot"):
        store.apply(snapshot)


def test_only_a_finished_partition_delete_drops_the_cache(store):
    store.apply(metadata(0, 9))
    for state in RemotePartitionDeleteState:
        assert store.cache(TIP) is not None
        assert store.apply(RemotePartitionDeleteMetadata(TIP, state, 0, 1))
    assert store.cache(TIP) is None
    assert store.partitions() == []


def test_topic_ids_are_those_with_readable_segments(store):
    for number, name in ((3, "orders"), (1, "orders"), (2, "orders"), (9, "other")):
        tip = TopicIdPartition(UUID(int=number), name, 0)
        segment = attrs.evolve(metadata(0, 9), remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=7)))
        store.apply(segment)
        if number != 2:
            store.apply(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    assert store.topic_ids("orders") == [UUID(int=1), UUID(int=3)]
    assert [tip.topic_id.int for tip in store.partitions("orders")] == [1, 2, 3]
    assert store.topic_ids("none") == []


def test_clear_removes_all_partitions(store):
    store.apply(metadata(0, 9))
    store.clear()
    assert store.partitions() == []


def packed_segment():
    other = RemoteLogMetadataStore()
    other.apply(metadata(0, 9))
    return pack(other.cache(TIP).contents())


def test_a_restored_partition_is_unpacked_once_and_changed_by_events(store):
    store.restore(TIP, packed_segment())
    assert store.contents() == [(TIP, packed_segment())]
    assert store.find(TIP.topic_id, TIP.partition) == TIP
    assert store.apply(update(metadata(0, 9), RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    cache = store.cache(TIP)
    assert cache.remote_log_segment_metadata(0, 3).start_offset == 0
    assert store.cache(TIP) is cache
    assert store.contents() == [(TIP, cache.contents())]


def test_threads_that_need_a_restored_partition_get_one_cache(store):
    store.restore(TIP, packed_segment())
    packed = store._caches[TIP]
    assert store._unpacked(TIP, packed) is store._unpacked(TIP, packed) is store.cache(TIP)


def test_a_partition_forgotten_while_it_is_unpacked_stays_forgotten(store):
    store.restore(TIP, packed_segment())
    packed = store._caches[TIP]
    store.clear()
    assert store._unpacked(TIP, packed).list_all_remote_log_segments() != []
    assert store.cache(TIP) is None


def test_a_damaged_partition_raises_and_is_named_once(store):
    store.restore(TIP, packed_segment()[:-1])
    for _ in range(2):
        with pytest.raises(RemoteLogMetadataError):
            store.cache(TIP)
    assert store.take_damaged() == [TIP]
    assert store.take_damaged() == []


def test_a_deleted_partition_is_not_unpacked(store):
    store.restore(TIP, b"never unpacked")
    assert store.apply(RemotePartitionDeleteMetadata(TIP, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 0, 1))
    assert store.cache(TIP) is None


@pytest.mark.parametrize("by_end", [False, True])
def test_a_tombstone_removes_a_segment_of_a_snapshot(by_end):
    """The events of the segment came before the snapshot, its tombstone after it."""
    store = RemoteLogMetadataStore()
    segment = attrs.evolve(metadata(0, 9, number=1), broker_leader_epoch=3)
    assert store.apply(segment)
    assert store.apply(update(segment, RemoteLogSegmentState.COPY_SEGMENT_FINISHED))
    ((tip, contents),) = store.contents()
    again = RemoteLogMetadataStore()
    again.restore(tip, pack(contents))
    key = (
        EndOffsetKey(tip.topic_id, tip.topic, tip.partition, 9, 3, update=False)
        if by_end
        else SegmentKey(tip.topic_id, tip.partition, segment.remote_log_segment_id.id, RemoteLogSegmentState(1))
    )
    assert again.remove(key)
    assert again.cache(tip).list_all_remote_log_segments() == []
    assert not again.remove(key)
