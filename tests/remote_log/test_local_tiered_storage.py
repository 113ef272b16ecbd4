from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ObjectNotFoundError
from kafka_remote_client.model import ByteRange, RemoteLogSegmentId, TopicIdPartition, uuid_from_text
from kafka_remote_client.remote_log.layout import REQUIRED, ObjectKind
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from tests.support.golden_metadata import golden_metadata, golden_store, live_partitions
from tests.support.tier import MemoryStore, metadata

# From the documentation of Kafka's RemoteTopicPartitionDirectory.
DIRECTORY = "kafka-tiered-storage/tieredTopic-0-jF8s79t9SrG_PNqlwv7bAA"
FILE = "00000000000000000000-knnxbs3FSRyKdPcSAOQC-w"
SUFFIXES = [".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".leader_epoch_checkpoint"]
TIP = TopicIdPartition(uuid_from_text("jF8s79t9SrG_PNqlwv7bAA"), "tieredTopic", 0)
SEGMENT_ID = RemoteLogSegmentId(TIP, uuid_from_text("knnxbs3FSRyKdPcSAOQC-w"))


@pytest.fixture
def store():
    return MemoryStore()


def put(store, *keys):
    for size, key in enumerate(keys, 1):
        store.objects[key] = bytes(size)


def test_keys_are_kafkas():
    segment = attrs.evolve(metadata(0, 9), remote_log_segment_id=SEGMENT_ID)
    keys = [LocalTieredStorageLayout().object_key(segment, kind) for kind in ObjectKind]
    assert keys == [f"{DIRECTORY}/{FILE}{suffix}" for suffix in SUFFIXES]


def test_another_root_or_none_can_be_configured():
    segment = attrs.evolve(metadata(17, 19), remote_log_segment_id=SEGMENT_ID)
    name = "tieredTopic-0-jF8s79t9SrG_PNqlwv7bAA/00000000000000000017-knnxbs3FSRyKdPcSAOQC-w.log"
    assert LocalTieredStorageLayout("").object_key(segment, ObjectKind.LOG) == name
    assert LocalTieredStorageLayout("a/b").object_key(segment, ObjectKind.LOG) == f"a/b/{name}"


def test_lists_a_segment_with_the_sizes_of_its_objects(store):
    put(store, *(f"{DIRECTORY}/{FILE}{suffix}" for suffix in SUFFIXES))
    (segment,) = LocalTieredStorageLayout().list_segments(store)
    assert segment.remote_log_segment_id == SEGMENT_ID
    assert segment.topic_id_partition == TIP
    assert segment.start_offset == 0
    assert segment.sizes == dict(zip(ObjectKind, range(1, 7), strict=True))
    assert segment.missing == frozenset()


@pytest.mark.parametrize("left_out", list(range(6)))
def test_a_half_copied_segment_is_listed_with_its_missing_objects(store, left_out):
    put(store, *(f"{DIRECTORY}/{FILE}{suffix}" for n, suffix in enumerate(SUFFIXES) if n != left_out))
    (segment,) = LocalTieredStorageLayout().list_segments(store)
    lacking = frozenset({list(ObjectKind)[left_out]}) & REQUIRED
    assert segment.missing == lacking
    assert (ObjectKind.TRANSACTION_INDEX in REQUIRED) is False


@pytest.mark.parametrize(
    ("directory", "topic", "partition"),
    [
        ("a-b-0-12-jF8s79t9SrG_PNqlwv7bAA", "a-b-0", 12),
        ("a_b.c-3-AAAAAAAAAAAAAAAAAAAA-A", "a_b.c", 3),
        ("x-1-1--FRpSiZIQIKVlnlF6-_AQA", "x-1", 1),
        ("orders-0-jF8s79t9SrG_PNqlwv7bAA-5-kNIwJvQYQO6IAFtUtZ6tlA", "orders-0-jF8s79t9SrG_PNqlwv7bAA", 5),
    ],
)
def test_names_are_parsed_from_the_right(store, directory, topic, partition):
    put(store, f"kafka-tiered-storage/{directory}/{FILE}.log")
    (segment,) = LocalTieredStorageLayout().list_segments(store)
    assert (segment.topic_id_partition.topic, segment.topic_id_partition.partition) == (topic, partition)


@pytest.mark.parametrize(
    "key",
    [
        "kafka-tiered-storage/lone-file",
        f"kafka-tiered-storage/t-0-short/{FILE}.log",
        f"kafka-tiered-storage/t-01-jF8s79t9SrG_PNqlwv7bAA/{FILE}.log",
        f"kafka-tiered-storage/t-x-jF8s79t9SrG_PNqlwv7bAA/{FILE}.log",
        f"{DIRECTORY}/{FILE}.other",
        f"{DIRECTORY}/{FILE}",
        f"{DIRECTORY}/0-knnxbs3FSRyKdPcSAOQC-w.log",
        f"{DIRECTORY}/09223372036854775808-knnxbs3FSRyKdPcSAOQC-w.log",
        f"{DIRECTORY}/deeper/{FILE}.log",
        f"elsewhere/tieredTopic-0-jF8s79t9SrG_PNqlwv7bAA/{FILE}.log",
    ],
)
def test_unrelated_objects_are_skipped(store, key):
    put(store, key)
    assert list(LocalTieredStorageLayout().list_segments(store)) == []


def test_a_topic_is_not_confused_with_one_whose_name_is_longer(store):
    for name in ("orders", "orders-0", "orders-eu"):
        put(store, f"kafka-tiered-storage/{name}-0-jF8s79t9SrG_PNqlwv7bAA/{FILE}.log")
    (segment,) = LocalTieredStorageLayout().list_segments(store, "orders")
    assert segment.topic_id_partition.topic == "orders"
    assert len(list(LocalTieredStorageLayout().list_segments(store))) == 3


def test_segments_are_ordered_by_partition_number_and_start_offset(store):
    for partition, start in ((10, 5), (2, 30), (2, 4), (10, 0)):
        put(store, f"kafka-tiered-storage/t-{partition}-jF8s79t9SrG_PNqlwv7bAA/{start:020d}-knnxbs3FSRyKdPcSAOQC-w.log")
    found = [(s.topic_id_partition.partition, s.start_offset) for s in LocalTieredStorageLayout().list_segments(store)]
    assert found == [(2, 4), (2, 30), (10, 0), (10, 5)]


def test_golden_listing_has_exactly_the_segments_of_the_metadata():
    listed = list(LocalTieredStorageLayout().list_segments(golden_store()))
    known = [m for tip in live_partitions() for m in golden_metadata().cache(tip).list_all_remote_log_segments()]
    assert {s.remote_log_segment_id for s in listed} == {m.remote_log_segment_id for m in known}
    assert {s.remote_log_segment_id: s.sizes[ObjectKind.LOG] for s in listed} == {
        m.remote_log_segment_id: m.segment_size_in_bytes for m in known
    }
    assert not any(s.missing for s in listed)


def test_segments_of_several_topic_ids_stay_apart(store):
    for number in (2, 1):
        tip = TopicIdPartition(UUID(int=number), "t", 0)
        segment = attrs.evolve(metadata(0, 9), remote_log_segment_id=RemoteLogSegmentId(tip, UUID(int=9)))
        put(store, LocalTieredStorageLayout().object_key(segment, ObjectKind.LOG))
    assert [s.topic_id_partition.topic_id.int for s in LocalTieredStorageLayout().list_segments(store)] == [1, 2]


def test_each_index_is_an_object_of_its_own(store):
    segment = metadata(0, 9)
    layout = LocalTieredStorageLayout()
    for kind in ObjectKind:
        store.objects[layout.object_key(segment, kind)] = kind.value.encode()
    for kind in ObjectKind:
        assert layout.read_index(store, segment, kind) == kind.value.encode()
    store.objects.clear()
    assert layout.read_index(store, segment, ObjectKind.TRANSACTION_INDEX) == b""
    for kind in REQUIRED:
        with pytest.raises(ObjectNotFoundError):
            layout.read_index(store, segment, kind)


def test_logs_are_unchanged_and_no_object_describes_a_segment(store):
    layout = LocalTieredStorageLayout()
    put(store, *(f"{DIRECTORY}/{FILE}{suffix}" for suffix in SUFFIXES))
    (segment,) = layout.list_segments(store)
    assert layout.stored_metadata(store, segment) is None
    assert layout.original_logs(store) is store
    (located,) = layout.locate(store, metadata(0, 9), [ByteRange(5, 9)]).ranges
    assert (located.range, located.object_range) == (ByteRange(5, 9), ByteRange(5, 9))
    assert located.location.object_key == layout.object_key(metadata(0, 9), ObjectKind.LOG)
