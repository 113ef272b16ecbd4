"""The offset index of a segment: from an offset to a position before which no batch can hold it.

No header, no checksum; ``n`` entries of 8 bytes, or of 12 where segments may exceed 2 GiB (KIP-1333):

====== ============ ============== ===============
offset size         type           field
====== ============ ============== ===============
0      4            int32          offset - base
4      4, 8 of 12   int32, int64   position
====== ============ ============== ===============

**The content tells the format**, because nothing else does and a topic may have both. An index whose length only one size
divides has entries of that size. If both do, it has the size in which all entries rise, and 8 if they rise in both. Two 12-byte
entries, read as three of 8 bytes, do not rise: the third offset is the upper half of a position, and 0 below 4 GiB.

Both fields rise strictly. The broker writes an entry when an append begins and enough bytes went by since the last entry:
``position`` is where that append's first batch begins, ``offset`` the **last** offset of that append. So every position is the
start of a batch, a batch that begins at ``position`` has a base offset at or below ``offset``, and the batch that holds
``offset`` begins at or after it.

References: Kafka's OffsetIndex, AbstractIndex; KIP-1333 (under discussion; message 156385 of the dev list, May 2026).
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import attrs

from kafka_remote_client.errors import CorruptIndexError

__all__ = ["OffsetIndex", "OffsetPosition", "tail_size"]

_ENTRIES = (struct.Struct(">ii"), struct.Struct(">iq"))
_BOTH_SIZES = 24


def tail_size(size: int) -> int | None:
    """How many of the last bytes of an index of ``size`` bytes tell its format and last entry; None if no format fits."""
    fitting = [entry.size for entry in _ENTRIES if size % entry.size == 0]
    return min(size, _BOTH_SIZES if len(fitting) > 1 else fitting[0]) if fitting else None


@attrs.frozen
class OffsetPosition:
    """An entry with its absolute offset."""

    offset: int
    position: int


class OffsetIndex:
    """An immutable index over the object's bytes."""

    __slots__ = ("_data", "_entries", "base_offset")

    def __init__(self, data: bytes, base_offset: int) -> None:
        """Raises CorruptIndexError for a length that is no multiple of 8 or 12, and for entries that do not rise."""
        fitting = [entry for entry in _ENTRIES if len(data) % entry.size == 0]
        if not fitting:
            raise CorruptIndexError(f"offset index of segment {base_offset} has {len(data)} bytes")
        faults = [(entry, _fault(entry, data)) for entry in fitting]
        entry, fault = next((one for one in faults if one[1] is None), faults[0])
        if fault is not None:
            raise CorruptIndexError(f"offset index of segment {base_offset} has {fault}")
        self.base_offset = base_offset
        self._data = data
        self._entries = _Entries(entry, data, base_offset)

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


def _fault(entry: struct.Struct, data: bytes) -> str | None:
    """The first entry that does not rise; None if all do."""
    last_offset, last_position = -1, -1
    for relative, position in entry.iter_unpack(data):
        if relative <= last_offset or position <= last_position:
            return f"({relative}, {position}) after ({last_offset}, {last_position})"
        last_offset, last_position = relative, position
    return None


class _Entries(Sequence[OffsetPosition]):
    """The entries, decoded one by one where they are touched: an index of 10 MiB stays 10 MiB."""

    __slots__ = ("_base", "_data", "_entry")

    def __init__(self, entry: struct.Struct, data: bytes, base: int) -> None:
        self._entry = entry
        self._data = data
        self._base = base

    def __len__(self) -> int:
        return len(self._data) // self._entry.size

    def __getitem__(self, number: int) -> OffsetPosition:  # type: ignore[override] # bisect asks for no slices
        at = number + len(self) if number < 0 else number
        if not 0 <= at < len(self):
            raise IndexError(number)
        relative, position = self._entry.unpack_from(self._data, at * self._entry.size)
        return OffsetPosition(self._base + relative, position)
