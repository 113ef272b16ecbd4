"""Finds the byte ranges of a segment to fetch for an offset.

Positions come from the offset index, so a batch begins at each. Theory of operation, with ``a`` the requested offset::

    entry k:   last one whose offset is <= a       the batch of a begins at or after k's position
    entry k+1: its append may hold a as well       then it is the better start: less is read and skipped

    start ── range ──┬── range ──┬── range ── end  = first entry at or after start + max_bytes, else the segment's end
                     └───────────┴── entries at or after start + n * range_bytes

    entry m:   all records up to its offset lie before the position of entry m + 1, and none of them at or after it

If the log begins inside the segment (DeleteRecords), and the index entry lies before its start, the first range begins with
the batch that holds the start: deleted records are not granted.

The batch headers at the two ends of the window are read from the log. The base offset at the end is the offset of the next
window. They also show an index that is wrong: no batch, or another one, begins at an entry's position.

References: Kafka's OffsetIndex.lookup, fetchUpperBoundOffset; docs/design.md.
"""

from __future__ import annotations

from itertools import takewhile

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.offset_index import OffsetIndex

__all__ = ["SegmentWindow", "WindowSketch", "plan_window", "range_size", "sketch_window", "tile"]

_RANGES_PER_WINDOW = 8
_MIN_RANGE_BYTES = 64 * 1024


@attrs.frozen
class SegmentWindow:
    """``ranges`` are adjacent, and hold all records of the segment in ``[requested offset, next_offset)``.

    ``range_offsets`` has a lower bound of the offsets of each range.
    """

    ranges: tuple[ByteRange, ...]
    range_offsets: tuple[int, ...]
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
    read_end: int | None = None,
) -> SegmentWindow | None:
    """Returns the window for ``offset``, of about ``max_bytes``, in ranges of about ``range_bytes``.

    It ends after ``offset``, however small ``max_bytes`` is. It has no batch at or after the offset ``bound`` (at most the
    segment's end + 1), and none that ends below ``log_start`` (at most ``offset``). Records at or after the offset ``read_end``
    are not wanted: the window ends at the latest at the first index entry after all records below it. None = the segment has
    no batch for ``[offset, bound)``. Raises CorruptIndexError, and the store's errors.
    """
    index = indexes.offset_index(metadata)
    start, first_offset = _start(indexes, metadata, index, offset)
    if _log_may_start_within(metadata, index, offset, log_start) and start <= _start(indexes, metadata, index, log_start)[0]:
        # An entry after that of the log's start names a batch that begins after it; this one may begin before.
        start = indexes.position_of(metadata, log_start, start)
    wanted_end = _wanted_end(metadata, index, offset, read_end)
    stop, next_offset = _stop(indexes, metadata, index, offset, min(start + max_bytes, wanted_end))
    if next_offset > bound:
        stop, next_offset = _position_of(indexes, metadata, index, bound), bound
    if stop <= start:
        return None
    ranges = tile(index, start, stop, range_bytes)
    later = (_offset_after(metadata, index, index.number_for_position(one.start) - 1) for one in ranges[1:])
    return SegmentWindow(ranges, (first_offset, *(max(first_offset, one) for one in later)), next_offset)


@attrs.frozen
class WindowSketch:
    """A window as far as the offset index alone determines it.

    ``positions``: where the batches begin whose headers :func:`plan_window` may read. It reads further ones for a bound between
    index entries, and for formats without a base offset. ``next_offset`` is at or above that of the window.
    """

    positions: tuple[int, ...]
    next_offset: int


def sketch_window(
    indexes: RemoteIndexCache,
    metadata: RemoteLogSegmentMetadata,
    offset: int,
    *,
    bound: int,
    max_bytes: int,
    log_start: int = 0,
    read_end: int | None = None,
) -> WindowSketch:
    """The sketch of the window that :func:`plan_window` returns. Reads only the index, and raises the errors of reading it."""
    index = indexes.offset_index(metadata)
    starts = _start_numbers(indexes, metadata, index, offset)
    wanted_end = _wanted_end(metadata, index, offset, read_end)
    begins = (index.entry(n).position if n >= 0 else 0 for n in starts)
    stops = {index.number_for_position(min(begin + max_bytes, wanted_end)) for begin in begins}
    ends = (index.entry(n).offset if n < len(index) else metadata.end_offset + 1 for n in stops)
    numbers = starts | stops
    if _log_may_start_within(metadata, index, offset, log_start):
        numbers |= _start_numbers(indexes, metadata, index, log_start)
    positions = tuple(index.entry(n).position for n in sorted(numbers) if 0 <= n < len(index))
    return WindowSketch(positions, min(max(ends), bound))


