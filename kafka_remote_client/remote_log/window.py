"""From an offset to the byte ranges of a segment that a reader is to fetch next.

Positions come from the offset index, so each is where a batch begins. Theory of operation, with ``a`` the offset asked for::

    entry k:   last one whose offset is <= a       the batch of a begins at or after k's position
    entry k+1: its append may hold a as well       then it is the better start: less is read and skipped

    start ── range ──┬── range ──┬── range ── end  = first entry at or after start + max_bytes, else the segment's end
                     └───────────┴── entries at or after start + n * range_bytes

Where the log begins inside the segment (DeleteRecords), the first range begins with the batch that holds the log's start, if
the index entry lies before it: what was deleted is not granted.

What begins at the window's two ends is read from the log itself: the base offset at the end is the offset to continue with,
and an index that names a place where no batch of this segment begins, or the wrong one, is found out.

References: Kafka's OffsetIndex.lookup, fetchUpperBoundOffset; docs/design.md.
"""

from __future__ import annotations

from itertools import takewhile

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.segment_log import BatchFront

__all__ = ["SegmentWindow", "plan_window", "range_size", "tile"]

_RANGES_PER_WINDOW = 8
_MIN_RANGE_BYTES = 64 * 1024


@attrs.frozen
class SegmentWindow:
    """``ranges`` tile; they hold all records of ``[offset asked for, next_offset)`` that the segment has."""

    ranges: tuple[ByteRange, ...]
    next_offset: int


def plan_window(
    indexes: RemoteIndexCache,
    metadata: RemoteLogSegmentMetadata,
    offset: int,
    *,
    bound: int,
    max_bytes: int,
    range_bytes: int,
    log_start: int = 0,
) -> SegmentWindow | None:
    """The window for ``offset``, about ``max_bytes`` long, in ranges of about ``range_bytes``.

    It always gets beyond ``offset``, however small ``max_bytes`` is. No batch at or after the offset ``bound`` (exclusive, at
    most the segment's end + 1) is in it, and none that ends below ``log_start`` (at most ``offset``). None = the segment has no
    batch for ``[offset, bound)``. Raises CorruptIndexError, or what the store raises.
    """
    index = indexes.offset_index(metadata)
    start = _start(indexes, metadata, index, offset)
    if log_start > metadata.start_offset and start <= _start(indexes, metadata, index, log_start):
        # An entry after that of the log's start names a batch that begins after it; this one may begin before.
        start = indexes.position_of(metadata, log_start, start)
    stop, next_offset = _stop(indexes, metadata, index, offset, start + max_bytes)
    if next_offset > bound:
        stop, next_offset = _position_of(indexes, metadata, index, bound), bound
    if stop <= start:
        return None
    return SegmentWindow(tile(index, start, stop, range_bytes), next_offset)


def range_size(max_bytes: int, most: int) -> int:
    """Bytes of one range of a window: an eighth of it, so that several GETs fly at once, between 64 KiB and ``most``.

    So a client sizes its ranges by the window that it asks for: one that saw a range time out asks for a smaller window.
    """
    return min(most, max(_MIN_RANGE_BYTES, max_bytes // _RANGES_PER_WINDOW))


def tile(index: OffsetIndex, start: int, stop: int, range_bytes: int) -> tuple[ByteRange, ...]:
    """``[start, stop)`` cut at index entries. An end below a quarter of ``range_bytes`` is not cut off."""
    ranges = []
    while start < stop:
        number = index.number_for_position(start + range_bytes)
        end = index.entry(number).position if number < len(index) else stop
        if stop - end < range_bytes // 4:
            end = stop
        ranges.append(ByteRange(start, end))
        start = end
    return tuple(ranges)


def _start(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int) -> int:
    number = index.number_for_offset(offset)
    if number + 1 < len(index):
        following = _front(indexes, metadata, index, number + 1)
        # Of magic 0 and 1 only the last offset is known, which says nothing about where the entry's records begin.
        if following.magic >= 2 and following.base_offset <= offset:
            return following.position
    return _front(indexes, metadata, index, number).position if number >= 0 else 0


def _stop(
    indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, position: int
) -> tuple[int, int]:
    """The first indexed place at or after ``position`` that lies beyond ``offset``: position and base offset."""
    for number in range(index.number_for_position(position), len(index)):
        front = _front(indexes, metadata, index, number)
        next_offset = front.base_offset if front.magic >= 2 else _offset_before(indexes, metadata, index, number)
        if next_offset > offset:
            return front.position, next_offset
    return metadata.segment_size_in_bytes, metadata.end_offset + 1


def _front(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> BatchFront:
    """The batch that an entry names, checked against the entry and the one before it."""
    entry = index.entry(number)
    front = indexes.batch_front(metadata, entry.position)
    after = index.entry(number - 1).offset if number > 0 else metadata.start_offset - 1
    if not after < front.base_offset <= entry.offset:
        raise CorruptIndexError(
            f"offset index of segment {metadata.remote_log_segment_id} names offset {entry.offset} at {entry.position}, "
            f"where a batch begins at offset {front.base_offset}, and offset {after} before it"
        )
    return front


def _offset_before(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> int:
    """The offset after the last batch that ends at an entry's position: for formats that do not tell their base offset."""
    position = index.entry(number).position
    last = metadata.start_offset - 1
    walk = indexes.log(metadata).walk(index.entry(number - 1).position if number > 0 else 0)
    for front in takewhile(lambda front: front.position < position, walk):
        last = front.last_offset
    return last + 1


def _position_of(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, bound: int) -> int:
    """Where the first batch at or after the offset ``bound`` begins. Raises CorruptIndexError if one lies on both sides."""
    for front in indexes.log(metadata).walk(index.lookup(bound).position):
        if front.base_offset >= bound:
            return front.position
        if front.last_offset >= bound:
            raise CorruptIndexError(
                f"segment {metadata.remote_log_segment_id} has a batch of offsets {front.base_offset} to {front.last_offset}, "
                f"which must not go beyond {bound}"
            )
    return metadata.segment_size_in_bytes
