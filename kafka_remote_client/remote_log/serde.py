"""Parses and writes the records of ``__remote_log_metadata``.

A record's value is one frame, without a length and with nothing after the body::

    uvarint frame version (1) | uvarint api key | uvarint version | body

``TIP`` = {Name string, Id uuid, Partition int32, tags}; ``SID`` = {TIP, Id uuid, tags}; ``Epoch`` = {LeaderEpoch int32,
Offset int64, tags}. Every struct, nested ones too, ends with a tagged section of its own; unknown tags are skipped.

=== =================================== ==============================================================================
key record                              fields in order
=== =================================== ==============================================================================
0   RemoteLogSegmentMetadataRecord      SID | StartOffset i64 | EndOffset i64 | BrokerId i32 | MaxTimestampMs i64 |
                                        EventTimestampMs i64 | SegmentLeaderEpochs [Epoch] | SegmentSizeInBytes i32 |
                                        CustomMetadata bytes? | RemoteLogSegmentState i8 | tags {0: TxnIndexEmpty bool}
1   RemoteLogSegmentMetadataUpdate…     SID | BrokerId i32 | EventTimestampMs i64 | CustomMetadata bytes? |
                                        RemoteLogSegmentState i8 | tags
2   RemotePartitionDeleteMetadata…      TIP | BrokerId i32 | EventTimestampMs i64 | RemotePartitionDeleteState i8 | tags
3   RemoteLogSegmentMetadataSnapshot…   SegmentId uuid | then as key 0 from StartOffset on
=== =================================== ==============================================================================

Version 1 adds only tagged fields, so both versions are read alike: KIP-1266 has BrokerLeaderEpoch int32 (tag 1 of keys 0 and 3,
tag 0 of key 1) and EndOffset int64 (tag 1 of key 1). Anything newer is refused: a field that we do not know could change the
meaning of those that we do.

Records usually have one leader epoch and short fields. ``usual_records`` reads these several times faster, and leaves all
others to this module.

References: KIP-405; KIP-1266; Kafka's RemoteLogMetadataSerde, BytesApiMessageSerde.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import pairwise
from typing import Any, TypeVar

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
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.metadata_keys import MetadataKey, check_key, read_key
from kafka_remote_client.remote_log.packed_segment import MetadataEvent, packed_event
from kafka_remote_client.remote_log.usual_records import partition_of, usual_record
from kafka_remote_client.wire import NO_TAGS, Reader, TaggedFields, Writer

__all__ = ["RemoteLogMetadataSerde"]

_FRAME_VERSION = 1
_HIGHEST_VERSION = 1
_WRITTEN_VERSION = 0
_SEGMENT, _UPDATE, _PARTITION_DELETE, _SNAPSHOT = range(4)
_TXN_INDEX_EMPTY = 0
_SEGMENT_BROKER_EPOCH = 1
_UPDATE_BROKER_EPOCH, _UPDATE_END_OFFSET = 0, 1

_S = TypeVar("_S", bound=IntEnum)


class RemoteLogMetadataSerde:
    """Kafka's RemoteLogMetadataSerde. Stateless."""

    def deserialize(self, value: bytes | None) -> RemoteLogMetadata:
        """The event of one record's value.

        Raises RemoteLogMetadataError for no value, an unknown frame, key or version, a field out of its bounds, or bytes
        that remain.
        """
        present = _present(value)
        usual = usual_record(present)
        return self._deserialize(present) if usual is None else usual.unpacked()

    def read(self, key: bytes | None, value: bytes | None) -> MetadataEvent | MetadataKey:
        """The event of one record with its key, if it has one; for a tombstone its key. Segments and updates are packed.

        Raises RemoteLogMetadataError as :meth:`deserialize` does, and for a key that fits no schema or not the value.
        """
        if value is None and key is not None:
            return read_key(key)
        present = _present(value)
        event = usual_record(present) or packed_event(self._deserialize(present))
        if key is not None:
            check_key(key, event)
        return event

    @staticmethod
    def _deserialize(value: bytes) -> RemoteLogMetadata:
        reader = Reader(value, flexible=True, what="a metadata record", error=RemoteLogMetadataError)
        frame, key, version = reader.uvarint(), reader.uvarint(), reader.uvarint()
        if frame != _FRAME_VERSION:
            raise RemoteLogMetadataError(f"a metadata record has frame version {frame}, not {_FRAME_VERSION}")
        if key not in _READERS:
            raise RemoteLogMetadataError(f"a metadata record has the unknown key {key}")
        if version > _HIGHEST_VERSION:
            raise RemoteLogMetadataError(f"a metadata record has key {key} in the unknown version {version}")
        event = _READERS[key](reader)
        reader.expect_end()
        return event

    def serialize(self, event: RemoteLogMetadata) -> bytes:
        """The value of one record, in version 0, as Kafka writes it."""
        key, write = _WRITERS[type(event)]
        writer = Writer(flexible=True)
        for number in (_FRAME_VERSION, key, _WRITTEN_VERSION):
            writer.uvarint(number)
        write(writer, event)
        return writer.getvalue()


