"""Fetch, versions 4-18: records of partitions, and the carrier of the direct-fetch dialect.

::

    request   v4-14 ReplicaId i32 | MaxWaitMs i32 | MinBytes i32 | MaxBytes i32 | IsolationLevel i8
              | v7+ SessionId i32 | v7+ SessionEpoch i32 | Topics [...] | v7+ ForgottenTopicsData [...] | v11+ RackId STRING
              | TAGS
      Topics  v4-12 Topic STRING, v13+ TopicId UUID | Partitions [Partition i32 | v9+ CurrentLeaderEpoch i32 | FetchOffset i64
              | v12+ LastFetchedEpoch i32 | v5+ LogStartOffset i64 | PartitionMaxBytes i32 | TAGS] | TAGS
      Forgotten  v7-12 Topic STRING, v13+ TopicId UUID | Partitions [i32] | TAGS

    response  ThrottleTimeMs i32 | v7+ ErrorCode i16 | v7+ SessionId i32 | Responses [...] | TAGS
      Responses  v4-12 Topic STRING, v13+ TopicId UUID | Partitions [PartitionIndex i32 | ErrorCode i16 | HighWatermark i64
              | LastStableOffset i64 | v5+ LogStartOffset i64 | AbortedTransactions? [ProducerId i64 | FirstOffset i64 | TAGS]
              | v11+ PreferredReadReplica i32 | Records? RECORDS | TAGS] | TAGS

Versions from 12 on are flexible. All tagged fields are kept raw and written back, known ones (ReplicaState, NodeEndpoints,
DivergingEpoch, ...) included; only those inside an aborted transaction, where none is defined, are dropped.

References: Kafka's FetchRequest.json and FetchResponse.json, KIP-227, KIP-320, KIP-392, KIP-516, KIP-595, KIP-951.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, AbortedTransaction, IsolationLevel
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.wire import NO_TAGS, ZERO_UUID, Buffer, Reader, TaggedFields, Writer, tag_numbers

__all__ = [
    "DIVERGING_EPOCH_TAG",
    "FIRST_VERSION_WITH_TOPIC_IDS",
    "NO_SESSION_EPOCH",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "FetchTopicResponse",
    "ForgottenTopic",
    "PartitionData",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

FIRST_VERSION_WITH_TOPIC_IDS = 13
NO_SESSION_EPOCH = -1
DIVERGING_EPOCH_TAG = 0
"""In PartitionData: the position that was asked for is not on this leader's lineage (KIP-595)."""

_CONSUMER = -1
_NO_REPLICA = -1


def _size(records: Buffer | None) -> str:
    return "None" if records is None else f"<{len(records)} bytes>"


@attrs.frozen
class FetchPartition:
    """Where to read one partition from, and how much of it. ``log_start_offset`` is a follower's own; -1 for a consumer."""

    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = UNKNOWN_EPOCH
    last_fetched_epoch: int = UNKNOWN_EPOCH
    log_start_offset: int = UNKNOWN_OFFSET
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class FetchTopic:
    """Partitions of one topic, named by ``topic`` up to version 12 and by ``topic_id`` from 13 on."""

    partitions: tuple[FetchPartition, ...]
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class ForgottenTopic:
    """Partitions to drop from the fetch session."""

    partitions: tuple[int, ...]
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class FetchRequest:
    """Session 0 with epoch -1 (the defaults) is a fetch without a session. ``replica_id`` is written below version 15."""

    topics: tuple[FetchTopic, ...]
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    isolation_level: int = IsolationLevel.READ_UNCOMMITTED
    session_id: int = 0
    session_epoch: int = NO_SESSION_EPOCH
    forgotten_topics: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    replica_id: int = _CONSUMER
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class PartitionData:
    """The answer for one partition. ``records`` decoded from a frame is a view of that frame; equality is by content."""

    partition_index: int
    error_code: int = 0
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = _NO_REPLICA
    records: Buffer | None = attrs.field(default=None, repr=_size)
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class FetchTopicResponse:
    """Partitions of one topic, named by ``topic`` up to version 12 and by ``topic_id`` from 13 on."""

    partitions: tuple[PartitionData, ...]
    topic: str = ""
    topic_id: UUID = ZERO_UUID
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class FetchResponse:
    """``error_code`` speaks of the whole request (sessions, topic ids), each partition of itself."""

    responses: tuple[FetchTopicResponse, ...]
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


def encode_request(request: FetchRequest, version: int) -> bytes:
    """The body of the request. Raises ProtocolError for a version outside 4-18, or tagged fields below 12."""
    writer = FETCH.writer(version)
    if version < 15:
        writer.int32(request.replica_id)
    writer.int32(request.max_wait_ms)
    writer.int32(request.min_bytes)
    writer.int32(request.max_bytes)
    writer.int8(request.isolation_level)
    if version >= 7:
        writer.int32(request.session_id)
        writer.int32(request.session_epoch)
    writer.array(request.topics, partial(_write_topic, writer, version))
    if version >= 7:
        writer.array(request.forgotten_topics, partial(_write_forgotten, writer, version))
    if version >= 11:
        writer.string(request.rack_id)
    writer.tagged_fields(request.tags)
    return writer.getvalue()


