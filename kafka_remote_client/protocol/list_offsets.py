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

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, IsolationLevel
from kafka_remote_client.protocol.api_keys import LIST_OFFSETS
from kafka_remote_client.protocol.message_layout import MessageLayout
from kafka_remote_client.wire import TaggedFields, tag_numbers

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


_REQUEST = MessageLayout(
    LIST_OFFSETS,
    ListOffsetsRequest,
    "replica_id int32 | 2+ isolation_level int8 | topics [name string | partitions [partition_index int32"
    " | 4+ current_leader_epoch int32 | timestamp int64]] | 10+ timeout_ms int32",
    topics=ListOffsetsTopic,
    partitions=ListOffsetsPartition,
)
_RESPONSE = MessageLayout(
    LIST_OFFSETS,
    ListOffsetsResponse,
    "2+ throttle_time_ms int32 | topics [name string | partitions [partition_index int32 | error_code int16 | timestamp int64"
    " | offset int64 | 4+ leader_epoch int32]]",
    topics=ListOffsetsTopicResponse,
    partitions=ListOffsetsPartitionResponse,
)
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
encode_response, decode_response = _RESPONSE.encode, _RESPONSE.decode
