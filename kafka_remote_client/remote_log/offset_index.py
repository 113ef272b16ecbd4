"""The offset index of a segment: from an offset to a position before which no batch can hold it.

No header, no checksum; ``n`` entries of 8 bytes:

====== ==== ===== ===============
offset size type  field
====== ==== ===== ===============
0      4    int32 offset - base
4      4    int32 position
====== ==== ===== ===============

Both fields rise strictly. The broker writes an entry when an append begins and enough bytes went by since the last entry:
``position`` is where that append's first batch begins, ``offset`` the **last** offset of that append. So every position is the
start of a batch, a batch that begins at ``position`` has a base offset at or below ``offset``, and the batch that holds
``offset`` begins at or after it.

References: Kafka's OffsetIndex, AbstractIndex.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import attrs

from kafka_remote_client.errors import CorruptIndexError

__all__ = ["ENTRY_SIZE", "OffsetIndex", "OffsetPosition"]

_ENTRY = struct.Struct(">ii")
ENTRY_SIZE = _ENTRY.size


@attrs.frozen
class OffsetPosition:
    """An entry with its absolute offset."""

    offset: int
    position: int


class OffsetIndex:
    """An immutable index over the object's bytes."""

    __slots__ = ("_data", "_entries", "base_offset")

    def __init__(self, data: bytes, base_offset: int) -> None:
        """Raises CorruptIndexError for a length that is no multiple of 8, and for entries that do not rise."""
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"offset index of segment {base_offset} has {len(data)} bytes")
        last_offset, last_position = -1, -1
        for relative, position in _ENTRY.iter_unpack(data):
            if relative <= last_offset or position <= last_position:
                raise CorruptIndexError(
                    f"offset index of segment {base_offset} has ({relative}, {position}) after ({last_offset}, {last_position})"
                )
            last_offset, last_position = relative, position
        self.base_offset = base_offset
        self._data = data
        self._entries = _Entries(data, base_offset)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[OffsetPosition]:
        return iter(self._entries)

    @property
    def nbytes(self) -> int:
        return len(self._data)

    def entry(self, number: int) -> OffsetPosition:
        """The entry at ``number``. Raises IndexError outside the index."""
        return self._entries[number]

    def last_entry(self) -> OffsetPosition:
        """The last entry, or the segment's start when there is none."""
        return self._entries[-1] if len(self) else OffsetPosition(self.base_offset, 0)

    def number_for_offset(self, offset: int) -> int:
        """The number of the last entry at or below ``offset``; -1 when there is none."""
        return bisect_right(self._entries, offset, key=lambda entry: entry.offset) - 1

    def lookup(self, offset: int) -> OffsetPosition:
        """The last entry at or below ``offset``, else the segment's start."""
        number = self.number_for_offset(offset)
        return self._entries[number] if number >= 0 else OffsetPosition(self.base_offset, 0)

    def number_for_position(self, position: int) -> int:
        """The number of the first entry at or after ``position``; ``len(self)`` when there is none."""
        return bisect_left(self._entries, position, key=lambda entry: entry.position)

    def check_against(self, end_offset: int, segment_size: int) -> None:
        """Raises CorruptIndexError unless the index fits a segment that ends at ``end_offset`` with that many bytes."""
        if not len(self):
            return
        last = self._entries[-1]
        if last.offset > end_offset or last.position >= segment_size:
            raise CorruptIndexError(
                f"offset index of segment {self.base_offset} reaches offset {last.offset} at {last.position}; "
                f"the segment ends at offset {end_offset} with {segment_size} bytes"
            )


class _Entries(Sequence[OffsetPosition]):
    """The entries, decoded one by one where they are touched: an index of 10 MiB stays 10 MiB."""

    __slots__ = ("_base", "_data")

    def __init__(self, data: bytes, base: int) -> None:
        self._data = data
        self._base = base

    def __len__(self) -> int:
        return len(self._data) // ENTRY_SIZE

    def __getitem__(self, number: int) -> OffsetPosition:  # type: ignore[override] # bisect asks for no slices
        at = number + len(self) if number < 0 else number
        if not 0 <= at < len(self):
            raise IndexError(number)
        relative, position = _ENTRY.unpack_from(self._data, at * ENTRY_SIZE)
        return OffsetPosition(self._base + relative, position)
