"""The time index of a segment gives for a timestamp an offset before which no record reaches it.

No header, no checksum; ``n`` entries of 12 bytes:

====== ==== ===== ============================================
offset size type  field
====== ==== ===== ============================================
0      8    int64 the highest timestamp so far, in milliseconds
8      4    int32 offset of the batch that holds it, - base
====== ==== ===== ============================================

Timestamps rise strictly, offsets never fall. The last entry is written when the segment is rolled and holds its maximum.

References: Kafka's TimeIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from kafka_remote_client.errors import CorruptIndexError

__all__ = ["NO_TIMESTAMP", "TimeIndex", "TimestampOffset", "tail_size"]

_ENTRY = struct.Struct(">qi")
_ENTRY_SIZE = _ENTRY.size


def tail_size(size: int) -> int | None:
    """The number of bytes at the end of an index of ``size`` bytes that hold its last entry; None for an impossible size."""
    return None if size % _ENTRY_SIZE else min(size, _ENTRY_SIZE)


NO_TIMESTAMP = -1


@attrs.frozen
class TimestampOffset:
    """An entry with its absolute offset. The timestamp is -1 if there is no entry."""

    timestamp: int
    offset: int


class TimeIndex:
    """An immutable index over the object's bytes."""

    __slots__ = ("_data", "base_offset")

    def __init__(self, data: bytes, base_offset: int) -> None:
        """Raises CorruptIndexError for a length that is no multiple of 12, and for entries out of order."""
        if len(data) % _ENTRY_SIZE:
            raise CorruptIndexError(f"time index of segment {base_offset} has {len(data)} bytes")
        last_timestamp, last_offset = NO_TIMESTAMP - 1, 0
        for timestamp, relative in _ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or relative < last_offset:
                raise CorruptIndexError(
                    f"time index of segment {base_offset} has ({timestamp}, {relative}) after ({last_timestamp}, {last_offset})"
                )
            last_timestamp, last_offset = timestamp, relative
        self.base_offset = base_offset
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // _ENTRY_SIZE

    def __iter__(self) -> Iterator[TimestampOffset]:
        for timestamp, relative in _ENTRY.iter_unpack(self._data):
            yield TimestampOffset(timestamp, self.base_offset + relative)

    @property
    def nbytes(self) -> int:
        return len(self._data)

    def last_entry(self) -> TimestampOffset:
        """The last entry, or (-1, base) when there is none."""
        return self._entry(len(self) - 1)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """The last entry at or below ``timestamp``, else (-1, base)."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._entry(middle).timestamp <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self._entry(low - 1)

    def _entry(self, number: int) -> TimestampOffset:
        if number < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        timestamp, relative = _ENTRY.unpack_from(self._data, number * _ENTRY_SIZE)
        return TimestampOffset(timestamp, self.base_offset + relative)
