"""A fast path of ``serde`` for most records of ``__remote_log_metadata``: several times faster than field by field.

It decodes records of a segment or an update whose topic name and custom metadata have at most 126 bytes, and whose segment has
one leader epoch. The length of the name then determines the positions of all fields. ``serde`` decodes all other records and
raises the error for invalid ones. A test compares both for any bytes.

::

    01 | api key 0, 1 | version 0, 1 | name's length + 1 | name | topic id 16 | partition 4 | 00 | segment id 16 | 00 | body

A shim reads up to a million of these when it starts, so no objects are made that only a look-up needs (``packed_segment``).

References: ``serde``.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from uuid import UUID

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.remote_log.packed_segment import PackedEvent, SegmentEvent, SegmentUpdate, pack_one_epoch

__all__ = ["partition_of", "usual_record"]

_CACHED_PARTITIONS = 1 << 16
_LONGEST = 127
_STATES = tuple(RemoteLogSegmentState)
_STATE_COUNT = len(_STATES)
_ONE_EPOCH = 2
_NULL = 1
_BODY_AT = 21 + 17
"""Bytes between the name and the body: topic id, partition, tags; segment id, tags."""
_SEGMENT = struct.Struct(">16sBqqiqqBiqBiB")
"""Segment id, tags, StartOffset, EndOffset, BrokerId, MaxTimestampMs, EventTimestampMs, epochs (one), its two fields and tags,
SegmentSizeInBytes, length of CustomMetadata + 1."""
_UPDATE = struct.Struct(">16sBiqB")
"""Segment id, tags, BrokerId, EventTimestampMs, length of CustomMetadata + 1."""
_NO_TAGS, _ONE_TAG, _ONLY_EMPTY, _EMPTY_BEFORE = b"\0", b"\1", b"\1\0\1\1", b"\2\0\1\1"
"""Tagged fields: none; the count 1; TxnIndexEmpty (tag 0) alone; the count 2 and TxnIndexEmpty."""
_BROKER_EPOCH = struct.Struct(">BBi")
"""Tag, size, BrokerLeaderEpoch."""
_BROKER_EPOCH_AND_END = struct.Struct(">BBBiBBq")
"""Two tags: 0, size, BrokerLeaderEpoch; 1, size, EndOffset."""
_PARTITION = struct.Struct(">16siB")


@lru_cache(_CACHED_PARTITIONS)
def partition_of(topic: str, topic_id: UUID, partition: int) -> TopicIdPartition:
    """A cached TopicIdPartition, so that all segments of a partition share one object."""
    return TopicIdPartition(topic_id, topic, partition)


def usual_record(value: bytes) -> PackedEvent | None:
    """Decodes a record; None for a record that the fast path does not cover, valid or not."""
    if len(value) < _BODY_AT or value[0] != 1 or value[1] > 1 or value[2] > 1 or not 1 < value[3] <= _LONGEST:
        return None
    at = 3 + value[3]
    tip = _partition(value[4 : at + 21])
    if tip is None:
        return None
    try:
        return (_update if value[1] else _segment)(value, at + 21, tip)
    except (struct.error, IndexError):
        return None


@lru_cache(_CACHED_PARTITIONS)
def _partition(raw: bytes) -> TopicIdPartition | None:
    """``raw``: name, topic id, partition, tags."""
    name = raw[: -_PARTITION.size]
    try:
        topic_id, partition, tags = _PARTITION.unpack_from(raw, len(name))
        return None if tags else partition_of(name.decode(), UUID(bytes=topic_id), partition)
    except (struct.error, UnicodeDecodeError):
        return None


def _segment(value: bytes, at: int, tip: TopicIdPartition) -> SegmentEvent | None:
    fields = _SEGMENT.unpack_from(value, at)
    segment_id, tags, start, end, broker, max_timestamp, timestamp, count, epoch, epoch_start, epoch_tags, size, custom_size = (
        fields
    )
    if tags or epoch_tags or count != _ONE_EPOCH or not 0 <= start <= end or size < 0 or custom_size > _LONGEST:
        return None
    custom, at = _custom(value, at + _SEGMENT.size, custom_size)
    number = value[at]
    if number >= _STATE_COUNT:
        return None
    broker_epoch, txn_index_empty = UNKNOWN_EPOCH, False
    section = value[at + 1 :]
    if section != _NO_TAGS:
        txn_index_empty = section == _ONLY_EMPTY
        if not txn_index_empty:
            *head, broker_epoch = _BROKER_EPOCH.unpack(section[-_BROKER_EPOCH.size :])
            before = section[: -_BROKER_EPOCH.size]
            txn_index_empty = before == _EMPTY_BEFORE
            if head != [1, 4] or (before != _ONE_TAG and not txn_index_empty):
                return None
    segment = pack_one_epoch(
        timestamp,
        broker,
        number,
        segment_id,
        start,
        end,
        size,
        max_timestamp,
        broker_epoch,
        txn_index_empty,
        epoch,
        epoch_start,
        custom,
    )
    return SegmentEvent(tip, segment_id, _STATES[number], segment)


def _update(value: bytes, at: int, tip: TopicIdPartition) -> SegmentUpdate | None:
    segment_id, tags, broker, timestamp, custom_size = _UPDATE.unpack_from(value, at)
    if tags or custom_size > _LONGEST:
        return None
    custom, at = _custom(value, at + _UPDATE.size, custom_size)
    state = value[at]
    if state >= _STATE_COUNT:
        return None
    broker_epoch, end = UNKNOWN_EPOCH, UNKNOWN_OFFSET
    if value[at + 1]:
        number, first, first_size, broker_epoch, second, second_size, end = _BROKER_EPOCH_AND_END.unpack_from(value, at + 1)
        if (number, first, first_size, second, second_size) != (2, 0, 4, 1, 8):
            return None
        at += _BROKER_EPOCH_AND_END.size - 1
    if len(value) != at + 2:
        return None
    return SegmentUpdate(tip, segment_id, _STATES[state], broker, timestamp, custom, broker_epoch, end)


def _custom(value: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    """CustomMetadata of length ``size`` - 1 (0: null), and the position after it."""
    return (value[at : at + size - _NULL], at + size - _NULL) if size else (None, at)
