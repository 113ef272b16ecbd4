"""Kafka's error codes that this package acts on.

``retriable`` is Kafka's own view (RetriableException); ``refreshes_metadata`` marks the codes after which Kafka's consumer asks
for metadata and tries again, because the partition's leader, epoch or topic id is not what it believed.

References: https://kafka.apache.org/protocol#protocol_error_codes, Kafka's Errors and FetchCollector.
"""

from __future__ import annotations

from enum import IntEnum

from kafka_remote_client.errors import BrokerResponseError

__all__ = ["ErrorCode", "broker_error", "refreshes_metadata"]


class ErrorCode(IntEnum):
    """Codes under Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    NETWORK_EXCEPTION = 13
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    TOPIC_AUTHORIZATION_FAILED = 29
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    KAFKA_STORAGE_ERROR = 56
    SASL_AUTHENTICATION_FAILED = 58
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    THROTTLING_QUOTA_EXCEEDED = 89
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_TOPIC_ID = 103
    OFFSET_MOVED_TO_TIERED_STORAGE = 109


_REFRESHES_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
_RETRIABLE = _REFRESHES_METADATA | {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
}


def refreshes_metadata(code: int) -> bool:
    """Whether the request may succeed once the metadata is fresh."""
    return code in _REFRESHES_METADATA


def broker_error(code: int, what: str) -> BrokerResponseError:
    """The error to raise for a code that is not NONE; ``what`` names the request, such as ``Fetch of topic-0``."""
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = "unknown"
    return BrokerResponseError(code, f"{what}: broker answered with error {code} ({name})", retriable=code in _RETRIABLE)
