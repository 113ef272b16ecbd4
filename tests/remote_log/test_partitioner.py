from __future__ import annotations

from uuid import UUID

import pytest

from kafka_remote_client.model import TopicIdPartition
from kafka_remote_client.remote_log.partitioner import metadata_partition, murmur2
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.golden_metadata import golden_records


# From Kafka's own RemoteLogMetadataTopicPartitioner.
@pytest.mark.parametrize(
    ("topic_id", "partition", "count", "expected"),
    [
        ("00112233445566778899aabbccddeeff", 7, 50, 19),
        ("00112233445566778899aabbccddeeff", 7, 5, 4),
        ("ba419d350dfe8af7aee7bbe10c45c028", 70, 50, 26),
        ("f12bbb4b46ee9d83b52c856caa616abe", 93, 50, 21),
        ("e74367bd738597dc5e688e9961b35c88", 76, 50, 2),
        ("b0bfbe2076b20011c3185753c86c400f", 9, 50, 4),
        ("eb5910f126e6bc6f6fbddf557096b883", 43, 50, 10),
    ],
)
def test_partition_is_the_one_that_kafka_computes(topic_id, partition, count, expected):
    assert metadata_partition(TopicIdPartition(UUID(hex=topic_id), "any", partition), count) == expected


def test_the_topic_name_does_not_change_the_partition():
    a, b = (TopicIdPartition(UUID(int=77), name, 3) for name in ("a", "b"))
    assert metadata_partition(a, 50) == metadata_partition(b, 50)


# From Kafka's UtilsTest.testMurmur2.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(data, expected):
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_golden_records_are_in_the_computed_partitions():
    serde = RemoteLogMetadataSerde()
    for partition, value in golden_records():
        assert metadata_partition(serde.deserialize(value).topic_id_partition, 5) == partition
