"""The files of a segment, as a broker has them on its disk when it copies the segment to the tier.

References: Kafka's RemoteLogManager.copyLogSegment, LogSegmentData.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from kafka_remote_client.tiered_cluster import epochs, indexes
from kafka_remote_client.tiered_cluster.log import PartitionLog

__all__ = ["FileKind", "segment_files"]


class FileKind(Enum):
    """The files, under the suffixes that LocalTieredStorage gives them."""

    LOG = ".log"
    OFFSET_INDEX = ".index"
    TIME_INDEX = ".timeindex"
    TRANSACTION_INDEX = ".txnindex"
    PRODUCER_SNAPSHOT = ".snapshot"
    LEADER_EPOCH = ".leader_epoch_checkpoint"


def segment_files(log: PartitionLog, number: int) -> Mapping[FileKind, bytes]:
    """The files of ``log.segments[number]``, which holds records. There is no transaction index without aborted transactions.

    The epochs are those of the log up to the segment's end, the producers those after its last record.
    """
    segment = log.segments[number]
    following = log.segments[number + 1] if number + 1 < len(log.segments) else None
    end_offset, producers = (
        (log.end_offset, log.producers) if following is None else (following.base_offset, following.began_with)
    )
    interval = log.config.index_interval_bytes
    files = {
        FileKind.LOG: segment.log,
        FileKind.OFFSET_INDEX: indexes.offset_index(segment.base_offset, segment.batches, interval),
        FileKind.TIME_INDEX: indexes.time_index(segment.base_offset, segment.batches, interval),
        FileKind.PRODUCER_SNAPSHOT: producers.snapshot(),
        FileKind.LEADER_EPOCH: epochs.checkpoint(epochs.truncated_from_end(log.lineage, end_offset)),
    }
    if segment.aborted:
        files[FileKind.TRANSACTION_INDEX] = indexes.transaction_index(segment.aborted)
    return files
