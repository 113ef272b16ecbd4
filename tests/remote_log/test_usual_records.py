from __future__ import annotations

import pickle
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.packed_segment import packed_event
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.remote_log.usual_records import partition_of, usual_record
from tests.support.golden_metadata import golden_records
from tests.support.tier import TIP, metadata, update

serde = RemoteLogMetadataSerde()
FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
USUAL = [
    metadata(0, 9),
    metadata(0, 9, custom_metadata=b"", broker_leader_epoch=0),
    metadata(5, 9, custom_metadata=bytes(126), broker_leader_epoch=3),
    metadata(5, 9, txn_index_empty=True),
    metadata(5, 9, txn_index_empty=True, broker_leader_epoch=3),
    update(metadata(0, 9), FINISHED),
    update(metadata(0, 9), FINISHED, b"custom"),
]
RAW = [*map(serde.serialize, USUAL)]
TAGGED_UPDATE = RAW[5][:-1] + bytes.fromhex("02 00 04 00000005 01 08 00000000000000c7")


def field_by_field(raw):
    try:
        return serde._deserialize(raw)
    except RemoteLogMetadataError:
        return None


def agrees(usual, event):
    """Whether the fast path left a record to the serde, or made the same of it."""
    return usual is None or usual.unpacked() == event


@pytest.mark.parametrize("raw", [*RAW, TAGGED_UPDATE])
def test_usual_records_are_read_as_field_by_field(raw):
    event = usual_record(raw)
    assert event.unpacked() == field_by_field(raw)
    assert event == packed_event(field_by_field(raw))
    assert event.topic_id_partition is field_by_field(raw).topic_id_partition


def test_most_records_of_a_real_broker_are_usual():
    values = [value for _, value in golden_records()]
    events = [usual_record(value) for value in values]
    assert sum(event is not None for event in events) > 0.9 * len(values)
    assert all(agrees(event, serde._deserialize(value)) for event, value in zip(events, values, strict=True))


@pytest.mark.parametrize(
    "event",
    [
        metadata(0, 9, epochs=[(0, 0), (1, 5)]),
        metadata(0, 9, custom_metadata=bytes(127)),
        update(metadata(0, 9), FINISHED, bytes(127)),
    ],
)
def test_unusual_records_are_left_to_the_serde(event):
    raw = serde.serialize(event)
    assert usual_record(raw) is None
    assert serde.deserialize(raw) == event


@pytest.mark.parametrize("raw", [*RAW, TAGGED_UPDATE])
def test_every_changed_byte_and_every_cut_agrees_with_the_serde(raw):
    for at in range(len(raw)):
        assert usual_record(raw[:at]) is None
        for value in {0, 1, 2, 0x7F, 0x80, 0xFF, raw[at] ^ 1, raw[at] ^ 0x80}:
            changed = raw[:at] + bytes([value]) + raw[at + 1 :]
            assert agrees(usual_record(changed), field_by_field(changed)), (at, value)
    assert usual_record(raw + b"\0") is None


@given(st.binary(max_size=200) | st.builds(lambda raw, tail: raw[:-6] + tail, st.sampled_from(RAW), st.binary(max_size=24)))
@example(RAW[0])
def test_any_bytes_give_the_event_of_the_serde_or_none(raw):
    assert agrees(usual_record(raw), field_by_field(raw))


def test_ids_are_like_those_that_uuid_makes():
    made = usual_record(RAW[0]).unpacked().remote_log_segment_id.id
    plain = UUID(bytes=made.bytes)
    assert (made, hash(made), repr(made), made.is_safe) == (plain, hash(plain), repr(plain), plain.is_safe)
    assert pickle.loads(pickle.dumps(made)) == plain


def test_all_records_of_a_partition_share_one_object():
    first, second = usual_record(RAW[0]), usual_record(RAW[5])
    assert first.topic_id_partition is second.topic_id_partition is partition_of(TIP.topic, TIP.topic_id, TIP.partition)
