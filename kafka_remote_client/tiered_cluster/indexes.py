"""Writes the indexes of a segment as a broker writes them while it appends and rolls.

All integers are big-endian; no index has a header. One batch is one append: a broker counts ``index.interval.bytes`` in
appends, and producers send one batch for a partition in a request.

::

    offset index, 8 bytes               time index, 12 bytes                transaction index, 34 bytes
    int32  last offset - base offset    int64  highest timestamp so far     int16  version, 0
    int32  position                     int32  its batch's last offset      int64  producer id
                                               - base offset                int64  first offset
                                                                            int64  offset of the ABORT marker
                                                                            int64  last stable offset after it

References: Kafka's LogSegment (append, onBecomeInactiveSegment), OffsetIndex, TimeIndex, AbortedTxn.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import attrs

from kafka_remote_client.tiered_cluster.batches import NO_TIMESTAMP, Batch

__all__ = ["AbortedEntry", "max_timestamp", "offset_index", "offset_index_entries", "time_index", "transaction_index"]

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")


@attrs.frozen
class AbortedEntry:
    """An aborted transaction. ``last_offset``: of its marker. ``last_stable_offset``: of the log with the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def offset_index_entries(batches: Sequence[Batch], interval: int) -> Iterator[tuple[int, int]]:
    """Last offset and position of each batch before which more than ``interval`` bytes were appended since the last entry."""
    for batch, position, _ in _indexed(batches, interval):
        yield batch.last_offset, position


def offset_index(base: int, batches: Sequence[Batch], interval: int) -> bytes:
    """``base``: the segment's base offset. ``interval``: ``index.interval.bytes``."""
    return b"".join(_OFFSET_ENTRY.pack(last - base, at) for last, at in offset_index_entries(batches, interval))


def time_index(base: int, batches: Sequence[Batch], interval: int) -> bytes:
    """As :func:`offset_index`. The last entry is made when the segment is rolled."""
    written = NO_TIMESTAMP
    out = bytearray()
    at_roll = _highest(batches)
    for timestamp, offset in [*(highest for _, _, highest in _indexed(batches, interval)), at_roll]:
        if timestamp > written:
            out += _TIME_ENTRY.pack(timestamp, offset - base)
            written = timestamp
    return bytes(out)


def max_timestamp(batches: Sequence[Batch]) -> int:
    """The highest timestamp in milliseconds; -1 when no record has one."""
    return _highest(batches)[0]


def transaction_index(entries: Iterable[AbortedEntry]) -> bytes:
    """``entries``: in the order of their markers."""
    return b"".join(_ABORTED_ENTRY.pack(0, *attrs.astuple(entry)) for entry in entries)


def _indexed(batches: Sequence[Batch], interval: int) -> Iterator[tuple[Batch, int, tuple[int, int]]]:
    """Batches that get entries, with their positions and the highest timestamp so far with the last offset of its batch."""
    position = since_last = 0
    highest = (NO_TIMESTAMP, 0)
    for batch in batches:
        if batch.max_timestamp > highest[0]:
            highest = (batch.max_timestamp, batch.last_offset)
        if since_last > interval:
            yield batch, position, highest
            since_last = 0
        since_last += batch.size
        position += batch.size


def _highest(batches: Sequence[Batch]) -> tuple[int, int]:
    first = max(batches, key=lambda batch: batch.max_timestamp, default=None)
    return (NO_TIMESTAMP, 0) if first is None or first.max_timestamp < 0 else (first.max_timestamp, first.last_offset)
