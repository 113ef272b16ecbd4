from __future__ import annotations

import re
from uuid import UUID

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, RemoteLogSegmentId, TopicIdPartition
from kafka_remote_client.remote_log.layout import (
    REQUIRED,
    ListedSegment,
    ObjectKind,
    located_as_they_are,
    segment_order,
    topic_in_directory,
)
from tests.support.tier import TIP


def listed(*kinds):
    return ListedSegment(RemoteLogSegmentId(TIP, UUID(int=1)), 0, dict.fromkeys(kinds, 10))


def test_all_objects_but_the_transaction_index_are_required():
    assert ObjectKind.TRANSACTION_INDEX not in REQUIRED
    assert len(REQUIRED) == len(ObjectKind) - 1
    assert listed(*REQUIRED).missing == frozenset()


def test_a_segment_lists_its_missing_objects():
    assert listed(ObjectKind.LOG, ObjectKind.OFFSET_INDEX).missing == REQUIRED - {ObjectKind.LOG, ObjectKind.OFFSET_INDEX}
    assert listed().topic_id_partition == TIP


def test_an_unchanged_log_has_equal_ranges_in_segment_and_object():
    ranges = [ByteRange(0, 5), ByteRange(5, 9)]
    located = located_as_they_are("a/b.log", ranges)
    assert located.format == "ApacheKafkaV1"
    assert [(one.range, one.object_range) for one in located.ranges] == [(one, one) for one in ranges]
    assert {one.location for one in located.ranges} == {LocationMetadata(object_key="a/b.log")}


def test_segments_are_ordered_by_partition_and_start():
    def key(topic: str, number: int, partition: int, start: int, segment: int):
        return segment_order(RemoteLogSegmentId(TopicIdPartition(UUID(int=number), topic, partition), UUID(int=segment)), start)

    ordered = [
        key("a", 1, 2, 9, 9),
        key("a", 2, 0, 8, 8),
        key("a", 2, 1, 0, 5),
        key("a", 2, 1, 10, 1),
        key("a", 2, 1, 10, 2),
        key("b", 1, 0, 0, 0),
    ]
    backwards = ordered[::-1]
    assert sorted(backwards) == ordered


def test_a_topic_name_is_the_first_directory_without_the_number():
    directory = re.compile(r"(?P<topic>.+)-[0-9]+")
    assert topic_in_directory("tier/orders-7/0.log", "tier/", directory) == "orders"
    assert topic_in_directory("tier/orders-7x/0.log", "tier/", directory) is None
    assert topic_in_directory("tier/orders-7", "tier/", directory) is None, "a file is no directory"
