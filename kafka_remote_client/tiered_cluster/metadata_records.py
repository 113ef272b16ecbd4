"""Writes the records of ``__remote_log_metadata``, and names the partition of that topic that gets them.

::

    record value: uvarint 1 (frame version), uvarint api key, uvarint version 0, then the fields

    api key 0, a copy begins                    api key 1, a segment enters another state
    id               segment id                 id               segment id
    startOffset      int64                      brokerId         int32
    endOffset        int64, inclusive           eventTimestamp   int64
    brokerId         int32                      customMetadata   nullable bytes
    maxTimestamp     int64                      state            int8
    eventTimestamp   int64                      tags
    leaderEpochs     array of int32, int64, tags
    segmentSize      int32                      segment id: topic name, topic id (16 bytes), int32 partition, tags,
    customMetadata   nullable bytes                         segment id (16 bytes), tags
    state            int8
    tags             0: txnIndexEmpty, bool, only when true

Strings, bytes and arrays begin with an unsigned varint of their length + 1; 0 is null. Tags are an unsigned varint of their
number, then tag, size and content of each. Record keys are null.

References: KIP-405; Kafka's RemoteLogMetadataSerde, RemoteLogSegmentMetadataRecord.json,
RemoteLogSegmentMetadataUpdateRecord.json, RemoteLogMetadataTopicPartitioner.
"""

from __future__ import annotations

import struct
from typing import TypeAlias

import attrs

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.tiered_cluster.batches import uvarint

__all__ = ["MetadataEvent", "SegmentUpdate", "metadata_partition", "metadata_record", "updated"]

_FRAME_VERSION = 1
_RECORD_VERSION = 0
_SEGMENT, _UPDATE = 0, 1
_NO_TAGS = b"\0"
_TXN_INDEX_EMPTY = b"\1\0\1\1"
_MASK = 0xFFFF_FFFF
_MURMUR_SEED, _MURMUR_M, _MURMUR_R = 0x9747_B28C, 0x5BD1_E995, 24


@attrs.frozen
class SegmentUpdate:
    """A segment enters ``state``. ``custom_metadata`` replaces what was known."""

    remote_log_segment_id: RemoteLogSegmentId
    broker_id: int
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    custom_metadata: bytes | None = attrs.field(default=None, repr=False)


MetadataEvent: TypeAlias = RemoteLogSegmentMetadata | SegmentUpdate
"""A segment in state COPY_SEGMENT_STARTED, or a change of its state."""


def updated(segment: RemoteLogSegmentMetadata, update: SegmentUpdate) -> RemoteLogSegmentMetadata:
    """The segment with what the update replaces."""
    return attrs.evolve(
        segment,
        broker_id=update.broker_id,
        event_timestamp_ms=update.event_timestamp_ms,
        state=update.state,
        custom_metadata=update.custom_metadata,
    )


def metadata_record(event: MetadataEvent) -> bytes:
    """The value of an event's record."""
    if isinstance(event, SegmentUpdate):
        body = struct.pack(">iq", event.broker_id, event.event_timestamp_ms) + _bytes(event.custom_metadata)
        return _framed(_UPDATE, event.remote_log_segment_id, body + struct.pack(">b", event.state) + _NO_TAGS)
    body = struct.pack(
        ">qqiqq", event.start_offset, event.end_offset, event.broker_id, event.max_timestamp_ms, event.event_timestamp_ms
    )
    body += uvarint(len(event.segment_leader_epochs) + 1)
    for entry in event.segment_leader_epochs:
        body += struct.pack(">iq", entry.epoch, entry.start_offset) + _NO_TAGS
    body += struct.pack(">i", event.segment_size_in_bytes) + _bytes(event.custom_metadata) + struct.pack(">b", event.state)
    return _framed(_SEGMENT, event.remote_log_segment_id, body + (_TXN_INDEX_EMPTY if event.txn_index_empty else _NO_TAGS))


def _framed(api_key: int, segment: RemoteLogSegmentId, body: bytes) -> bytes:
    tip = segment.topic_id_partition
    partition = _bytes(tip.topic.encode()) + tip.topic_id.bytes + struct.pack(">i", tip.partition) + _NO_TAGS
    front = uvarint(_FRAME_VERSION) + uvarint(api_key) + uvarint(_RECORD_VERSION)
    return front + partition + segment.id.bytes + _NO_TAGS + body


def _bytes(data: bytes | None) -> bytes:
    return b"\0" if data is None else uvarint(len(data) + 1) + data


def metadata_partition(tip: TopicIdPartition, partitions: int) -> int:
    """The partition of ``__remote_log_metadata``, which has ``partitions``, for the events of a user's partition.

    Murmur2 of a hash of topic id and partition; the topic's name has no part in it.
    """
    high, low = divmod(tip.topic_id.int, 1 << 64)
    hashed = 31 * (31 * (31 + _long_hash(low)) + _long_hash(high)) + tip.partition
    return (_murmur2(struct.pack(">I", hashed & _MASK)) & 0x7FFF_FFFF) % partitions


def _long_hash(value: int) -> int:
    return (value ^ value >> 32) & _MASK


def _murmur2(four_bytes: bytes) -> int:
    k = int.from_bytes(four_bytes, "little")
    k = k * _MURMUR_M & _MASK
    k = (k ^ k >> _MURMUR_R) * _MURMUR_M & _MASK
    h = (_MURMUR_SEED ^ len(four_bytes)) * _MURMUR_M & _MASK
    h ^= k
    h = (h ^ h >> 13) * _MURMUR_M & _MASK
    return h ^ h >> 15
