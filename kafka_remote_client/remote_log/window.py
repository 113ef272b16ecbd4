"""From an offset to the byte ranges of a segment that a reader is to fetch next.

Positions come from the offset index, so each is where a batch begins. Theory of operation, with ``a`` the offset asked for::

    entry k:   last one whose offset is <= a       the batch of a begins at or after k's position
    entry k+1: its append may hold a as well       then it is the better start: less is read and skipped

    start ── range ──┬── range ──┬── range ── end  = first entry at or after start + max_bytes, else the segment's end
                     └───────────┴── entries at or after start + n * range_bytes

    entry m:   all records up to its offset lie before the position of entry m + 1, and none of them at or after it

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
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.offset_index import OffsetIndex

__all__ = ["SegmentWindow", "WindowSketch", "plan_window", "range_size", "sketch_window", "tile"]

_RANGES_PER_WINDOW = 8
_MIN_RANGE_BYTES = 64 * 1024


@attrs.frozen
class SegmentWindow:
    """``ranges`` tile; they hold all records of ``[offset asked for, next_offset)`` that the segment has.

    ``range_offsets``, one for each range: no record of the range is below it.
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
    """The window for ``offset``, about ``max_bytes`` long, in ranges of about ``range_bytes``.

    It always gets beyond ``offset``, however small ``max_bytes`` is. No batch at or after the offset ``bound`` (exclusive, at
    most the segment's end + 1) is in it, and none that ends below ``log_start`` (at most ``offset``). Records at or after the
    offset ``read_end`` are not wanted: the window ends at the first index entry that all others lie before, if not earlier.
    None = the segment has no batch for ``[offset, bound)``. Raises CorruptIndexError, or what the store raises.
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

    ``positions``: the batches whose headers :func:`plan_window` reads are among those that begin there; it goes on from them
    where a bound lies between index entries, and for formats that do not tell their base offset. ``next_offset`` is at or
    above the window's.
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
    """The sketch of the window that :func:`plan_window` plans. Reads nothing but the index, and raises what that raises."""
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

    ``wanted`` 0: an eighth of the window, so that several GETs fly at once.
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
    """Where a window for ``offset`` begins, and an offset that no record from there on is below."""
    number = index.number_for_offset(offset)
    if number + 1 < len(index):
        following = _header(indexes, metadata, index, number + 1)
        if _is_better_start(following, offset):
            return following.position, following.base_offset
    if number < 0:
        return 0, metadata.start_offset
    header = _header(indexes, metadata, index, number)
    # An old format's base offset may be that of the last record: all that is sure is what the entry before says.
    return header.position, header.base_offset if header.magic >= 2 else _offset_after(metadata, index, number - 1)


def _start_numbers(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int) -> set[int]:
    """The entries of which :func:`_start` takes one, as far as can be told without a read; -1 = the segment's start."""
    number = index.number_for_offset(offset)
    if number + 1 == len(index):
        return {number}
    following = indexes.kept_batch_header(metadata, index.entry(number + 1).position)
    if following is None:
        return {number, number + 1}
    return {number + 1} if _is_better_start(following, offset) else {number}


def _offset_after(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> int:
    """An offset that no record from the position of the entry behind ``number`` on is below; -1 = the segment's start."""
    return index.entry(number).offset + 1 if number >= 0 else metadata.start_offset


def _wanted_end(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, read_end: int | None) -> int:
    """The first indexed position before which all records below ``read_end`` lie, and ``offset``; else the segment's size."""
    if read_end is None:
        return metadata.segment_size_in_bytes
    last_wanted = max(read_end - 1, offset)
    # Records up to an entry's offset lie before the position of the next one.
    number = index.number_for_offset(last_wanted - 1) + 2
    return index.entry(number).position if number < len(index) else metadata.segment_size_in_bytes


def _is_better_start(following: BatchHeader, offset: int) -> bool:
    """Whether the batch of the entry above ``offset`` begins at or below it."""
    # Of magic 0 and 1 only the last offset is known, which says nothing about where the entry's records begin.
    return following.magic >= 2 and following.base_offset <= offset


def _log_may_start_within(metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, log_start: int) -> bool:
    """Whether a window for ``offset`` may begin before the batch that holds ``log_start``: not where entries lie between."""
    return log_start > metadata.start_offset and index.number_for_offset(offset) <= index.number_for_offset(log_start) + 1


def _stop(
    indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, offset: int, position: int
) -> tuple[int, int]:
    """The first indexed place at or after ``position`` that lies beyond ``offset``: position and base offset."""
    for number in range(index.number_for_position(position), len(index)):
        header = _header(indexes, metadata, index, number)
        next_offset = header.base_offset if header.magic >= 2 else _offset_before(indexes, metadata, index, number)
        if next_offset > offset:
            return header.position, next_offset
    return metadata.segment_size_in_bytes, metadata.end_offset + 1


def _header(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, number: int) -> BatchHeader:
    """The batch that an entry names, checked against the entry and the one before it."""
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
    """The offset after the last batch that ends at an entry's position: for formats that do not tell their base offset."""
    position = index.entry(number).position
    last = metadata.start_offset - 1
    walk = indexes.log(metadata).walk(index.entry(number - 1).position if number > 0 else 0)
    for header in takewhile(lambda header: header.position < position, walk):
        last = header.last_offset
    return last + 1


def _position_of(indexes: RemoteIndexCache, metadata: RemoteLogSegmentMetadata, index: OffsetIndex, bound: int) -> int:
    """Where the first batch at or after the offset ``bound`` begins. Raises CorruptIndexError if one lies on both sides."""
    for header in indexes.log(metadata).walk(index.lookup(bound).position):
        if header.base_offset >= bound:
            return header.position
        if header.last_offset >= bound:
            raise CorruptIndexError(
                f"segment {metadata.remote_log_segment_id} has a batch of offsets {header.base_offset} to "
                f"{header.last_offset}, which must not exceed {bound}"
            )
    return metadata.segment_size_in_bytes
