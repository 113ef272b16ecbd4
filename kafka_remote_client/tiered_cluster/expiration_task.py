"""Which segments of the tier a leader deletes. Kafka's RLMExpirationTask, without its side effects.

Segments are looked at epoch by epoch along the leader's lineage, from the oldest, until one stays. A segment goes

- if an earlier deletion of it was not finished;
- if it ends below the log start, and no later epoch than the lineage's first wrote it;
- if it is of the lineage, and older than ``retention.ms``, or if what would be left is still ``retention.bytes``.

An unfinished copy of another leader stays until it is of one of these kinds. Segments whose epochs are all
earlier than the lineage's first are unreferenced: an unclean election lost those epochs, or their records were deleted.

References: KIP-405; Kafka's RemoteLogManager (cleanupExpiredRemoteLogSegments, isRemoteSegmentWithinLeaderEpochs).
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.tiered_cluster import epochs
from kafka_remote_client.tiered_cluster.log import UNLIMITED, PartitionLog
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments

__all__ = ["Expired", "expired", "is_of_lineage"]


@attrs.frozen
class Expired:
    """``segments`` are deleted in this order, after the log start moved to ``log_start``."""

    segments: tuple[RemoteLogSegmentMetadata, ...]
    log_start: int


def expired(log: PartitionLog, remote: RemoteSegments, now_ms: int, copying: RemoteLogSegmentMetadata | None = None) -> Expired:
    """``copying``: the segment that the copy task works on, which ends the search. A log without epochs expires nothing."""
    lineage = epochs.with_records(log.lineage)
    found: dict[object, RemoteLogSegmentMetadata] = {}
    log_start, excess = log.log_start, _excess(log, remote, lineage)
    for segment in _along(remote, lineage):
        if copying is not None and segment.remote_log_segment_id == copying.remote_log_segment_id:
            break
        if segment.remote_log_segment_id in found:
            continue
        if segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            found[segment.remote_log_segment_id] = segment
            continue
        below = segment.end_offset < log.log_start and _epochs(segment) <= {*range(min(lineage) + 1)}
        of_lineage = below or is_of_lineage(segment, log.end_offset, lineage)
        if not below and of_lineage:
            by_time = log.config.retention_ms != UNLIMITED and segment.max_timestamp_ms < now_ms - log.config.retention_ms
            if not by_time and excess < max(segment.segment_size_in_bytes, 1):
                break
            excess = max(0, excess - segment.segment_size_in_bytes)
            log_start = max(log_start, segment.end_offset + 1)
        if of_lineage:
            found[segment.remote_log_segment_id] = segment
    for segment in remote.segments.values():
        if log.lineage and max(_epochs(segment)) < log.lineage[0].epoch:
            found.setdefault(segment.remote_log_segment_id, segment)
    return Expired(tuple(found.values()), log_start)


def _along(remote: RemoteSegments, lineage: Mapping[int, int]) -> list[RemoteLogSegmentMetadata]:
    return [segment for epoch in lineage for segment in remote.of_epoch(epoch)]


def _epochs(segment: RemoteLogSegmentMetadata) -> set[int]:
    return {entry.epoch for entry in segment.segment_leader_epochs}


def _excess(log: PartitionLog, remote: RemoteSegments, lineage: Mapping[int, int]) -> int:
    """Bytes above ``retention.bytes`` of the finished segments of the lineage and of what only the broker has; at least 0."""
    if log.config.retention_bytes == UNLIMITED:
        return 0
    valid = {
        segment.remote_log_segment_id: segment.segment_size_in_bytes
        for segment in _along(remote, lineage)
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED and is_of_lineage(segment, log.end_offset, lineage)
    }
    return max(0, log.only_local_size() + sum(valid.values()) - log.config.retention_bytes)


def is_of_lineage(segment: RemoteLogSegmentMetadata, end_offset: int, lineage: Mapping[int, int]) -> bool:
    """Whether the records of a segment are those of a log that ends at ``end_offset``. ``lineage``: start offsets by epoch.

    Inside the segment epochs begin where they do in the lineage. The first may have begun before; the last ends no earlier than
    the segment. Epochs before the lineage's first are not looked at, because their records were deleted.
    """
    own = epochs.with_records(segment.segment_leader_epochs)
    last = max(own)
    if last not in lineage or segment.end_offset >= end_offset:
        return False
    known = [epoch for epoch in own if epoch >= min(lineage)]
    first = known[0]
    if any(epoch not in lineage for epoch in known):
        return False
    if first != min(lineage) and own[first] < lineage[first]:
        return False
    following = [start for epoch, start in lineage.items() if epoch > last]
    if following and segment.end_offset >= following[0]:
        return False
    between = [(epoch, start) for epoch, start in lineage.items() if first < epoch <= last]
    return between == [(epoch, own[epoch]) for epoch in known[1:]]