def range_size(max_bytes: int, wanted: int, most: int) -> int:
    """Bytes of one range of a window: the size ``wanted``, between 64 KiB and ``most``.

    ``wanted`` 0: an eighth of the window, so that several GETs run at the same time.
    """
    return min(most, max(_MIN_RANGE_BYTES, wanted or max_bytes // _RANGES_PER_WINDOW))


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


def _start(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int) -> tuple[int, int]:
    """The start of a window for ``offset``: its position, and a lower bound of the offsets from there on."""
    if offset == metadata.start_offset:
        return 0, offset
    number = index.number_for_offset(offset)
    if number + 1 < len(index):
        following = _header(indexes, metadata, index, number + 1)
        if _is_better_start(following, offset):
            return following.position, following.base_offset
    if number < 0:
        return 0, metadata.start_offset
    header = _header(indexes, metadata, index, number)
    # The base offset of magic 0 and 1 may be that of the last record, so the entry before gives the bound.
    return header.position, header.base_offset if header.magic >= 2 else _offset_after(metadata, index, number - 1)


def _start_numbers(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int) -> set[int]:
    """The entries of which :func:`_start` takes one, as far as known without a read; -1 = the segment's start."""
    if offset == metadata.start_offset:
        return {-1}
    number = index.number_for_offset(offset)
    if number + 1 == len(index):
        return {number}
    following = indexes.kept_batch_header(metadata, index.entry(number + 1).position)
    if following is None:
        return {number, number + 1}
    return {number + 1} if _is_better_start(following, offset) else {number}


def _offset_after(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> int:
    """A lower bound of the offsets from the entry after ``number`` on; ``number`` -1 = the segment's start."""
    return index.entry(number).offset + 1 if number >= 0 else metadata.start_offset


def _wanted_end(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, read_end: int | None) -> int:
    """The first indexed position after all records below ``read_end``, and after ``offset``; else the segment's size."""
    if read_end is None:
        return metadata.segment_size_in_bytes
    last_wanted = max(read_end - 1, offset)
    # Records up to an entry's offset lie before the position of the next one.
    number = index.number_for_offset(last_wanted - 1) + 2
    return index.entry(number).position if number < len(index) else metadata.segment_size_in_bytes


def _is_better_start(following: BatchHeader, offset: int) -> bool:
    """Whether the batch of the entry above ``offset`` begins at or below it."""
    # Batches of magic 0 and 1 have only their last offset, so their first one is unknown.
    return following.magic >= 2 and following.base_offset <= offset


def _log_may_start_within(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, log_start: int) -> bool:
    """Whether a window for ``offset`` may begin before the batch that holds ``log_start``: not if entries lie between them."""
    return log_start > metadata.start_offset and index.number_for_offset(offset) <= index.number_for_offset(log_start) + 1


def _stop(
    indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, position: int
) -> tuple[int, int]:
    """The first indexed batch at or after ``position`` that begins after ``offset``: its position and base offset."""
    for number in range(index.number_for_position(position), len(index)):
        header = _header(indexes, metadata, index, number)
        next_offset = header.base_offset if header.magic >= 2 else _offset_before(indexes, metadata, index, number)
        if next_offset > offset:
            return header.position, next_offset
    return metadata.segment_size_in_bytes, metadata.end_offset + 1


def _header(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> BatchHeader:
    """The header of an entry's batch, checked against the entry and the one before it."""
    entry = index.entry(number)
    header = indexes.batch_header(metadata, entry.position)
    after = _offset_after(metadata, index, number - 1) - 1
    if not after < header.base_offset <= entry.offset:
        raise CorruptIndexError(
            f"offset index of segment {metadata.remote_log_segment_id} names offset {entry.offset} at {entry.position}, "
            f"where a batch begins at offset {header.base_offset}, and offset {after} before it"
        )
    return header


def _offset_before(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> int:
    """The offset after the last batch before an entry's position, for formats without a base offset."""
    position = index.entry(number).position
    last = metadata.start_offset - 1
    walk = indexes.log(metadata).walk(index.entry(number - 1).position if number > 0 else 0)
    for header in takewhile(lambda header: header.position < position, walk):
        last = header.last_offset
    return last + 1


def _position_of(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, bound: int) -> int:
    """The position of the first batch at or after the offset ``bound``. Raises CorruptIndexError for a batch across it."""
    for header in indexes.log(metadata).walk(index.lookup(bound).position):
        if header.base_offset >= bound:
            return header.position
        if header.last_offset >= bound:
            raise CorruptIndexError(
                f"segment {metadata.remote_log_segment_id} has a batch of offsets {header.base_offset} to "
                f"{header.last_offset}, which must not exceed {bound}"
            )
    return metadata.segment_size_in_bytes
