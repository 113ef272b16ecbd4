"""What a leader copies to the tier next. Kafka's RLMCopyTask, without its side effects.

References: KIP-405, KIP-1241; Kafka's RemoteLogManager (candidateLogSegments, copyLogSegment, findHighestRemoteOffset).
"""

from __future__ import annotations

from uuid import UUID

from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.tiered_cluster import epochs
from kafka_remote_client.tiered_cluster.log import UNLIMITED, PartitionLog, Segment
from kafka_remote_client.tiered_cluster.producers import NO_OFFSET
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments

__all__ = ["candidates", "highest_remote_offset", "started_copy"]


def highest_remote_offset(log: PartitionLog, remote: RemoteSegments) -> int:
    """The last offset of the log that is in the tier, by its newest epoch with a segment there; -1 without one."""
    end_offset = log.end_offset
    for entry in reversed(log.lineage):
        highest = remote.highest_offset(entry.epoch)
        if highest != NO_OFFSET:
            return min(highest, end_offset - 1)
        end_offset = entry.start_offset
    return NO_OFFSET


def candidates(log: PartitionLog, copied_offset: int, now_ms: int) -> tuple[int, ...]:
    """The base offsets of the segments to copy, in order.

    They are sealed, end below the last stable offset, and lag enough: by ``remote.copy.lag.ms`` since their latest record, or
    by ``remote.copy.lag.bytes`` that follow them. ``copied_offset``: the last one that is in the tier, -1 for none.
    """
    stable, config = log.last_stable_offset, log.config
    if config.remote_log_copy_disable or copied_offset >= stable:
        return ()
    sealed = list(log.sealed(max(copied_offset + 1, log.log_start)))
    following_bytes = sum(segment.size for segment, _ in sealed) + log.segments[-1].size
    found = []
    for segment, following in sealed:
        following_bytes -= segment.size
        if following.base_offset > stable or not _lags(log, segment, following_bytes, now_ms):
            break
        found.append(segment.base_offset)
    return tuple(found)


def _lags(log: PartitionLog, segment: Segment, following_bytes: int, now_ms: int) -> bool:
    lag_ms, lag_bytes = log.config.remote_copy_lag_ms, log.config.remote_copy_lag_bytes
    if 0 in {lag_ms, lag_bytes}:
        return True
    age = now_ms - segment.max_timestamp
    return (lag_ms != UNLIMITED and (age < 0 or age >= lag_ms)) or (lag_bytes != UNLIMITED and following_bytes >= lag_bytes)


def started_copy(
    tip: TopicIdPartition, log: PartitionLog, number: int, segment_id: UUID, broker_id: int, now_ms: int
) -> RemoteLogSegmentMetadata:
    """The event that begins the copy of the sealed segment ``log.segments[number]``. Its end is the next one's beginning."""
    segment, following = log.segments[number : number + 2]
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=RemoteLogSegmentId(tip, segment_id),
        start_offset=segment.base_offset,
        end_offset=following.base_offset - 1,
        max_timestamp_ms=segment.max_timestamp,
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        segment_leader_epochs=epochs.entries_in_range(log.lineage, segment.base_offset, following.base_offset),
        segment_size_in_bytes=segment.size,
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        txn_index_empty=not segment.aborted,
    )
