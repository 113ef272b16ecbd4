"""A segment's metadata as bytes: what the metadata cache keeps of a segment, and what a snapshot stores.

A follower knows up to a million segments, and few of them are ever looked up. As bytes, a segment takes less memory than as
objects and is made from a record in one step, and Python's garbage collector has nothing to visit. A look-up unpacks it.

All numbers are little-endian. First comes what an update replaces, then what stays, and custom metadata at the end::

    offset | size | type   | field               | note
    0      | 8    | int64  | event timestamp     | ms since the Unix epoch
    8      | 4    | int32  | broker id           |
    12     | 1    | uint8  | state               |
    13     | 4    | int32  | custom size         | -1 = no custom metadata
    17     | 16   | uuid   | id                  |
    33     | 8    | int64  | start offset        |
    41     | 8    | int64  | end offset          | inclusive
    49     | 8    | int64  | size                | bytes
    57     | 8    | int64  | max timestamp       | ms since the Unix epoch
    65     | 4    | int32  | broker leader epoch | -1 = unknown
    69     | 1    | uint8  | TxnIndexEmpty       | 0 or 1
    70     | 4    | uint32 | entries             |
    74     | 12 n |        | epoch entries       | {leader epoch int32, start offset int64}
    …      |      | bytes  | custom metadata     |

References: KIP-405; KIP-1266.
"""

from __future__ import annotations

from itertools import pairwise
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple, NewType, TypeAlias
from uuid import UUID, SafeUUID

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.events import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
)

__all__ = [
    "MetadataEvent",
    "PackedEvent",
    "PackedSegment",
    "SegmentEvent",
    "SegmentUpdate",
    "broker_leader_epoch",
    "end_offset",
    "epoch_entries",
    "pack_one_epoch",
    "pack_segment",
    "packed_event",
    "read_packed",
    "segment_id",
    "state",
    "unpack_segment",
    "uuid_of",
    "with_update",
]

PackedSegment = NewType("PackedSegment", bytes)
"""Bytes of the table above."""

_REPLACED = Struct("<qiBi")
"""The fields that an update replaces."""
_FIXED = Struct("<qiBi16sqqqqiBI")
"""All fields before the epoch entries."""
_ENTRY = Struct("<iq")
_ONE_EPOCH = Struct("<qiBi16sqqqqiBIiq")
"""All fields before the epoch entries, and one entry."""
_STATE_AT = 12
_ID_AT = slice(17, 33)
_END = Struct("<q")
_END_AT = 41
_BROKER_LEADER_EPOCH = Struct("<i")
_BROKER_LEADER_EPOCH_AT = 65
_COUNT = Struct("<I")
_ENTRIES_AT = 70
_NO_CUSTOM = -1
_STATES = tuple(RemoteLogSegmentState)
_NEW, _SET = object.__new__, object.__setattr__


class SegmentEvent(NamedTuple):
    """A record with all fields of a segment."""

    topic_id_partition: TopicIdPartition
    segment_id: bytes
    state: RemoteLogSegmentState
    segment: PackedSegment

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata) -> SegmentEvent:
        segment = metadata.remote_log_segment_id
        return cls(segment.topic_id_partition, segment.id.bytes, metadata.state, pack_segment(metadata))

    def unpacked(self) -> RemoteLogSegmentMetadata:
        return unpack_segment(self.topic_id_partition, self.segment)


class SegmentUpdate(NamedTuple):
    """A record that changes the state of a segment: the fields of RemoteLogSegmentMetadataUpdate."""

    topic_id_partition: TopicIdPartition
    segment_id: bytes
    state: RemoteLogSegmentState
    broker_id: int
    event_timestamp_ms: int
    custom_metadata: bytes | None = None
    broker_leader_epoch: int = UNKNOWN_EPOCH
    end_offset: int = UNKNOWN_OFFSET

    @classmethod
    def of(cls, update: RemoteLogSegmentMetadataUpdate) -> SegmentUpdate:
        segment = update.remote_log_segment_id
        return cls(
            segment.topic_id_partition,
            segment.id.bytes,
            update.state,
            update.broker_id,
            update.event_timestamp_ms,
            update.custom_metadata,
            update.broker_leader_epoch,
            update.end_offset,
        )

    def unpacked(self) -> RemoteLogSegmentMetadataUpdate:
        segment = RemoteLogSegmentId(self.topic_id_partition, uuid_of(self.segment_id))
        return RemoteLogSegmentMetadataUpdate(segment, self.broker_id, self.event_timestamp_ms, self.state, *self[5:])


PackedEvent: TypeAlias = SegmentEvent | SegmentUpdate
MetadataEvent: TypeAlias = PackedEvent | RemotePartitionDeleteMetadata | RemoteLogSegmentMetadataSnapshot
"""What a follower applies: RemoteLogMetadata with segments and updates packed."""


def packed_event(event: RemoteLogMetadata | MetadataEvent) -> MetadataEvent:
    """Packs a segment or an update; other and packed events stay as they are."""
    if isinstance(event, RemoteLogSegmentMetadata):
        return SegmentEvent.of(event)
    return SegmentUpdate.of(event) if isinstance(event, RemoteLogSegmentMetadataUpdate) else event


def pack_segment(metadata: RemoteLogSegmentMetadata) -> PackedSegment:
    """The inverse of :func:`unpack_segment`. Raises RemoteLogMetadataError for a number that does not fit its field."""
    try:
        return _packed(metadata)
    except struct_error:
        raise RemoteLogMetadataError(f"a number of segment {metadata.remote_log_segment_id} does not fit its field") from None


