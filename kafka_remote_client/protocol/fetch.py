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

from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, AbortedTransaction, IsolationLevel
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.protocol.message_layout import MessageLayout
from kafka_remote_client.wire import ZERO_UUID, Buffer, TaggedFields, tag_numbers

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


_REQUEST = MessageLayout(
    FETCH,
    FetchRequest,
    "0-14 replica_id int32 | max_wait_ms int32 | min_bytes int32 | max_bytes int32 | isolation_level int8"
    " | 7+ session_id int32 | 7+ session_epoch int32 | topics [0-12 topic string | 13+ topic_id uuid | partitions ["
    "partition int32 | 9+ current_leader_epoch int32 | fetch_offset int64 | 12+ last_fetched_epoch int32"
    " | 5+ log_start_offset int64 | partition_max_bytes int32]]"
    " | 7+ forgotten_topics [0-12 topic string | 13+ topic_id uuid | partitions [int32]] | 11+ rack_id string",
    topics=FetchTopic,
    partitions=FetchPartition,
    forgotten_topics=ForgottenTopic,
)
_RESPONSE = MessageLayout(
    FETCH,
    FetchResponse,
    "throttle_time_ms int32 | 7+ error_code int16 | 7+ session_id int32"
    " | responses [0-12 topic string | 13+ topic_id uuid | partitions [partition_index int32 | error_code int16"
    " | high_watermark int64 | last_stable_offset int64 | 5+ log_start_offset int64"
    " | aborted_transactions? [producer_id int64 | first_offset int64] | 11+ preferred_read_replica int32 | records records?]]",
    responses=FetchTopicResponse,
    partitions=PartitionData,
    aborted_transactions=AbortedTransaction,
)
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
encode_response, decode_response = _RESPONSE.encode, _RESPONSE.decode
