"""The ``.log`` object of a segment, walked from batch header to batch header without reading the records.

Of a batch only the front is looked at (docstring of ``records.batch`` shows all of it)::

    offset | size | type | field                | note
    0      | 8    | i64  | baseOffset           | magic 0 and 1: the *last* offset of the entry
    8      | 4    | i32  | batchLength          | bytes after this field
    12     | 4    | i32  | partitionLeaderEpoch | magic 2
    16     | 1    | i8   | magic                |
    21     | 2    | i16  | attributes           | magic 2; bit 5 = control batch
    23     | 4    | i32  | lastOffsetDelta      | magic 2
    35     | 8    | i64  | maxTimestamp         | magic 2; magic 1 has its timestamp at 18

References: KIP-98; Kafka's FileLogInputStream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import UNKNOWN_EPOCH, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore

__all__ = ["HEADER_SIZE", "BatchFront", "SegmentLog"]

HEADER_SIZE = 61
_LOG_OVERHEAD = 12
_PREFIX = struct.Struct(">qiib")
_ATTRIBUTES_AND_DELTA = struct.Struct(">hi")
_TIMESTAMP = struct.Struct(">q")
_ATTRIBUTES_AT, _MAX_TIMESTAMP_AT, _LEGACY_TIMESTAMP_AT = 21, 35, 18
_MINIMAL_SIZE = {0: 14 + _LOG_OVERHEAD, 1: 22 + _LOG_OVERHEAD, 2: HEADER_SIZE}
_CONTROL = 0x20
_NO_TIMESTAMP = -1


@attrs.frozen
class BatchFront:
    """Where a batch lies and what it covers. ``base_offset`` of magic 0 and 1 is the last offset, too: no more is known."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    max_timestamp: int
    is_control: bool

    @property
    def end(self) -> int:
        return self.position + self.size


@attrs.frozen
class SegmentLog:
    """A segment's log in a store. ``chunk`` bytes are read at a time while walking."""

    store: RemoteObjectStore
    key: str
    start_offset: int
    end_offset: int
    size: int
    chunk: int = 65536

    @classmethod
    def of(cls, store: RemoteObjectStore, key: str, metadata: RemoteLogSegmentMetadata) -> SegmentLog:
        return cls(store, key, metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes)

    def front(self, position: int) -> BatchFront:
        """The batch that begins at ``position``.

        Raises CorruptIndexError when no batch of this segment can begin there, so that whatever named the position is wrong.
        """
        return self._parse(self.store.get_range(self.key, position, min(position + HEADER_SIZE, self.size)), position)

    def walk(self, position: int) -> Iterator[BatchFront]:
        """The batches from ``position`` to the end of the segment. Raises as :meth:`front`, also when offsets fall."""
        data, start = b"", position
        last = self.start_offset - 1
        while position < self.size:
            at = position - start
            if at + HEADER_SIZE > len(data) and start + len(data) < self.size:
                start, at = position, 0
                data = self.store.get_range(self.key, start, min(start + self.chunk, self.size))
            front = self._parse(data[at : at + HEADER_SIZE], position)
            if front.base_offset <= last:
                raise CorruptIndexError(f"{self.key}: offset {front.base_offset} at {position} after offset {last}")
            yield front
            last, position = front.last_offset, front.end

    def _parse(self, data: bytes, position: int) -> BatchFront:
        if len(data) < _PREFIX.size:
            raise CorruptIndexError(f"{self.key}: no batch header at {position} of {self.size} bytes")
        base, length, epoch, magic = _PREFIX.unpack_from(data)
        size = _LOG_OVERHEAD + length
        if magic not in _MINIMAL_SIZE or size < _MINIMAL_SIZE[magic] or position + size > self.size:
            raise CorruptIndexError(f"{self.key}: no batch begins at {position} (magic {magic}, {size} bytes)")
        if len(data) < _MINIMAL_SIZE[magic]:
            raise CorruptIndexError(f"{self.key}: the batch header at {position} is cut off")
        last, timestamp, attributes = base, _NO_TIMESTAMP, 0
        if magic == 2:
            attributes, delta = _ATTRIBUTES_AND_DELTA.unpack_from(data, _ATTRIBUTES_AT)
            last += delta
            timestamp = _TIMESTAMP.unpack_from(data, _MAX_TIMESTAMP_AT)[0]
        else:
            epoch = UNKNOWN_EPOCH
            if magic == 1:
                timestamp = _TIMESTAMP.unpack_from(data, _LEGACY_TIMESTAMP_AT)[0]
        if not self.start_offset <= base <= last <= self.end_offset:
            raise CorruptIndexError(
                f"{self.key}: the batch at {position} has offsets {base} to {last}, "
                f"the segment {self.start_offset} to {self.end_offset}"
            )
        return BatchFront(position, size, base, last, epoch, magic, timestamp, bool(attributes & _CONTROL))
