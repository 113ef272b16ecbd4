"""Metadata, versions 1-13: the brokers, and the leader of each partition.

::

    request   Topics? [v10+ TopicId UUID | Name STRING, nullable v10+ | TAGS] | v4+ AllowAutoTopicCreation BOOLEAN
              | v8-10 IncludeClusterAuthorizedOperations BOOLEAN | v8+ IncludeTopicAuthorizedOperations BOOLEAN | TAGS
    response  v3+ ThrottleTimeMs i32 | Brokers [NodeId i32 | Host STRING | Port i32 | Rack? STRING | TAGS]
              | v2+ ClusterId? STRING | ControllerId i32 | Topics [...]
              | v8-10 ClusterAuthorizedOperations i32 | v13+ ErrorCode i16 | TAGS
      Topics  ErrorCode i16 | Name STRING, nullable v12+ | v10+ TopicId UUID | IsInternal BOOLEAN | Partitions [ErrorCode i16
              | PartitionIndex i32 | LeaderId i32 | v7+ LeaderEpoch i32 | ReplicaNodes [i32] | IsrNodes [i32]
              | v5+ OfflineReplicas [i32] | TAGS] | v8+ TopicAuthorizedOperations i32 | TAGS

Versions from 9 on are flexible. A null ``topics`` of a request asks for all of them. Asking by topic id needs version 12:
the field is there from 10 on, but brokers do not serve it.

References: Kafka's MetadataRequest.json and MetadataResponse.json, KIP-430, KIP-516, KIP-1102.
"""

from __future__ import annotations

from functools import partial
from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH
from kafka_remote_client.protocol.api_keys import METADATA
from kafka_remote_client.wire import ZERO_UUID, Buffer, Reader, TaggedFields, Writer, tag_numbers

