"""A segment's metadata as bytes: what the metadata cache keeps of a segment, and what a snapshot stores.

A follower knows up to a million segments, and few of them are ever looked up. As bytes, a segment takes less memory than as
objects and is made from a record in one step, and Python's garbage collector has nothing to visit. A look-up unpacks it.

All numbers are little-endian::

    offset | size | type   | field               | note
    0      | 16   | uuid   | id                  |
    16     | 8    | int64  | start offset        |
    24     | 8    | int64  | end offset          | inclusive
    32     | 8    | int64  | size                | bytes
    40     | 8    | int64  | max timestamp       | ms since the Unix epoch, as the next field
    48     | 8    | int64  | event timestamp     |
    56     | 4    | int32  | broker id           |
    60     | 4    | int32  | broker leader epoch | -1 = unknown
    64     | 1    | uint8  | state               |
    65     | 1    | uint8  | flags               | 1 = TxnIndexEmpty, 2 = there is custom metadata
    66     | 4    | uint32 | entries             |
    70     | 4    | uint32 | custom size         |
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

_FIXED = Struct("<16sqqqqqiiBBII")
_ENTRY = Struct("<iq")
_ONE_EPOCH = Struct("<16sqqqqqiiBBIIiq")
"""The fixed fields and one epoch entry."""
_ID_SIZE = 16
_OFFSET = Struct("<q")
_END_AT = 24
_EPOCH = Struct("<i")
_BROKER_LEADER_EPOCH_AT = 60
_STATE_AT = 64
_COUNT = Struct("<I")
_ENTRIES_AT = 66
_TXN_INDEX_EMPTY = 1
_HAS_CUSTOM = 2
_STATES = tuple(RemoteLogSegmentState)
_NEW, _SET = object.__new__, object.__setattr__


class SegmentEvent(NamedTuple):
    """A record with all fields of a segment."""

    topic_id_partition: TopicIdPartition
    segment: PackedSegment

    @classmethod
    def of(cls, metadata: RemoteLogSegmentMetadata) -> SegmentEvent:
        return cls(metadata.remote_log_segment_id.topic_id_partition, pack_segment(metadata))

    def unpacked(self) -> RemoteLogSegmentMetadata:
        return unpack_segment(self.topic_id_partition, self.segment)


class SegmentUpdate(NamedTuple):
    """A record that changes the state of a segment: the fields of RemoteLogSegmentMetadataUpdate."""

    topic_id_partition: TopicIdPartition
    segment_id: bytes
    broker_id: int
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    custom_metadata: bytes | None = None
    broker_leader_epoch: int = UNKNOWN_EPOCH
    end_offset: int = UNKNOWN_OFFSET

    @classmethod
    def of(cls, update: RemoteLogSegmentMetadataUpdate) -> SegmentUpdate:
        segment = update.remote_log_segment_id
        return cls(
            segment.topic_id_partition,
            segment.id.bytes,
            update.broker_id,
            update.event_timestamp_ms,
            update.state,
            update.custom_metadata,
            update.broker_leader_epoch,
            update.end_offset,
        )

    def unpacked(self) -> RemoteLogSegmentMetadataUpdate:
        segment = RemoteLogSegmentId(self.topic_id_partition, uuid_of(self.segment_id))
        return RemoteLogSegmentMetadataUpdate(segment, *self[2:])


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
        metadata.remote_log_segment_id.id.bytes,
        metadata.start_offset,
        metadata.end_offset,
        metadata.segment_size_in_bytes,
        metadata.max_timestamp_ms,
        metadata.event_timestamp_ms,
        metadata.broker_id,
        metadata.broker_leader_epoch,
        metadata.state,
        _flags(custom, txn_index_empty=metadata.txn_index_empty),
        len(entries),
        len(custom or b""),
    )
    return PackedSegment(b"".join((fixed, *(_ENTRY.pack(one.epoch, one.start_offset) for one in entries), custom or b"")))


def pack_one_epoch(
    segment: bytes,
    start: int,
    end: int,
    size: int,
    max_timestamp_ms: int,
    event_timestamp_ms: int,
    broker_id: int,
    copied_in: int,
    segment_state: int,
    epoch: int,
    epoch_start: int,
    custom: bytes | None,
    *,
    txn_index_empty: bool,
) -> PackedSegment:
    """A segment with one epoch entry, which most have, from the fields of its record."""
    flags = _flags(custom, txn_index_empty=txn_index_empty)
    fields = segment, start, end, size, max_timestamp_ms, event_timestamp_ms, broker_id, copied_in, segment_state, flags, 1
    if not custom:
        return PackedSegment(_ONE_EPOCH.pack(*fields, 0, epoch, epoch_start))
    return PackedSegment(_ONE_EPOCH.pack(*fields, len(custom), epoch, epoch_start) + custom)


def unpack_segment(tip: TopicIdPartition, packed: PackedSegment) -> RemoteLogSegmentMetadata:
    """The metadata of a segment of partition ``tip``."""
    own_id, start, end, size, max_timestamp, timestamp, broker, copied_in, number, flags, _, custom_size = _FIXED.unpack_from(
        packed
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
        packed[len(packed) - custom_size :] if flags & _HAS_CUSTOM else None,
        _STATES[number],
        bool(flags & _TXN_INDEX_EMPTY),
        copied_in,
    )


def with_update(packed: PackedSegment, update: SegmentUpdate) -> PackedSegment:
    """The segment after ``update``: its broker, time, state and custom metadata replace those of the segment."""
    own_id, start, end, size, max_timestamp, _, _, copied_in, _, flags, entries, custom_size = _FIXED.unpack_from(packed)
    custom = update.custom_metadata
    fixed = _FIXED.pack(
        own_id,
        start,
        end,
        size,
        max_timestamp,
        update.event_timestamp_ms,
        update.broker_id,
        copied_in,
        update.state,
        _flags(custom, txn_index_empty=flags & _TXN_INDEX_EMPTY != 0),
        entries,
        len(custom) if custom else 0,
    )
    kept = fixed + packed[_FIXED.size : len(packed) - custom_size]
    return PackedSegment(kept + custom if custom else kept)


def read_packed(data: bytes, at: int) -> PackedSegment:
    """The packed segment at ``at`` of ``data``, which may be any bytes. Raises RemoteLogMetadataError for an invalid one."""
    if _FIXED.size > len(data) - at:
        raise RemoteLogMetadataError(f"a packed segment is truncated at offset {at}")
    _, start, end, size, _, _, _, _, number, _, entries, custom_size = _FIXED.unpack_from(data, at)
    whole = _FIXED.size + entries * _ENTRY.size + custom_size
    if whole > len(data) - at:
        raise RemoteLogMetadataError(f"a packed segment is truncated at offset {at}")
    packed = PackedSegment(data[at : at + whole])
    if number >= len(_STATES) or not 0 <= start <= end or size < 0 or not _rises(epoch_entries(packed)):
        raise RemoteLogMetadataError(f"a packed segment is invalid at offset {at}")
    return packed


def segment_id(packed: PackedSegment) -> bytes:
    """The bytes of the segment's id."""
    return packed[:_ID_SIZE]


def end_offset(packed: PackedSegment) -> int:
    """The last offset of the segment (inclusive)."""
    return int(_OFFSET.unpack_from(packed, _END_AT)[0])


def broker_leader_epoch(packed: PackedSegment) -> int:
    """The epoch of the leader that copies the segment; UNKNOWN_EPOCH in today's records."""
    return int(_EPOCH.unpack_from(packed, _BROKER_LEADER_EPOCH_AT)[0])


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


def _flags(custom: bytes | None, *, txn_index_empty: bool) -> int:
    return (_TXN_INDEX_EMPTY if txn_index_empty else 0) | (0 if custom is None else _HAS_CUSTOM)


def _rises(entries: list[tuple[int, int]]) -> bool:
    rising = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
    return bool(entries) and rising
