"""The events of ``__remote_log_metadata``, beside :class:`~kafka_remote_client.model.RemoteLogSegmentMetadata` itself.

Names and fields are Kafka's (``org.apache.kafka.server.log.remote.storage`` and ``…metadata.storage``). Times are
milliseconds since the Unix epoch.

References: KIP-405, "Remote log metadata"; ``storage/src/main/resources/message/*.json`` of Apache Kafka.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeAlias
from uuid import UUID

import attrs

from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)

__all__ = [
    "RemoteLogMetadata",
    "RemoteLogSegmentMetadataSnapshot",
    "RemoteLogSegmentMetadataUpdate",
    "RemotePartitionDeleteMetadata",
    "RemotePartitionDeleteState",
]


class RemotePartitionDeleteState(IntEnum):
    """Kafka's RemotePartitionDeleteState under its wire numbers."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2


def _redacted(value: bytes | None) -> str:
    return "None" if value is None else f"<{len(value)} bytes>"


@attrs.frozen
class RemoteLogSegmentMetadataUpdate:
    """A segment enters another state. ``custom_metadata`` replaces what was known, also when it is None.

    ``broker_leader_epoch``, ``end_offset``: of the segment, as KIP-1266 repeats them; -1 in today's records.
    """

    remote_log_segment_id: RemoteLogSegmentId
    broker_id: int
    event_timestamp_ms: int
    state: RemoteLogSegmentState
    custom_metadata: bytes | None = attrs.field(default=None, repr=_redacted)
    broker_leader_epoch: int = UNKNOWN_EPOCH
    end_offset: int = UNKNOWN_OFFSET

    @property
    def topic_id_partition(self) -> TopicIdPartition:
        return self.remote_log_segment_id.topic_id_partition


@attrs.frozen
class RemotePartitionDeleteMetadata:
    """A partition's tiered data is being removed as a whole."""

    topic_id_partition: TopicIdPartition
    state: RemotePartitionDeleteState
    event_timestamp_ms: int
    broker_id: int


@attrs.frozen
class RemoteLogSegmentMetadataSnapshot:
    """A segment as a snapshot file holds it: without its partition, which the file's name tells."""

    segment_id: UUID
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    segment_leader_epochs: tuple[EpochEntry, ...]
    segment_size_in_bytes: int
    custom_metadata: bytes | None = attrs.field(repr=_redacted)
    state: RemoteLogSegmentState
    txn_index_empty: bool = False
    broker_leader_epoch: int = UNKNOWN_EPOCH


RemoteLogMetadata: TypeAlias = (
    RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate | RemotePartitionDeleteMetadata | RemoteLogSegmentMetadataSnapshot
)