def decode_request(data: Buffer, version: int) -> FetchRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    reader = FETCH.reader(data, version)
    request = FetchRequest(
        replica_id=reader.int32() if version < 15 else _CONSUMER,
        max_wait_ms=reader.int32(),
        min_bytes=reader.int32(),
        max_bytes=reader.int32(),
        isolation_level=reader.int8(),
        session_id=reader.int32() if version >= 7 else 0,
        session_epoch=reader.int32() if version >= 7 else NO_SESSION_EPOCH,
        topics=reader.array(partial(_read_topic, reader, version)),
        forgotten_topics=reader.array(partial(_read_forgotten, reader, version)) if version >= 7 else (),
        rack_id=reader.string() if version >= 11 else "",
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return request


def encode_response(response: FetchResponse, version: int) -> bytes:
    """The body of the response. Raises ProtocolError for a version outside 4-18, or tagged fields below 12."""
    writer = FETCH.writer(version)
    writer.int32(response.throttle_time_ms)
    if version >= 7:
        writer.int16(response.error_code)
        writer.int32(response.session_id)
    writer.array(response.responses, partial(_write_topic_response, writer, version))
    writer.tagged_fields(response.tags)
    return writer.getvalue()


def decode_response(data: Buffer, version: int) -> FetchResponse:
    """The inverse of :func:`encode_response`. Raises ProtocolError."""
    reader = FETCH.reader(data, version)
    response = FetchResponse(
        throttle_time_ms=reader.int32(),
        error_code=reader.int16() if version >= 7 else 0,
        session_id=reader.int32() if version >= 7 else 0,
        responses=reader.array(partial(_read_topic_response, reader, version)),
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return response


def _write_name(writer: Writer, version: int, topic: str, topic_id: UUID) -> None:
    if version >= FIRST_VERSION_WITH_TOPIC_IDS:
        writer.uuid(topic_id)
    else:
        writer.string(topic)


def _read_name(reader: Reader, version: int) -> tuple[str, UUID]:
    return ("", reader.uuid()) if version >= FIRST_VERSION_WITH_TOPIC_IDS else (reader.string(), ZERO_UUID)


def _write_topic(writer: Writer, version: int, topic: FetchTopic) -> None:
    _write_name(writer, version, topic.topic, topic.topic_id)
    writer.array(topic.partitions, partial(_write_partition, writer, version))
    writer.tagged_fields(topic.tags)


def _read_topic(reader: Reader, version: int) -> FetchTopic:
    topic, topic_id = _read_name(reader, version)
    return FetchTopic(reader.array(partial(_read_partition, reader, version)), topic, topic_id, reader.tagged_fields())


def _write_partition(writer: Writer, version: int, partition: FetchPartition) -> None:
    writer.int32(partition.partition)
    if version >= 9:
        writer.int32(partition.current_leader_epoch)
    writer.int64(partition.fetch_offset)
    if version >= 12:
        writer.int32(partition.last_fetched_epoch)
    if version >= 5:
        writer.int64(partition.log_start_offset)
    writer.int32(partition.partition_max_bytes)
    writer.tagged_fields(partition.tags)


def _read_partition(reader: Reader, version: int) -> FetchPartition:
    return FetchPartition(
        partition=reader.int32(),
        current_leader_epoch=reader.int32() if version >= 9 else UNKNOWN_EPOCH,
        fetch_offset=reader.int64(),
        last_fetched_epoch=reader.int32() if version >= 12 else UNKNOWN_EPOCH,
        log_start_offset=reader.int64() if version >= 5 else UNKNOWN_OFFSET,
        partition_max_bytes=reader.int32(),
        tags=reader.tagged_fields(),
    )


def _write_forgotten(writer: Writer, version: int, forgotten: ForgottenTopic) -> None:
    _write_name(writer, version, forgotten.topic, forgotten.topic_id)
    writer.array(forgotten.partitions, writer.int32)
    writer.tagged_fields(forgotten.tags)


def _read_forgotten(reader: Reader, version: int) -> ForgottenTopic:
    topic, topic_id = _read_name(reader, version)
    return ForgottenTopic(reader.array(reader.int32), topic, topic_id, reader.tagged_fields())


def _write_topic_response(writer: Writer, version: int, topic: FetchTopicResponse) -> None:
    _write_name(writer, version, topic.topic, topic.topic_id)
    writer.array(topic.partitions, partial(_write_partition_data, writer, version))
    writer.tagged_fields(topic.tags)


def _read_topic_response(reader: Reader, version: int) -> FetchTopicResponse:
    topic, topic_id = _read_name(reader, version)
    partitions = reader.array(partial(_read_partition_data, reader, version))
    return FetchTopicResponse(partitions, topic, topic_id, reader.tagged_fields())


def _write_partition_data(writer: Writer, version: int, data: PartitionData) -> None:
    writer.int32(data.partition_index)
    writer.int16(data.error_code)
    writer.int64(data.high_watermark)
    writer.int64(data.last_stable_offset)
    if version >= 5:
        writer.int64(data.log_start_offset)
    writer.nullable_array(data.aborted_transactions, partial(_write_aborted, writer))
    if version >= 11:
        writer.int32(data.preferred_read_replica)
    writer.nullable_bytes(data.records)
    writer.tagged_fields(data.tags)


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    return PartitionData(
        partition_index=reader.int32(),
        error_code=reader.int16(),
        high_watermark=reader.int64(),
        last_stable_offset=reader.int64(),
        log_start_offset=reader.int64() if version >= 5 else UNKNOWN_OFFSET,
        aborted_transactions=reader.nullable_array(partial(_read_aborted, reader)),
        preferred_read_replica=reader.int32() if version >= 11 else _NO_REPLICA,
        records=reader.nullable_view(),
        tags=reader.tagged_fields(),
    )


def _write_aborted(writer: Writer, aborted: AbortedTransaction) -> None:
    writer.int64(aborted.producer_id)
    writer.int64(aborted.first_offset)
    writer.tagged_fields(NO_TAGS)


def _read_aborted(reader: Reader) -> AbortedTransaction:
    aborted = AbortedTransaction(reader.int64(), reader.int64())
    reader.tagged_fields()
    return aborted