def _present(value: bytes | None) -> bytes:
    if not value:
        raise RemoteLogMetadataError("a metadata record has no value")
    return value


def _read_tip(reader: Reader) -> TopicIdPartition:
    topic, topic_id, partition = reader.string(), reader.uuid(), reader.int32()
    reader.tagged_fields()
    return partition_of(topic, topic_id, partition)


def _read_number(tags: TaggedFields, tag: int, size: int, unknown: int) -> int:
    """A tagged integer; ``unknown`` if the tag is absent."""
    raw = tags.get(tag)
    if raw is None:
        return unknown
    if len(raw) != size:
        raise RemoteLogMetadataError(f"a metadata record has tag {tag} of {len(raw)} bytes, not {size}")
    return int.from_bytes(raw, "big", signed=True)


def _number_tags(*fields: tuple[int, int, int, int]) -> dict[int, bytes]:
    """The tags of (tag, size, unknown, value) that are known."""
    return {tag: value.to_bytes(size, "big", signed=True) for tag, size, unknown, value in fields if value != unknown}


def _read_sid(reader: Reader) -> RemoteLogSegmentId:
    tip, segment = _read_tip(reader), reader.uuid()
    reader.tagged_fields()
    return RemoteLogSegmentId(tip, segment)


def _read_state(reader: Reader, states: type[_S]) -> _S:
    number = reader.int8()
    try:
        return states(number)
    except ValueError:
        raise RemoteLogMetadataError(f"a metadata record has the unknown {states.__name__} {number}") from None


def _read_epochs(reader: Reader) -> tuple[EpochEntry, ...]:
    # Kafka puts them into a sorted map: order on the wire does not matter, the last of two equal epochs counts.
    entries = dict(reader.array(lambda: _read_epoch(reader)))
    return tuple(EpochEntry(epoch, offset) for epoch, offset in sorted(entries.items()))


def _read_epoch(reader: Reader) -> tuple[int, int]:
    epoch, offset = reader.int32(), reader.int64()
    reader.tagged_fields()
    return epoch, offset


def _read_segment_body(reader: Reader) -> dict[str, Any]:
    start, end = reader.int64(), reader.int64()
    broker_id, max_timestamp, event_timestamp = reader.int32(), reader.int64(), reader.int64()
    epochs = _read_epochs(reader)
    size = reader.int32()
    custom, state = reader.nullable_bytes(), _read_state(reader, RemoteLogSegmentState)
    tags = reader.tagged_fields()
    if not 0 <= start <= end:
        raise RemoteLogMetadataError(f"a metadata record has the offsets {start} to {end}")
    if size < 0:
        raise RemoteLogMetadataError(f"a metadata record has a segment of {size} bytes")
    if not epochs or any(a.start_offset > b.start_offset for a, b in pairwise(epochs)):
        raise RemoteLogMetadataError(f"a metadata record has the invalid leader epochs {epochs}")
    empty = tags.get(_TXN_INDEX_EMPTY, b"\0")
    if len(empty) != 1:
        raise RemoteLogMetadataError(f"a metadata record has a TxnIndexEmpty of {len(empty)} bytes")
    return {
        "start_offset": start,
        "end_offset": end,
        "broker_id": broker_id,
        "max_timestamp_ms": max_timestamp,
        "event_timestamp_ms": event_timestamp,
        "segment_leader_epochs": epochs,
        "segment_size_in_bytes": size,
        "custom_metadata": custom,
        "state": state,
        "txn_index_empty": empty != b"\0",
        "broker_leader_epoch": _read_number(tags, _SEGMENT_BROKER_EPOCH, 4, UNKNOWN_EPOCH),
    }


def _read_segment(reader: Reader) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(_read_sid(reader), **_read_segment_body(reader))


def _read_snapshot(reader: Reader) -> RemoteLogSegmentMetadataSnapshot:
    return RemoteLogSegmentMetadataSnapshot(reader.uuid(), **_read_segment_body(reader))


