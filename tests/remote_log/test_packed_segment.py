"""What is packed comes back as it was; any other bytes are refused."""

from __future__ import annotations

import struct
from uuid import UUID

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.events import RemotePartitionDeleteMetadata, RemotePartitionDeleteState
from kafka_remote_client.remote_log.packed_segment import (
    SegmentEvent,
    SegmentUpdate,
    broker_leader_epoch,
    end_offset,
    epoch_entries,
    pack_segment,
    packed_event,
    read_packed,
    segment_id,
    state,
    unpack_segment,
    with_update,
)
from tests.support.tier import TIP, metadata, update

FINISHED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
SEGMENTS = [
    metadata(0, 9),
    metadata(0, 9, custom_metadata=b"", broker_leader_epoch=5, txn_index_empty=True),
    metadata(5, 9, custom_metadata=b"chunks", epochs=[(0, 5), (3, 7)], state=FINISHED),
    metadata(0, 2**63 - 1, max_timestamp_ms=-1, segment_size_in_bytes=2**40),
]


@pytest.mark.parametrize("segment", SEGMENTS)
def test_a_segment_comes_back_as_it_was(segment):
    packed = pack_segment(segment)
    assert unpack_segment(TIP, packed) == segment
    assert SegmentEvent.of(segment).unpacked() == segment
    assert segment_id(packed) == segment.remote_log_segment_id.id.bytes
    assert (state(packed), end_offset(packed)) == (segment.state, segment.end_offset)
    assert broker_leader_epoch(packed) == segment.broker_leader_epoch
    assert epoch_entries(packed) == [(one.epoch, one.start_offset) for one in segment.segment_leader_epochs]


@pytest.mark.parametrize("segment", SEGMENTS)
@pytest.mark.parametrize("custom", [None, b"", b"other"])
def test_an_update_replaces_its_own_fields_alone(segment, custom):
    event = update(segment, FINISHED, custom)
    assert SegmentUpdate.of(event).unpacked() == event
    expected = attrs.evolve(segment, broker_id=2, event_timestamp_ms=6000, state=FINISHED, custom_metadata=custom)
    assert unpack_segment(TIP, with_update(pack_segment(segment), SegmentUpdate.of(event))) == expected


def test_the_bytes_have_the_documented_layout():
    segment = metadata(1, 9, number=7, custom_metadata=b"xy", epochs=[(2, 1)], broker_leader_epoch=4, txn_index_empty=True)
    replaced = struct.pack("<qiBi", 5000, 1, 0, 2)
    stays = UUID(int=7).bytes + struct.pack("<qqqqiBI", 1, 9, 1000, 1009, 4, 1, 1)
    assert pack_segment(segment) == replaced + stays + struct.pack("<iq", 2, 1) + b"xy"


@pytest.mark.parametrize("changes", [{"end": 2**63}, {"broker_id": 2**31}, {"epochs": [(2**31, 0)]}])
def test_a_number_that_does_not_fit_is_refused(changes):
    with pytest.raises(RemoteLogMetadataError, match="does not fit its field"):
        pack_segment(metadata(0, **{"end": 9, **changes}))


def test_only_segments_and_updates_are_packed():
    assert packed_event(SEGMENTS[0]) == SegmentEvent.of(SEGMENTS[0])
    assert packed_event(update(SEGMENTS[0], FINISHED)) == SegmentUpdate.of(update(SEGMENTS[0], FINISHED))
    deleted = RemotePartitionDeleteMetadata(TIP, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 0, 1)
    assert packed_event(deleted) is deleted


def test_segments_are_read_one_after_another():
    data, at = b"".join(map(pack_segment, SEGMENTS)), 0
    for segment in SEGMENTS:
        packed = read_packed(data, at)
        assert unpack_segment(TIP, packed) == segment
        at += len(packed)
    assert at == len(data)


@given(st.data())
def test_any_bytes_give_a_segment_or_an_error(data):
    raw = bytearray(pack_segment(data.draw(st.sampled_from(SEGMENTS))))
    for _ in range(data.draw(st.integers(0, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        packed = read_packed(cut, 0)
    except RemoteLogMetadataError:
        return
    segment = unpack_segment(TIP, packed)
    assert 0 <= segment.start_offset <= segment.end_offset
    assert segment.segment_leader_epochs
