"""Finds the first record of the tier at or after a timestamp.

The time index gives an offset before which no record has the timestamp, and the offset index a position before this offset.
From there batches are skipped by their maximum timestamp; only a batch that reaches the timestamp is decoded.

References: Kafka's RemoteLogManager.findOffsetByTimestamp, lookupTimestamp.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import UNKNOWN_OFFSET
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.records.reader import read_batches
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.prefetch import Prefetch
from kafka_remote_client.remote_log.segment_log import SegmentLog
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment

__all__ = ["TimestampAndOffset", "find_offset_by_timestamp"]


@attrs.frozen
class TimestampAndOffset:
    """An answer of ListOffsets by time. ``timestamp`` is in milliseconds. ``is_marker``: it is a transaction's marker."""

    offset: int
    timestamp: int
    leader_epoch: int
    is_marker: bool = attrs.field(default=False, eq=False)


def find_offset_by_timestamp(
    indexes: RemoteIndexCache, log: TieredLog, timestamp_ms: int, start_offset: int, prefetch: Prefetch
) -> TimestampAndOffset | None:
    """The first record at or after ``start_offset`` with at least that timestamp; None when the tier has none.

    ``prefetch`` reads both indexes of a segment at the same time.
    """
    for segment in log.all_segments(start_offset):
        # -1: unknown, in a listing without a time index.
        if segment.metadata.max_timestamp_ms in range(timestamp_ms):
            continue
        prefetch.offset_index(segment.metadata)
        if found := _search_segment(indexes, segment, timestamp_ms):
            return found
    return None


def _search_segment(indexes: RemoteIndexCache, segment: TieredSegment, timestamp_ms: int) -> TimestampAndOffset | None:
    hint = indexes.time_index(segment.metadata).lookup(timestamp_ms).offset
    position = indexes.offset_index(segment.metadata).lookup(max(hint, segment.start)).position
    log = indexes.log(segment.metadata)
    for header in log.walk(position):
        if header.base_offset >= segment.end:
            return None
        reaches = header.max_timestamp >= timestamp_ms or header.max_timestamp == UNKNOWN_OFFSET
        if not reaches or header.last_offset < segment.start:
            continue
        if found := _search_batch(log, header, segment.start, timestamp_ms):
            return found
    return None


def _search_batch(log: SegmentLog, header: BatchHeader, start_offset: int, timestamp_ms: int) -> TimestampAndOffset | None:
    data = log.store.get_range(log.key, header.position, header.end)
    if len(data) < header.size:  # a batch that is cut off would have no records, and the search would go past them
        raise CorruptIndexError(f"{log.key}: the log ends inside the batch at {header.position}")
    block = read_batches(data, fetch_offset=start_offset)
    if header.is_control:
        # No record is delivered, but the marker has an offset and a timestamp.
        return TimestampAndOffset(header.base_offset, header.max_timestamp, header.leader_epoch, is_marker=True)
    for offset, timestamp, _, leader_epoch, *_ in block.rows():
        if timestamp >= timestamp_ms:
            return TimestampAndOffset(offset, timestamp, leader_epoch)
    return None