def _read_update(reader: Reader) -> RemoteLogSegmentMetadataUpdate:
    segment_id, broker_id, event_timestamp = _read_sid(reader), reader.int32(), reader.int64()
    custom, state = reader.nullable_bytes(), _read_state(reader, RemoteLogSegmentState)
    tags = reader.tagged_fields()
    epoch = _read_number(tags, _UPDATE_BROKER_EPOCH, 4, UNKNOWN_EPOCH)
    end = _read_number(tags, _UPDATE_END_OFFSET, 8, UNKNOWN_OFFSET)
    return RemoteLogSegmentMetadataUpdate(segment_id, broker_id, event_timestamp, state, custom, epoch, end)


def _read_partition_delete(reader: Reader) -> RemotePartitionDeleteMetadata:
    tip, broker_id, event_timestamp = _read_tip(reader), reader.int32(), reader.int64()
    state = _read_state(reader, RemotePartitionDeleteState)
    reader.tagged_fields()
    return RemotePartitionDeleteMetadata(tip, state, event_timestamp, broker_id)


def _write_tip(writer: Writer, tip: TopicIdPartition) -> None:
    writer.string(tip.topic)
    writer.uuid(tip.topic_id)
    writer.int32(tip.partition)
    writer.tagged_fields(NO_TAGS)


def _write_sid(writer: Writer, segment_id: RemoteLogSegmentId) -> None:
    _write_tip(writer, segment_id.topic_id_partition)
    writer.uuid(segment_id.id)
    writer.tagged_fields(NO_TAGS)


def _write_epoch(writer: Writer, entry: EpochEntry) -> None:
    writer.int32(entry.epoch)
    writer.int64(entry.start_offset)
    writer.tagged_fields(NO_TAGS)


def _write_segment_body(writer: Writer, body: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataSnapshot) -> None:
    writer.int64(body.start_offset)
    writer.int64(body.end_offset)
    writer.int32(body.broker_id)
    writer.int64(body.max_timestamp_ms)
    writer.int64(body.event_timestamp_ms)
    writer.array(body.segment_leader_epochs, lambda entry: _write_epoch(writer, entry))
    writer.int32(body.segment_size_in_bytes)
    writer.nullable_bytes(body.custom_metadata)
    writer.int8(body.state)
    empty = {_TXN_INDEX_EMPTY: b"\1"} if body.txn_index_empty else {}
    writer.tagged_fields(empty | _number_tags((_SEGMENT_BROKER_EPOCH, 4, UNKNOWN_EPOCH, body.broker_leader_epoch)))


def _write_segment(writer: Writer, event: RemoteLogSegmentMetadata) -> None:
    _write_sid(writer, event.remote_log_segment_id)
    _write_segment_body(writer, event)


def _write_snapshot(writer: Writer, event: RemoteLogSegmentMetadataSnapshot) -> None:
    writer.uuid(event.segment_id)
    _write_segment_body(writer, event)


def _write_update(writer: Writer, event: RemoteLogSegmentMetadataUpdate) -> None:
    _write_sid(writer, event.remote_log_segment_id)
    writer.int32(event.broker_id)
    writer.int64(event.event_timestamp_ms)
    writer.nullable_bytes(event.custom_metadata)
    writer.int8(event.state)
    epoch = _UPDATE_BROKER_EPOCH, 4, UNKNOWN_EPOCH, event.broker_leader_epoch
    writer.tagged_fields(_number_tags(epoch, (_UPDATE_END_OFFSET, 8, UNKNOWN_OFFSET, event.end_offset)))


def _write_partition_delete(writer: Writer, event: RemotePartitionDeleteMetadata) -> None:
    _write_tip(writer, event.topic_id_partition)
    writer.int32(event.broker_id)
    writer.int64(event.event_timestamp_ms)
    writer.int8(event.state)
    writer.tagged_fields(NO_TAGS)


_READERS: dict[int, Callable[[Reader], RemoteLogMetadata]] = {
    _SEGMENT: _read_segment,
    _UPDATE: _read_update,
    _PARTITION_DELETE: _read_partition_delete,
    _SNAPSHOT: _read_snapshot,
}
_WRITERS: dict[type, tuple[int, Callable[[Writer, Any], None]]] = {
    RemoteLogSegmentMetadata: (_SEGMENT, _write_segment),
    RemoteLogSegmentMetadataUpdate: (_UPDATE, _write_update),
    RemotePartitionDeleteMetadata: (_PARTITION_DELETE, _write_partition_delete),
    RemoteLogSegmentMetadataSnapshot: (_SNAPSHOT, _write_snapshot),
}