def _packed(metadata: RemoteLogSegmentMetadata) -> PackedSegment:
    custom = metadata.custom_metadata
    entries = metadata.segment_leader_epochs
    fixed = _FIXED.pack(
        metadata.event_timestamp_ms,
        metadata.broker_id,
        metadata.state,
        _NO_CUSTOM if custom is None else len(custom),
        metadata.remote_log_segment_id.id.bytes,
        metadata.start_offset,
        metadata.end_offset,
        metadata.segment_size_in_bytes,
        metadata.max_timestamp_ms,
        metadata.broker_leader_epoch,
        metadata.txn_index_empty,
        len(entries),
    )
    return PackedSegment(b"".join((fixed, *(_ENTRY.pack(one.epoch, one.start_offset) for one in entries), custom or b"")))


def pack_one_epoch(
    event_timestamp_ms: int,
    broker_id: int,
    segment_state: int,
    own_id: bytes,
    start: int,
    end: int,
    size: int,
    max_timestamp_ms: int,
    copied_in: int,
    txn_index_empty: bool,
    epoch: int,
    epoch_start: int,
    custom: bytes | None,
) -> PackedSegment:
    """A segment with one epoch entry, which most have, from the fields of its record in the order of the table."""
    packed = _ONE_EPOCH.pack(
        event_timestamp_ms,
        broker_id,
        segment_state,
        _NO_CUSTOM if custom is None else len(custom),
        own_id,
        start,
        end,
        size,
        max_timestamp_ms,
        copied_in,
        txn_index_empty,
        1,
        epoch,
        epoch_start,
    )
    return PackedSegment(packed + custom if custom else packed)


def unpack_segment(tip: TopicIdPartition, packed: PackedSegment) -> RemoteLogSegmentMetadata:
    """The metadata of a segment of partition ``tip``."""
    timestamp, broker, number, custom_size, own_id, start, end, size, max_timestamp, copied_in, txn_index_empty, _ = (
        _FIXED.unpack_from(packed)
    )
    return RemoteLogSegmentMetadata(
        RemoteLogSegmentId(tip, uuid_of(own_id)),
        start,
        end,
        max_timestamp,
        broker,
        timestamp,
        tuple(EpochEntry(*entry) for entry in epoch_entries(packed)),
        size,
        None if custom_size == _NO_CUSTOM else packed[len(packed) - custom_size :],
        _STATES[number],
        bool(txn_index_empty),
        copied_in,
    )


def with_update(packed: PackedSegment, update: SegmentUpdate) -> PackedSegment:
    """The segment after ``update``: its broker, time, state and custom metadata replace those of the segment."""
    *_, custom_size = _REPLACED.unpack_from(packed)
    stays = packed[_REPLACED.size : len(packed) - custom_size] if custom_size > 0 else packed[_REPLACED.size :]
    custom = update.custom_metadata
    if custom is None:
        return PackedSegment(_REPLACED.pack(update.event_timestamp_ms, update.broker_id, update.state, _NO_CUSTOM) + stays)
    return PackedSegment(
        _REPLACED.pack(update.event_timestamp_ms, update.broker_id, update.state, len(custom)) + stays + custom
    )


def read_packed(data: bytes, at: int) -> PackedSegment:
    """The packed segment at ``at`` of ``data``, which may be any bytes. Raises RemoteLogMetadataError for an invalid one."""
    if _FIXED.size > len(data) - at:
        raise RemoteLogMetadataError(f"a packed segment is truncated at offset {at}")
    _, _, number, custom_size, _, start, end, size, _, _, txn_index_empty, entries = _FIXED.unpack_from(data, at)
    whole = _FIXED.size + entries * _ENTRY.size + max(custom_size, 0)
    if whole > len(data) - at:
        raise RemoteLogMetadataError(f"a packed segment is truncated at offset {at}")
    packed = PackedSegment(data[at : at + whole])
    known = number < len(_STATES) and custom_size >= _NO_CUSTOM and txn_index_empty <= 1
    if not known or not 0 <= start <= end or size < 0 or not _rises(epoch_entries(packed)):
        raise RemoteLogMetadataError(f"a packed segment is invalid at offset {at}")
    return packed


def segment_id(packed: PackedSegment) -> bytes:
    """The bytes of the segment's id."""
    return packed[_ID_AT]


def end_offset(packed: PackedSegment) -> int:
    """The last offset of the segment (inclusive)."""
    return int(_END.unpack_from(packed, _END_AT)[0])


def broker_leader_epoch(packed: PackedSegment) -> int:
    """The epoch of the leader that copies the segment; UNKNOWN_EPOCH in today's records."""
    return int(_BROKER_LEADER_EPOCH.unpack_from(packed, _BROKER_LEADER_EPOCH_AT)[0])


def state(packed: PackedSegment) -> RemoteLogSegmentState:
    """The state that the segment is in."""
    return _STATES[packed[_STATE_AT]]


def epoch_entries(packed: PackedSegment) -> list[tuple[int, int]]:
    """Leader epochs and their start offsets within the segment, rising."""
    size = _COUNT.unpack_from(packed, _ENTRIES_AT)[0] * _ENTRY.size
    return list(_ENTRY.iter_unpack(packed[_FIXED.size : _FIXED.size + size]))


def uuid_of(raw: bytes) -> UUID:
    """``UUID(bytes=raw)`` without the checks of its arguments, which take most of its time."""
    made = _NEW(UUID)
    _SET(made, "int", int.from_bytes(raw, "big"))
    _SET(made, "is_safe", SafeUUID.unknown)
    return made


def _rises(entries: list[tuple[int, int]]) -> bool:
    rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
    return bool(entries) and rising
