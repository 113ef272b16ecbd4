from __future__ import annotations

import contextlib
import re
from itertools import pairwise
from uuid import UUID

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
    uuid_to_text,
)
from kafka_remote_client.remote_log.events import (
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_records

TIP = TopicIdPartition(UUID(hex="00112233445566778899aabbccddeeff"), "orders", 7)
SID = RemoteLogSegmentId(TIP, UUID(hex="01020304050607081112131415161718"))
BODY = {
    "start_offset": 100,
    "end_offset": 199,
    "broker_id": 1,
    "max_timestamp_ms": 1_700_000_000_000,
    "segment_leader_epochs": (EpochEntry(0, 100), EpochEntry(3, 150)),
    "segment_size_in_bytes": 4096,
}
SEGMENT = RemoteLogSegmentMetadata(
    SID, event_timestamp_ms=1_700_000_001_234, state=RemoteLogSegmentState.COPY_SEGMENT_STARTED, **BODY
)
# Written by Kafka's own RemoteLogMetadataSerde (4.0.0-SNAPSHOT).
SEGMENT_BYTES = bytes.fromhex(
    "010000076f726465727300112233445566778899aabbccddeeff00000007000102030405060708111213141516171800000000000000006400000000"
    "000000c7000000010000018bcfe568000000018bcfe56cd203000000000000000000000064000000000300000000000000960000001000000000"
)
UPDATE_BYTES = bytes.fromhex(
    "010100076f726465727300112233445566778899aabbccddeeff00000007000102030405060708111213141516171800000000010000018bcfe56fd0"
    "0373330100"
)
DELETE_BYTES = bytes.fromhex("010200076f726465727300112233445566778899aabbccddeeff0000000700000000010000018bcfe573b80000")
SNAPSHOT_BYTES = bytes.fromhex(
    "01030001020304050607081112131415161718000000000000006400000000000000c7000000010000018bcfe568000000018bcfe56fd00300000000"
    "00000000000000640000000003000000000000009600000010000373330100"
)
ALL_BYTES = [SEGMENT_BYTES, UPDATE_BYTES, DELETE_BYTES, SNAPSHOT_BYTES]
serde = RemoteLogMetadataSerde()


def test_reads_a_segment_as_kafka_wrote_it():
    event = serde.deserialize(SEGMENT_BYTES)
    assert event == SEGMENT
    assert event.txn_index_empty is False


def test_reads_an_update_as_kafka_wrote_it():
    assert serde.deserialize(UPDATE_BYTES) == RemoteLogSegmentMetadataUpdate(
        SID, 1, 1_700_000_002_000, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, b"s3"
    )


def test_reads_a_partition_delete_as_kafka_wrote_it():
    assert serde.deserialize(DELETE_BYTES) == RemotePartitionDeleteMetadata(
        TIP, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, 1_700_000_003_000, 1
    )


def test_reads_a_snapshot_as_kafka_wrote_it():
    assert serde.deserialize(SNAPSHOT_BYTES) == RemoteLogSegmentMetadataSnapshot(
        SID.id,
        event_timestamp_ms=1_700_000_002_000,
        custom_metadata=b"s3",
        state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        **BODY,
    )


@pytest.mark.parametrize("raw", ALL_BYTES)
def test_writes_the_same_bytes_as_kafka(raw):
    assert serde.serialize(serde.deserialize(raw)) == raw


@pytest.mark.parametrize("raw", ALL_BYTES)
def test_version_1_is_read_like_version_0_and_its_tags_are_skipped(raw):
    with_tag = raw[:2] + b"\x01" + raw[3:-1] + b"\x01\x05\x04\x00\x00\x00\x05"
    assert serde.deserialize(with_tag) == serde.deserialize(raw)


# Names and numbers of the tags follow apache/kafka pull request 22459, state of 2026-06-03.
@pytest.mark.parametrize(
    ("raw", "tags", "changes"),
    [
        (SEGMENT_BYTES, "01 01 04 00000005", {"broker_leader_epoch": 5}),
        (SNAPSHOT_BYTES, "02 00 01 01 01 04 00000005", {"broker_leader_epoch": 5, "txn_index_empty": True}),
        (UPDATE_BYTES, "02 00 04 00000005 01 08 00000000000000c7", {"broker_leader_epoch": 5, "end_offset": 199}),
        (UPDATE_BYTES, "01 01 08 00000000000000c7", {"end_offset": 199}),
    ],
)
def test_the_tags_of_kip_1266_are_read_and_written(raw, tags, changes):
    tagged = raw[:-1] + bytes.fromhex(tags)
    event = serde.deserialize(tagged)
    assert event == attrs.evolve(serde.deserialize(raw), **changes)
    assert serde.serialize(event) == tagged


@pytest.mark.parametrize("raw", [SEGMENT_BYTES, UPDATE_BYTES])
def test_a_tag_of_the_wrong_size_is_refused(raw):
    with pytest.raises(RemoteLogMetadataError, match="tag 1 of 3 bytes, not"):
        serde.deserialize(raw[:-1] + bytes.fromhex("01 01 03 000005"))


def test_txn_index_empty_is_a_tag_that_is_written_only_when_true():
    event = attrs.evolve(SEGMENT, txn_index_empty=True)
    raw = serde.serialize(event)
    assert raw.endswith(b"\x01\x00\x01\x01")
    assert serde.deserialize(raw) == event
    assert serde.serialize(SEGMENT).endswith(b"\x00")


def test_epochs_are_sorted_and_the_last_of_two_equal_ones_counts():
    at = SEGMENT_BYTES.index(b"\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x64")
    first, second = SEGMENT_BYTES[at + 1 : at + 14], SEGMENT_BYTES[at + 14 : at + 27]
    swapped = SEGMENT_BYTES[: at + 1] + second + first + SEGMENT_BYTES[at + 27 :]
    assert serde.deserialize(swapped) == serde.deserialize(SEGMENT_BYTES)
    doubled = SEGMENT_BYTES[:at] + b"\x04" + first[:-2] + b"\x65\x00" + first + second + SEGMENT_BYTES[at + 27 :]
    assert serde.deserialize(doubled) == serde.deserialize(SEGMENT_BYTES)


@pytest.mark.parametrize("raw", ALL_BYTES)
def test_every_cut_of_a_record_is_refused(raw):
    for size in range(len(raw)):
        with pytest.raises(RemoteLogMetadataError):
            serde.deserialize(raw[:size])


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (None, "no value"),
        (b"", "no value"),
        (b"\x00" + SEGMENT_BYTES[1:], "frame version 0"),
        (b"\x02" + SEGMENT_BYTES[1:], "frame version 2"),
        (b"\x80\x80\x02" + SEGMENT_BYTES[1:], "frame version 32768"),
        (b"\x01\x04" + SEGMENT_BYTES[2:], "unknown key 4"),
        (b"\x01\x00\x02" + SEGMENT_BYTES[3:], "unknown version 2"),
        (SEGMENT_BYTES + b"\x00", "1 bytes follow"),
        (UPDATE_BYTES[:-2] + b"\x04\x00", "unknown RemoteLogSegmentState 4"),
        (DELETE_BYTES[:-2] + b"\x03\x00", "unknown RemotePartitionDeleteState 3"),
        (SEGMENT_BYTES[:-1] + b"\x01\x00\x02\x01\x01", "TxnIndexEmpty of 2 bytes"),
    ],
)
def test_an_invalid_record_is_refused(raw, says):
    with pytest.raises(RemoteLogMetadataError, match=says):
        serde.deserialize(raw)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start_offset": 200}, "offsets 200 to 199"),
        ({"start_offset": -1}, "offsets -1 to 199"),
        ({"segment_size_in_bytes": -5}, "-5 bytes"),
        ({"segment_leader_epochs": ()}, "leader epochs"),
        ({"segment_leader_epochs": (EpochEntry(0, 100), EpochEntry(1, 99))}, "leader epochs"),
    ],
)
def test_a_segment_with_impossible_values_is_refused(changes, says):
    raw = serde.serialize(attrs.evolve(SEGMENT, **changes))
    with pytest.raises(RemoteLogMetadataError, match=says):
        serde.deserialize(raw)


