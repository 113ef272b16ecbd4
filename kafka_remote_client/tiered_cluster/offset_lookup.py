"""A leader's answers to ListOffsets, as functions: by time, and the ends of both tiers.

A time is looked for in the tier first, segment by segment along the lineage, then in the leader's own segments. The answer is
the first record at or after the log start whose time is that or later.

References: KIP-405, KIP-734, KIP-1005, KIP-1023; Kafka's UnifiedLog.fetchOffsetByTimestamp,
RemoteLogManager.findOffsetByTimestamp.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, RemoteLogSegmentState
from kafka_remote_client.tiered_cluster import copy_task, epochs
from kafka_remote_client.tiered_cluster.batches import NO_TIMESTAMP, Batch
from kafka_remote_client.tiered_cluster.expiration_task import is_of_lineage
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_cluster.stored_batches import record_times, stored_batches
from kafka_remote_client.tiered_cluster.tiered_read import StoredObject

__all__ = [
    "FoundOffset",
    "at_time",
    "earliest",
    "earliest_local",
    "earliest_pending_upload",
    "latest",
    "latest_tiered",
    "with_max_timestamp",
]


@attrs.frozen
class FoundOffset:
    """All -1 where nothing is found. ``timestamp`` in milliseconds, of a record; -1 for an end of a tier."""

    offset: int = UNKNOWN_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = UNKNOWN_EPOCH


def earliest(log: PartitionLog) -> FoundOffset:
    """The log start, in either tier."""
    return _end(log, log.log_start)


def earliest_local(log: PartitionLog) -> FoundOffset:
    """The first offset on the broker."""
    return _end(log, log.local_log_start)


def latest(log: PartitionLog, *, committed: bool) -> FoundOffset:
    """The high watermark, or the last stable offset."""
    end = log.last_stable_offset if committed else log.high_watermark
    return FoundOffset(end, leader_epoch=log.lineage[-1].epoch if log.lineage else UNKNOWN_EPOCH)


def latest_tiered(log: PartitionLog, remote: RemoteSegments) -> FoundOffset:
    """The last offset in the tier, inclusive."""
    highest = copy_task.highest_remote_offset(log, remote)
    return FoundOffset() if highest == UNKNOWN_OFFSET else _end(log, highest)


def earliest_pending_upload(log: PartitionLog, remote: RemoteSegments) -> FoundOffset:
    """The first offset that is not in the tier."""
    highest = copy_task.highest_remote_offset(log, remote)
    return _end(log, max(highest + 1, log.log_start))


def _end(log: PartitionLog, offset: int) -> FoundOffset:
    return FoundOffset(offset, leader_epoch=epochs.epoch_for_offset(log.lineage, offset))


def with_max_timestamp(log: PartitionLog) -> FoundOffset:
    """The first record with the highest time among those on the broker."""
    found = max(_records(log, list(_local(log)), log.log_start), key=lambda one: (one.timestamp, -one.offset), default=None)
    return found or FoundOffset()


def at_time(log: PartitionLog, remote: RemoteSegments, stored: StoredObject, timestamp: int) -> FoundOffset:
    """The first record with that time, in milliseconds, or a later one. ``remote`` and ``stored``: the tier."""
    in_tier = (batch for data in _tiered(log, remote, stored, timestamp) for batch in stored_batches(data))
    for batches in (in_tier, _local(log)):
        later = (batch for batch in batches if batch.max_timestamp >= timestamp)
        for found in _records(log, later, log.log_start):
            if found.timestamp >= timestamp and found.offset < log.high_watermark:
                return found
    return FoundOffset()


def _tiered(log: PartitionLog, remote: RemoteSegments, stored: StoredObject, timestamp: int) -> Iterator[bytes]:
    lineage = epochs.with_records(log.lineage)
    for epoch in lineage:
        for segment in remote.of_epoch(epoch):
            if (
                segment.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                and segment.max_timestamp_ms >= timestamp
                and segment.end_offset >= log.log_start
                and is_of_lineage(segment, log.end_offset, lineage)
            ):
                yield stored(segment, FileKind.LOG)


def _local(log: PartitionLog) -> Iterator[Batch]:
    return (batch for segment in log.segments for batch in segment.batches)


def _records(log: PartitionLog, batches: Iterator[Batch] | list[Batch], start: int) -> Iterator[FoundOffset]:
    for batch in batches:
        for offset, timestamp in record_times(batch):
            if offset >= start:
                yield FoundOffset(offset, timestamp, epochs.epoch_for_offset(log.lineage, offset))
