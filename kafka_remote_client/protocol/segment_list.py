"""A list of a partition's remote segments, as a peer sends it for a plan: entries of 68 bytes, one behind the other.

::

    offset | size | type | field        | note
    0      | 16   | uuid | SegmentId    |
    16     | 8    | i64  | StartOffset  | the segment's own first offset
    24     | 8    | i64  | EndOffset    | the segment's own last offset, inclusive
    32     | 8    | i64  | FirstOffset  | the first offset of the segment that belongs to the log
    40     | 8    | i64  | NextOffset   | the first offset after the last one that belongs to the log
    48     | 4    | i32  | LeaderEpoch  | of StartOffset
    52     | 8    | i64  | MaxTimestamp | in ms; -1 = not known
    60     | 8    | i64  | SizeInBytes  | of the whole segment

Entries have one size, so a plan of many segments reads them without a loop over their fields. They are in the order of their
offsets and do not overlap. A list says where splits may end. It grants nothing, and no leader confirms it.

References: docs/wire-format.md ("Lists of segments").
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.wire import Buffer

__all__ = ["ENTRY_BYTES", "SegmentEntry", "decode_entries", "encode_entries"]

_ENTRY = struct.Struct(">16sqqqqiqq")
ENTRY_BYTES = _ENTRY.size
_UNKNOWN_TIME = -1


class SegmentEntry(NamedTuple):
    """One segment, of which ``[first_offset, next_offset)`` belongs to the log. ``segment_id``: 16 bytes."""

    segment_id: bytes
    start_offset: int
    end_offset: int
    first_offset: int
    next_offset: int
    leader_epoch: int
    max_timestamp_ms: int
    size_in_bytes: int

    @property
    def id(self) -> UUID:
        return UUID(bytes=self.segment_id)


def encode_entries(entries: Iterable[SegmentEntry]) -> bytes:
    """The inverse of :func:`decode_entries`. Raises ProtocolError where that would."""
    entries = list(entries)
    _check(entries)
    return b"".join(_ENTRY.pack(*entry) for entry in entries)


def decode_entries(data: Buffer) -> list[SegmentEntry]:
    """The entries of a list. Raises ProtocolError for a partial entry, one that contradicts itself, and a wrong order."""
    if len(data) % ENTRY_BYTES:
        raise ProtocolError(f"a list of segments of {len(data)} bytes has a partial entry")
    entries = list(map(SegmentEntry._make, _ENTRY.iter_unpack(data)))
    _check(entries)
    return entries


def _check(entries: Iterable[SegmentEntry]) -> None:
    at = 0
    for _, start, end, first, following, epoch, timestamp, size in entries:
        if not (0 <= start <= first < following <= end + 1 and epoch >= 0 and size > 0 and timestamp >= _UNKNOWN_TIME):
            raise ProtocolError(
                f"a listed segment contradicts itself: offsets [{start}, {end}], of these [{first}, {following}), "
                f"epoch {epoch}, {size} bytes, timestamp {timestamp}"
            )
        if first < at:
            raise ProtocolError(f"listed segments overlap or are not in order: offset {first} follows {at}")
        at = following
