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

from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH
from kafka_remote_client.protocol.api_keys import METADATA
from kafka_remote_client.protocol.message_layout import MessageLayout
from kafka_remote_client.wire import ZERO_UUID, Buffer, TaggedFields, tag_numbers

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


_REQUEST = MessageLayout(
    METADATA,
    MetadataRequest,
    "topics? [10+ topic_id uuid | 0-9 name string | 10+ name string?] | 4+ allow_auto_topic_creation bool"
    " | 8-10 include_cluster_authorized_operations bool | 8+ include_topic_authorized_operations bool",
    topics=MetadataRequestTopic,
)
_RESPONSE = MessageLayout(
    METADATA,
    MetadataResponse,
    "3+ throttle_time_ms int32 | brokers [node_id int32 | host string | port int32 | rack string?] | 2+ cluster_id string?"
    " | controller_id int32 | topics [error_code int16 | 0-11 name string | 12+ name string? | 10+ topic_id uuid"
    " | is_internal bool | partitions [error_code int16 | partition_index int32 | leader_id int32 | 7+ leader_epoch int32"
    " | replica_nodes [int32] | isr_nodes [int32] | 5+ offline_replicas [int32]] | 8+ topic_authorized_operations int32]"
    " | 8-10 cluster_authorized_operations int32 | 13+ error_code int16",
    brokers=MetadataBroker,
    topics=MetadataTopic,
    partitions=MetadataPartition,
)
encode_request, encode_response = _REQUEST.encode, _RESPONSE.encode


def decode_request(data: Buffer, version: int) -> MetadataRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    request = _REQUEST.decode(data, version)
    # Before the field existed, brokers always behaved as if it were set.
    return request if version >= 4 else attrs.evolve(request, allow_auto_topic_creation=True)


def decode_response(data: Buffer, version: int) -> MetadataResponse:
    """The inverse of :func:`encode_response`, but for bytes after the message. Raises ProtocolError.

    Those are ignored, as Kafka's own clients do: librdkafka's mock cluster writes one too many from version 9 on.
    """
    response, _ = _RESPONSE.decode_front(data, version)
    return response