@given(st.binary(max_size=200))
@example(b"\x01\x00\x00")
@example(UPDATE_BYTES[:40] + b"\xff" * 40)
def test_any_bytes_give_an_event_or_a_metadata_error(raw):
    with contextlib.suppress(RemoteLogMetadataError):
        serde.deserialize(raw)


def test_golden_records_round_trip():
    for _, raw in golden_records():
        assert serde.serialize(serde.deserialize(raw)) == raw


def in_kafkas_words(event) -> str:
    tip = event.topic_id_partition
    sid = (
        f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={uuid_to_text(tip.topic_id)}:{tip.topic}-{tip.partition}, "
        f"id={uuid_to_text(event.remote_log_segment_id.id)}}}"
    )
    custom = f"customMetadata=Optional.{'empty' if event.custom_metadata is None else '?'}"
    if isinstance(event, RemoteLogSegmentMetadata):
        epochs = ", ".join(f"{e.epoch}={e.start_offset}" for e in event.segment_leader_epochs)
        return (
            f"RemoteLogSegmentMetadata{{{sid}, startOffset={event.start_offset}, endOffset={event.end_offset}, "
            f"brokerId={event.broker_id}, maxTimestampMs={event.max_timestamp_ms}, "
            f"eventTimestampMs={event.event_timestamp_ms}, segmentLeaderEpochs={{{epochs}}}, "
            f"segmentSizeInBytes={event.segment_size_in_bytes}, {custom}, state={event.state.name}, "
            f"txnIdxEmpty={str(event.txn_index_empty).lower()}}}"
        )
    return (
        f"RemoteLogSegmentMetadataUpdate{{{sid}, {custom}, state={event.state.name}, "
        f"eventTimestampMs={event.event_timestamp_ms}, brokerId={event.broker_id}}}"
    )


def test_golden_records_equal_the_output_of_kafkas_own_decoder():
    printed = re.findall(r"payload: (.*)", read_text(golden_local() / "dump-log-segments" / "remote_log_metadata.txt.gz"))
    ours = [in_kafkas_words(serde.deserialize(raw)) for _, raw in golden_records()]
    assert sorted(ours) == sorted(printed)
    assert len(ours) == 184


def test_repr_hides_custom_metadata():
    assert "s3" not in repr(serde.deserialize(UPDATE_BYTES))
    assert "s3" not in repr(serde.deserialize(SNAPSHOT_BYTES))
    assert "<2 bytes>" in repr(serde.deserialize(UPDATE_BYTES))
    assert "custom_metadata=None" in repr(attrs.evolve(serde.deserialize(UPDATE_BYTES), custom_metadata=None))


def test_golden_event_times_increase_to_within_a_second():
    for number in range(5):
        events = [serde.deserialize(raw) for partition, raw in golden_records() if partition == number]
        assert all(a.event_timestamp_ms <= b.event_timestamp_ms + 1000 for a, b in pairwise(events))


def test_records_of_a_partition_share_its_name():
    """A topic of 1,000,000 segments names each partition a hundred times: a name for each would be a third of the memory."""
    one, other = serde.deserialize(SEGMENT_BYTES), serde.deserialize(UPDATE_BYTES)
    assert one.topic_id_partition is other.topic_id_partition