__all__ = [
    "NO_LEADER",
    "OPERATIONS_NOT_ASKED",
    "MetadataBroker",
    "MetadataPartition",
    "MetadataRequest",
    "MetadataRequestTopic",
    "MetadataResponse",
    "MetadataTopic",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

NO_LEADER = -1
OPERATIONS_NOT_ASKED = -(1 << 31)
"""Authorized operations of an answer to a request that did not ask for them; else bit N is AclOperation N."""


@attrs.frozen
class MetadataRequestTopic:
    """One topic to ask about: by ``name``, or by ``topic_id`` with no name (version 12 on)."""

    name: str | None = None
    topic_id: UUID = ZERO_UUID
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class MetadataRequest:
    """``topics`` ``None`` asks for all. Below version 4 the broker creates unknown topics if it is configured to."""

    topics: tuple[MetadataRequestTopic, ...] | None = None
    allow_auto_topic_creation: bool = False
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class MetadataBroker:
    """A broker's advertised address."""

    node_id: int
    host: str
    port: int
    rack: str | None = None
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class MetadataPartition:
    """A partition's replicas; ``leader_id`` is NO_LEADER while there is none."""

    partition_index: int
    leader_id: int
    error_code: int = 0
    leader_epoch: int = UNKNOWN_EPOCH
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class MetadataTopic:
    """A topic; ``topic_id`` is all zeros where the version or the broker has none."""

    name: str | None
    partitions: tuple[MetadataPartition, ...] = ()
    error_code: int = 0
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    topic_authorized_operations: int = OPERATIONS_NOT_ASKED
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class MetadataResponse:
    """The cluster as the answering broker sees it."""

    brokers: tuple[MetadataBroker, ...]
    topics: tuple[MetadataTopic, ...]
    cluster_id: str | None = None
    controller_id: int = -1
    throttle_time_ms: int = 0
    cluster_authorized_operations: int = OPERATIONS_NOT_ASKED
    error_code: int = 0
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


def encode_request(request: MetadataRequest, version: int) -> bytes:
    """The body of the request. Raises ProtocolError for a version outside 1-13, or tagged fields below 9."""
    writer = METADATA.writer(version)
    writer.nullable_array(request.topics, partial(_write_request_topic, writer, version))
    if version >= 4:
        writer.boolean(request.allow_auto_topic_creation)
    if 8 <= version <= 10:
        writer.boolean(request.include_cluster_authorized_operations)
    if version >= 8:
        writer.boolean(request.include_topic_authorized_operations)
    writer.tagged_fields(request.tags)
    return writer.getvalue()


def decode_request(data: Buffer, version: int) -> MetadataRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    reader = METADATA.reader(data, version)
    request = MetadataRequest(
        topics=reader.nullable_array(partial(_read_request_topic, reader, version)),
        # Before the field existed, brokers always behaved as if it were set.
        allow_auto_topic_creation=reader.boolean() if version >= 4 else True,
        include_cluster_authorized_operations=reader.boolean() if 8 <= version <= 10 else False,
        include_topic_authorized_operations=reader.boolean() if version >= 8 else False,
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return request


def encode_response(response: MetadataResponse, version: int) -> bytes:
    """The body of the response. Raises ProtocolError for a version outside 1-13, or tagged fields below 9."""
    writer = METADATA.writer(version)
    if version >= 3:
        writer.int32(response.throttle_time_ms)
    writer.array(response.brokers, partial(_write_broker, writer))
    if version >= 2:
        writer.nullable_string(response.cluster_id)
    writer.int32(response.controller_id)
    writer.array(response.topics, partial(_write_topic, writer, version))
    if 8 <= version <= 10:
        writer.int32(response.cluster_authorized_operations)
    if version >= 13:
        writer.int16(response.error_code)
    writer.tagged_fields(response.tags)
    return writer.getvalue()


def decode_response(data: Buffer, version: int) -> MetadataResponse:
    """The inverse of :func:`encode_response`, but for bytes after the message. Raises ProtocolError.

    Those are ignored, as Kafka's own clients do: librdkafka's mock cluster writes one too many from version 9 on.
    """
    reader = METADATA.reader(data, version)
    return MetadataResponse(
        throttle_time_ms=reader.int32() if version >= 3 else 0,
        brokers=reader.array(partial(_read_broker, reader)),
        cluster_id=reader.nullable_string() if version >= 2 else None,
        controller_id=reader.int32(),
        topics=reader.array(partial(_read_topic, reader, version)),
        cluster_authorized_operations=reader.int32() if 8 <= version <= 10 else OPERATIONS_NOT_ASKED,
        error_code=reader.int16() if version >= 13 else 0,
        tags=reader.tagged_fields(),
    )


def _write_request_topic(writer: Writer, version: int, topic: MetadataRequestTopic) -> None:
    if version >= 10:
        writer.uuid(topic.topic_id)
        writer.nullable_string(topic.name)
    else:
        writer.string(topic.name or "")
    writer.tagged_fields(topic.tags)


def _read_request_topic(reader: Reader, version: int) -> MetadataRequestTopic:
    topic_id = reader.uuid() if version >= 10 else ZERO_UUID
    name = reader.nullable_string() if version >= 10 else reader.string()
    return MetadataRequestTopic(name, topic_id, reader.tagged_fields())


def _write_broker(writer: Writer, broker: MetadataBroker) -> None:
    writer.int32(broker.node_id)
    writer.string(broker.host)
    writer.int32(broker.port)
    writer.nullable_string(broker.rack)
    writer.tagged_fields(broker.tags)


def _read_broker(reader: Reader) -> MetadataBroker:
    return MetadataBroker(reader.int32(), reader.string(), reader.int32(), reader.nullable_string(), reader.tagged_fields())


def _write_topic(writer: Writer, version: int, topic: MetadataTopic) -> None:
    writer.int16(topic.error_code)
    writer.nullable_string(topic.name if version >= 12 else topic.name or "")
    if version >= 10:
        writer.uuid(topic.topic_id)
    writer.boolean(topic.is_internal)
    writer.array(topic.partitions, partial(_write_partition, writer, version))
    if version >= 8:
        writer.int32(topic.topic_authorized_operations)
    writer.tagged_fields(topic.tags)


def _read_topic(reader: Reader, version: int) -> MetadataTopic:
    return MetadataTopic(
        error_code=reader.int16(),
        name=reader.nullable_string() if version >= 12 else reader.string(),
        topic_id=reader.uuid() if version >= 10 else ZERO_UUID,
        is_internal=reader.boolean(),
        partitions=reader.array(partial(_read_partition, reader, version)),
        topic_authorized_operations=reader.int32() if version >= 8 else OPERATIONS_NOT_ASKED,
        tags=reader.tagged_fields(),
    )


def _write_partition(writer: Writer, version: int, partition: MetadataPartition) -> None:
    writer.int16(partition.error_code)
    writer.int32(partition.partition_index)
    writer.int32(partition.leader_id)
    if version >= 7:
        writer.int32(partition.leader_epoch)
    writer.array(partition.replica_nodes, writer.int32)
    writer.array(partition.isr_nodes, writer.int32)
    if version >= 5:
        writer.array(partition.offline_replicas, writer.int32)
    writer.tagged_fields(partition.tags)


def _read_partition(reader: Reader, version: int) -> MetadataPartition:
    return MetadataPartition(
        error_code=reader.int16(),
        partition_index=reader.int32(),
        leader_id=reader.int32(),
        leader_epoch=reader.int32() if version >= 7 else UNKNOWN_EPOCH,
        replica_nodes=reader.array(reader.int32),
        isr_nodes=reader.array(reader.int32),
        offline_replicas=reader.array(reader.int32) if version >= 5 else (),
        tags=reader.tagged_fields(),
    )
