"""Vectors follow apache/kafka pull requests 22774 (2026-07-07) and 22459 (2026-06-03); no broker writes such keys yet."""

from __future__ import annotations

import contextlib
from uuid import UUID

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.events import RemotePartitionDeleteMetadata, RemotePartitionDeleteState
from kafka_remote_client.remote_log.metadata_keys import EndOffsetKey, SegmentKey, check_key, read_key
from kafka_remote_client.remote_log.packed_segment import packed_event
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.metadata_keys import write_key
from tests.support.tier import TIP, metadata, update

SEGMENT_KEY = bytes.fromhex("00112233445566778899aabbccddeeff 00000007 00000000000000000000000000000001 00".replace(" ", ""))
FINISHED_KEY = SEGMENT_KEY[:-1] + b"\1"
BASE_KEY = b"ABEiM0RVZneImaq7zN3u_w:orders:7:9:3"
UPDATE_KEY = BASE_KEY + b":UPDATE"
STARTED = metadata(0, 9, broker_leader_epoch=3)
FINISHED = attrs.evolve(update(STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED), broker_leader_epoch=3, end_offset=9)
KEYS = {
    SEGMENT_KEY: SegmentKey(TIP.topic_id, 7, UUID(int=1), RemoteLogSegmentState.COPY_SEGMENT_STARTED),
    FINISHED_KEY: SegmentKey(TIP.topic_id, 7, UUID(int=1), RemoteLogSegmentState.COPY_SEGMENT_FINISHED),
    BASE_KEY: EndOffsetKey(TIP.topic_id, "orders", 7, 9, 3, update=False),
    UPDATE_KEY: EndOffsetKey(TIP.topic_id, "orders", 7, 9, 3, update=True),
}
serde = RemoteLogMetadataSerde()


@pytest.mark.parametrize("raw", KEYS)
def test_keys_of_both_schemas_are_read_and_written(raw):
    assert read_key(raw) == KEYS[raw]
    assert write_key(KEYS[raw]) == raw


def test_a_text_of_37_bytes_is_not_taken_for_a_segment_key():
    raw = b"ABEiM0RVZneImaq7zN3u_w:orders:7:123:3"
    assert len(raw) == len(SEGMENT_KEY)
    assert read_key(raw) == EndOffsetKey(TIP.topic_id, "orders", 7, 123, 3, update=False)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "neither a segment key nor an end offset key"),
        (SEGMENT_KEY[:-1], "neither a segment key nor an end offset key"),
        (SEGMENT_KEY[:-1] + b"\4", "partition 7, state 4"),
        (SEGMENT_KEY[:16] + b"\xff\xff\xff\xff" + SEGMENT_KEY[20:], "partition -1, state 0"),
        (
            b"ABEiM0RVZneImaq7zN3u_w:7:9:3",
            "neither a segment key nor an end offset key",
        ),  # an earlier revision, without the name
        (BASE_KEY + b":DELETE", "neither a segment key nor an end offset key"),
        (UPDATE_KEY + b":", "neither a segment key nor an end offset key"),
        (b"ABEiM0RVZneImaq7zN3u_w::7:9:3", "neither a segment key nor an end offset key"),
        ("ABEiM0RVZneImaq7zN3u_w:örders:7:9:3".encode(), "neither a segment key nor an end offset key"),
        (b"ABEiM0RVZneImaq7zN3u:orders:7:9:3", "topic id 'ABEiM0RVZneImaq7zN3u'"),
        (b"ABEiM0RVZneImaq7zN3u_w:orders:-1:9:3", "partition '-1'"),
        (b"ABEiM0RVZneImaq7zN3u_w:orders:2147483648:9:3", "partition '2147483648'"),
        (b"ABEiM0RVZneImaq7zN3u_w:orders:7:09:3", "end offset '09'"),
        (b"ABEiM0RVZneImaq7zN3u_w:orders:7:9223372036854775808:3", "end offset '9223372036854775808'"),
        (b"ABEiM0RVZneImaq7zN3u_w:orders:7:9:x", "broker leader epoch 'x'"),
    ],
)
def test_a_key_that_fits_no_schema_is_refused_with_the_reason(raw, reason):
    with pytest.raises(RemoteLogMetadataError, match=reason):
        read_key(raw)


@pytest.mark.parametrize(
    ("key", "event"), [(SEGMENT_KEY, STARTED), (BASE_KEY, STARTED), (FINISHED_KEY, FINISHED), (UPDATE_KEY, FINISHED)]
)
def test_a_record_is_read_with_the_key_of_either_schema_or_without(key, event):
    value = serde.serialize(event)
    assert serde.read(key, value) == serde.read(None, value) == packed_event(event)
    assert serde.read(key, None) == KEYS[key]


@pytest.mark.parametrize(
    ("key", "event"),
    [
        (SEGMENT_KEY, FINISHED),
        (FINISHED_KEY, STARTED),
        (BASE_KEY, FINISHED),
        (UPDATE_KEY, STARTED),
        (BASE_KEY[:-1] + b"4", STARTED),
        (SEGMENT_KEY[:20] + bytes(17), STARTED),
        (b"?", STARTED),
        (SEGMENT_KEY, RemotePartitionDeleteMetadata(TIP, RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 0, 1)),
    ],
)
def test_a_key_of_another_value_is_refused(key, event):
    with pytest.raises(RemoteLogMetadataError, match=r"is not the key of|has no key"):
        check_key(key, packed_event(event))


def test_a_record_without_key_and_value_is_refused():
    with pytest.raises(RemoteLogMetadataError, match="has no value"):
        serde.read(None, None)


@given(st.binary(max_size=80) | st.from_regex(rb"[A-Za-z0-9_-]{22}:[a-z:]{1,4}(:-?[0-9]{1,20}){3}(:UPDATE)?", fullmatch=True))
@example(SEGMENT_KEY)
@example(UPDATE_KEY)
@example(b"ABEiM0RVZneImaq7zN3u_w:orders:7:-1:-1")
@example(b"ABEiM0RVZneImaq7zN3u_-:orders:7:9:3")
def test_any_key_is_read_as_it_is_written_or_refused(raw):
    with contextlib.suppress(RemoteLogMetadataError):
        assert write_key(read_key(raw)) == raw
