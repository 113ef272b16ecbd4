"""ListOffsets, versions 1-11: offsets by timestamp, and the special timestamps that name the ends of both tiers.

::

    request   ReplicaId i32 | v2+ IsolationLevel i8 | Topics [Name STRING | Partitions [PartitionIndex i32
              | v4+ CurrentLeaderEpoch i32 | Timestamp i64 | TAGS] | TAGS] | v10+ TimeoutMs i32 | TAGS
    response  v2+ ThrottleTimeMs i32 | Topics [Name STRING | Partitions [PartitionIndex i32 | ErrorCode i16 | Timestamp i64
              | Offset i64 | v4+ LeaderEpoch i32 | TAGS] | TAGS] | TAGS

Versions from 6 on are flexible.

References: Kafka's ListOffsetsRequest.json and ListOffsetsResponse.json, KIP-405, KIP-734, KIP-1005, KIP-1023, KIP-1075.
"""

from __future__ import annotations

from enum import IntEnum
from functools import partial

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, IsolationLevel
from kafka_remote_client.protocol.api_keys import LIST_OFFSETS
from kafka_remote_client.wire import Buffer, Reader, TaggedFields, Writer, tag_numbers

__all__ = [
    "FIRST_VERSION",
    "ListOffsetsPartition",
    "ListOffsetsPartitionResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListOffsetsTopic",
    "ListOffsetsTopicResponse",
    "OffsetSpec",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

_CONSUMER = -1
_DEFAULT_TIMEOUT_MS = 30_000
_UNKNOWN_TIMESTAMP = -1


class OffsetSpec(IntEnum):
    """Special timestamps. A broker that does not know one answers UNSUPPORTED_VERSION for that partition."""

    LATEST = -1
    """High watermark, or last stable offset under read_committed."""
    EARLIEST = -2
    """Log start, the remote tier included."""
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    """First offset of the local tier; equal to EARLIEST where nothing is tiered."""
    LATEST_TIERED = -5
    """Highest offset in the remote tier, inclusive; -1 where nothing is tiered."""
    EARLIEST_PENDING_UPLOAD = -6


FIRST_VERSION = {
    OffsetSpec.LATEST: 1,
    OffsetSpec.EARLIEST: 1,
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""The version that introduced each special timestamp."""


@attrs.frozen
class ListOffsetsPartition:
    """One question: milliseconds since the epoch, or an :class:`OffsetSpec`. A partition may appear once in a request."""

    partition_index: int
    timestamp: int
    current_leader_epoch: int = UNKNOWN_EPOCH
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ListOffsetsTopic:
    """Questions about one topic."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ListOffsetsRequest:
    """``timeout_ms`` bounds the broker's look-ups in the remote tier (version 10 on)."""

    topics: tuple[ListOffsetsTopic, ...]
    isolation_level: int = IsolationLevel.READ_UNCOMMITTED
    timeout_ms: int = _DEFAULT_TIMEOUT_MS
    replica_id: int = _CONSUMER
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ListOffsetsPartitionResponse:
    """One answer; offset and timestamp are -1 where nothing matches."""

    partition_index: int
    error_code: int = 0
    timestamp: int = _UNKNOWN_TIMESTAMP
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = UNKNOWN_EPOCH
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ListOffsetsTopicResponse:
    """Answers about one topic."""

    name: str
    partitions: tuple[ListOffsetsPartitionResponse, ...]
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ListOffsetsResponse:
    """The answers in the order of the broker's choice."""

    topics: tuple[ListOffsetsTopicResponse, ...]
    throttle_time_ms: int = 0
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


def encode_request(request: ListOffsetsRequest, version: int) -> bytes:
    """The body of the request. Raises ProtocolError for a version outside 1-11, or tagged fields below 6."""
    writer = LIST_OFFSETS.writer(version)
    writer.int32(request.replica_id)
    if version >= 2:
        writer.int8(request.isolation_level)
    writer.array(request.topics, partial(_write_topic, writer, version))
    if version >= 10:
        writer.int32(request.timeout_ms)
    writer.tagged_fields(request.tags)
    return writer.getvalue()


def decode_request(data: Buffer, version: int) -> ListOffsetsRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    reader = LIST_OFFSETS.reader(data, version)
    request = ListOffsetsRequest(
        replica_id=reader.int32(),
        isolation_level=reader.int8() if version >= 2 else IsolationLevel.READ_UNCOMMITTED,
        topics=reader.array(partial(_read_topic, reader, version)),
        timeout_ms=reader.int32() if version >= 10 else _DEFAULT_TIMEOUT_MS,
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return request


def encode_response(response: ListOffsetsResponse, version: int) -> bytes:
    """The body of the response. Raises ProtocolError for a version outside 1-11, or tagged fields below 6."""
    writer = LIST_OFFSETS.writer(version)
    if version >= 2:
        writer.int32(response.throttle_time_ms)
    writer.array(response.topics, partial(_write_topic_response, writer, version))
    writer.tagged_fields(response.tags)
    return writer.getvalue()


def decode_response(data: Buffer, version: int) -> ListOffsetsResponse:
    """The inverse of :func:`encode_response`. Raises ProtocolError."""
    reader = LIST_OFFSETS.reader(data, version)
    response = ListOffsetsResponse(
        throttle_time_ms=reader.int32() if version >= 2 else 0,
        topics=reader.array(partial(_read_topic_response, reader, version)),
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return response


def _write_topic(writer: Writer, version: int, topic: ListOffsetsTopic) -> None:
    writer.string(topic.name)
    writer.array(topic.partitions, partial(_write_partition, writer, version))
    writer.tagged_fields(topic.tags)


def _read_topic(reader: Reader, version: int) -> ListOffsetsTopic:
    return ListOffsetsTopic(reader.string(), reader.array(partial(_read_partition, reader, version)), reader.tagged_fields())


def _write_partition(writer: Writer, version: int, partition: ListOffsetsPartition) -> None:
    writer.int32(partition.partition_index)
    if version >= 4:
        writer.int32(partition.current_leader_epoch)
    writer.int64(partition.timestamp)
    writer.tagged_fields(partition.tags)


def _read_partition(reader: Reader, version: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(
        partition_index=reader.int32(),
        current_leader_epoch=reader.int32() if version >= 4 else UNKNOWN_EPOCH,
        timestamp=reader.int64(),
        tags=reader.tagged_fields(),
    )


def _write_topic_response(writer: Writer, version: int, topic: ListOffsetsTopicResponse) -> None:
    writer.string(topic.name)
    writer.array(topic.partitions, partial(_write_partition_response, writer, version))
    writer.tagged_fields(topic.tags)


def _read_topic_response(reader: Reader, version: int) -> ListOffsetsTopicResponse:
    partitions = partial(_read_partition_response, reader, version)
    return ListOffsetsTopicResponse(reader.string(), reader.array(partitions), reader.tagged_fields())


def _write_partition_response(writer: Writer, version: int, partition: ListOffsetsPartitionResponse) -> None:
    writer.int32(partition.partition_index)
    writer.int16(partition.error_code)
    writer.int64(partition.timestamp)
    writer.int64(partition.offset)
    if version >= 4:
        writer.int32(partition.leader_epoch)
    writer.tagged_fields(partition.tags)


def _read_partition_response(reader: Reader, version: int) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=reader.int32(),
        error_code=reader.int16(),
        timestamp=reader.int64(),
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 4 else UNKNOWN_EPOCH,
        tags=reader.tagged_fields(),
    )
