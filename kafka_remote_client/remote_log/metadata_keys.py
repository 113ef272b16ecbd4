"""The record keys of ``__remote_log_metadata`` that KIP-1266 proposes: codec, and a check of each key against its value.

A compacted topic keeps the last record of each key. Records of today's brokers have no key. Two schemas are proposed. During an
upgrade of brokers, a topic may have records of all three kinds:

================ ===================================================================================== ===================
schema           key                                                                                   keeps
================ ===================================================================================== ===================
today            none                                                                                  every record
segment key      37 bytes: TopicId uuid | Partition int32 | SegmentId uuid | RemoteLogSegmentState i8  each state
end offset key   text ``TopicId:TopicName:Partition:EndOffset:BrokerLeaderEpoch`` for a segment        the segment and its
                 record, the same with ``:UPDATE`` for an update; TopicId in base64url                 last update
================ ===================================================================================== ===================

A record without a value is a tombstone: the broker writes one for each key of a segment after DELETE_SEGMENT_FINISHED. Records
that delete a partition have no key in either schema.

References: KIP-1266; apache/kafka pull requests 22774 (segment key, state of 2026-07-07) and 22459 (end offset key, state of
2026-06-03; phases by ``remote.log.metadata.version``: 0 no keys, 1 keys and ``compact,delete``, 2 ``compact``).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple, TypeAlias
from uuid import UUID

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    RemoteLogSegmentId,
    RemoteLogSegmentState,
    TopicIdPartition,
    uuid_from_text,
    uuid_to_text,
)
from kafka_remote_client.remote_log.packed_segment import (
    MetadataEvent,
    PackedEvent,
    SegmentEvent,
    SegmentUpdate,
    broker_leader_epoch,
    end_offset,
)

__all__ = ["EndOffsetKey", "MetadataKey", "SegmentKey", "check_key", "read_key"]

_SEGMENT_KEY = struct.Struct(">16si16sb")
_PARTITION = struct.Struct(">16si")
_UPDATE = "UPDATE"
_CACHED_PARTITIONS = 1 << 16
_HIGHEST_STATE = max(RemoteLogSegmentState)
_STATE_BYTES = [bytes([state]) for state in RemoteLogSegmentState]
_LIMITS = {
    "partition": (0, 1 << 31),
    "end offset": (UNKNOWN_OFFSET, 1 << 63),
    "broker leader epoch": (UNKNOWN_EPOCH, 1 << 31),
}
_MOST_DIGITS = 20


class SegmentKey(NamedTuple):
    """One state of one segment."""

    topic_id: UUID
    partition: int
    segment_id: UUID
    state: RemoteLogSegmentState


class EndOffsetKey(NamedTuple):
    """Segments that end at ``end_offset`` (inclusive) and were copied in one leader epoch. ``update``: their last update."""

    topic_id: UUID
    topic: str
    partition: int
    end_offset: int
    broker_leader_epoch: int
    update: bool


MetadataKey: TypeAlias = SegmentKey | EndOffsetKey


def read_key(key: bytes) -> MetadataKey:
    """Decodes a key. Raises RemoteLogMetadataError for bytes of neither schema."""
    # An end offset key of 37 bytes ends with a digit or a letter; a segment key ends with the number of a state.
    if len(key) == _SEGMENT_KEY.size and key[-1] < ord(" "):
        return _segment_key(key)
    return _end_offset_key(key)


def check_key(key: bytes, event: MetadataEvent) -> None:
    """Raises RemoteLogMetadataError unless ``key`` is the key of ``event`` in one of the schemas.

    Compaction removes the wrong records if a key is wrong, so the metadata partition cannot be trusted.
    """
    if not isinstance(event, (SegmentEvent, SegmentUpdate)):  # no union: one is made for each record
        raise RemoteLogMetadataError(f"record key {_shown(key)} on a {type(event).__name__}, which has no key")
    binary, text = _prefixes(event.topic_id_partition)
    if key == binary + event.segment_id + _STATE_BYTES[event.state]:
        return
    if not key.startswith(text) or key != text + _suffix(event):
        segment = RemoteLogSegmentId(event.topic_id_partition, UUID(bytes=event.segment_id))
        raise RemoteLogMetadataError(f"record key {_shown(key)} is not the key of {segment} in state {event.state.name}")


@lru_cache(_CACHED_PARTITIONS)
def _prefixes(tip: TopicIdPartition) -> tuple[bytes, bytes]:
    """The first bytes of all keys of a partition: of segment keys, and of end offset keys."""
    return (
        _PARTITION.pack(tip.topic_id.bytes, tip.partition),
        f"{uuid_to_text(tip.topic_id)}:{tip.topic}:{tip.partition}:".encode(),
    )


def _suffix(event: PackedEvent) -> bytes:
    """The last bytes of an end offset key."""
    if isinstance(event, SegmentUpdate):
        return b"%d:%d:UPDATE" % (event.end_offset, event.broker_leader_epoch)
    return b"%d:%d" % (end_offset(event.segment), broker_leader_epoch(event.segment))


def _segment_key(key: bytes) -> SegmentKey:
    topic_id, partition, segment, state = _SEGMENT_KEY.unpack(key)
    if partition < 0 or not 0 <= state <= _HIGHEST_STATE:
        raise RemoteLogMetadataError(f"invalid segment key: partition {partition}, state {state}")
    return SegmentKey(UUID(bytes=topic_id), partition, UUID(bytes=segment), RemoteLogSegmentState(state))


def _end_offset_key(key: bytes) -> EndOffsetKey:
    try:
        parts = key.decode("ascii").split(":")
    except UnicodeDecodeError:
        parts = []
    if len(parts) not in (5, 6) or (len(parts) == 6 and parts[5] != _UPDATE) or not parts[1]:
        raise RemoteLogMetadataError(f"record key {_shown(key)} is neither a segment key nor an end offset key")
    try:
        topic_id = uuid_from_text(parts[0])
    except ValueError:
        topic_id = None
    if topic_id is None or uuid_to_text(topic_id) != parts[0]:
        raise RemoteLogMetadataError(f"invalid end offset key: topic id {parts[0][:24]!r}")
    numbers = [_number(name, text) for name, text in zip(_LIMITS, parts[2:5], strict=True)]
    return EndOffsetKey(topic_id, parts[1], numbers[0], numbers[1], numbers[2], len(parts) == 6)


def _number(name: str, text: str) -> int:
    lowest, limit = _LIMITS[name]
    try:
        value = int(text[:_MOST_DIGITS])
    except ValueError:
        value = limit
    if str(value) != text or not lowest <= value < limit:
        raise RemoteLogMetadataError(f"invalid end offset key: {name} {text[:_MOST_DIGITS]!r}")
    return value


def _shown(key: bytes) -> str:
    return repr(key[:80])
