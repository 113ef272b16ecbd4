"""Metadata records are those of real brokers, byte for byte, and lie in the same partitions."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.tiered_cluster.metadata_records import (
    MetadataEvent,
    SegmentUpdate,
    metadata_partition,
    metadata_record,
    updated,
)
from tests.support.golden_metadata import golden_records

TIP = TopicIdPartition(UUID("00112233-4455-6677-8899-aabbccddeeff"), "orders", 7)
SEGMENT = RemoteLogSegmentId(TIP, UUID("01020304-0506-0708-1112-131415161718"))
STARTED = RemoteLogSegmentMetadata(
    SEGMENT,
    100,
    199,
    1_700_000_000_000,
    1,
    1_700_000_001_234,
    (EpochEntry(0, 100), EpochEntry(3, 150)),
    4096,
    state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
)
FINISHED = SegmentUpdate(SEGMENT, 1, 1_700_000_002_000, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"s3")


def golden_events() -> list[tuple[int, bytes, MetadataEvent]]:
    """Partition and value of each golden record, and its event as the client decodes it."""
    events = []
    for partition, value in golden_records():
        event = RemoteLogMetadataSerde().deserialize(value)
        if not isinstance(event, RemoteLogSegmentMetadata):
            event = SegmentUpdate(
                event.remote_log_segment_id, event.broker_id, event.event_timestamp_ms, event.state, event.custom_metadata
            )
        events.append((partition, value, event))
    return events


def test_writes_the_records_of_a_real_broker_in_their_partitions() -> None:
    events = golden_events()
    assert {type(event) for _, _, event in events} == {RemoteLogSegmentMetadata, SegmentUpdate}
    assert [
        (metadata_partition(event.remote_log_segment_id.topic_id_partition, 5), metadata_record(event))
        for _, _, event in events
    ] == [(partition, value) for partition, value, _ in events]


def test_writes_the_records_that_kafkas_serde_wrote() -> None:
    identity = "076f726465727300112233445566778899aabbccddeeff00000007000102030405060708111213141516171800"
    offsets, times = "000000000000006400000000000000c700000001", "0000018bcfe568000000018bcfe56cd2"
    epochs = "0300000000000000000000006400" + "0000000300000000000000960" + "0"
    assert metadata_record(STARTED).hex() == "010000" + identity + offsets + times + epochs + "00001000" + "000000"
    assert metadata_record(FINISHED).hex() == "010100" + identity + "000000010000018bcfe56fd00373330100"


def test_an_empty_transaction_index_is_a_tag_and_null_differs_from_empty() -> None:
    with_tag = RemoteLogSegmentMetadata(
        SEGMENT, 0, 9, 1, 1, 1, (EpochEntry(0, 0),), 4096, b"", STARTED.state, txn_index_empty=True
    )
    assert metadata_record(with_tag).endswith(b"\0\0\x10\0" + b"\1" + b"\0" + b"\1\0\1\1")
    assert RemoteLogMetadataSerde().deserialize(metadata_record(with_tag)) == with_tag


def test_long_custom_metadata_has_a_long_length() -> None:
    update = SegmentUpdate(SEGMENT, 1, 2, FINISHED.state, b"x" * 300)
    assert RemoteLogMetadataSerde().deserialize(metadata_record(update)).custom_metadata == b"x" * 300


@pytest.mark.parametrize(
    ("topic_id", "partition", "of_50"),
    [
        (TIP.topic_id.hex, 7, 19),
        ("ba419d350dfe8af7aee7bbe10c45c028", 70, 26),
        ("f12bbb4b46ee9d83b52c856caa616abe", 93, 21),
        ("e74367bd738597dc5e688e9961b35c88", 76, 2),
        ("b0bfbe2076b20011c3185753c86c400f", 9, 4),
        ("eb5910f126e6bc6f6fbddf557096b883", 43, 10),
    ],
)
def test_partitions_are_those_of_kafkas_partitioner(topic_id: str, partition: int, of_50: int) -> None:
    assert metadata_partition(TopicIdPartition(UUID(topic_id), "any", partition), 50) == of_50


def test_an_update_replaces_custom_metadata() -> None:
    finished = updated(STARTED, FINISHED)
    assert (finished.state, finished.custom_metadata, finished.event_timestamp_ms) == (FINISHED.state, b"s3", 1_700_000_002_000)
    deleting = SegmentUpdate(SEGMENT, 2, 5, RemoteLogSegmentState.DELETE_SEGMENT_STARTED)
    assert updated(finished, deleting).custom_metadata is None
    assert updated(finished, deleting).broker_id == 2
