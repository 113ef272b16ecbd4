"""Reads the batch headers of a segment's ``.log`` object.

Records are not read, so no checksum is compared (docstring of ``records.batch``).

References: KIP-98; Kafka's FileLogInputStream.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.records.batch import BATCH_OVERHEAD, PREFIX_SIZE, BatchHeader, BatchPrefix, read_unverified_header
from kafka_remote_client.remote_log.kept_only import about_to_read

__all__ = ["SegmentLog"]


@attrs.frozen
class SegmentLog:
    """A segment's log in a store. :meth:`walk` reads ``chunk`` bytes at a time. Reads raise NotKeptError in kept_only."""

    store: RemoteObjectStore
    key: str
    start_offset: int
    end_offset: int
    size: int
    chunk: int = 65536

    @classmethod
    def of(cls, store: RemoteObjectStore, key: str, metadata: RemoteLogSegmentMetadata) -> SegmentLog:
        return cls(store, key, metadata.start_offset, metadata.end_offset, metadata.segment_size_in_bytes)

    def header(self, position: int) -> BatchHeader:
        """The header of the batch that begins at ``position``.

        Raises CorruptIndexError when no batch of this segment can begin there: then the source of the position is wrong.
        """
        about_to_read()
        return self._parse(self.store.get_range(self.key, position, min(position + BATCH_OVERHEAD, self.size)), position)

    def walk(self, position: int) -> Iterator[BatchHeader]:
        """The headers from ``position`` to the end of the segment. Raises as :meth:`header`, also when offsets do not rise."""
        data, start = b"", position
        last = self.start_offset - 1
        while position < self.size:
            at = position - start
            if at + BATCH_OVERHEAD > len(data) and start + len(data) < self.size:
                about_to_read()
                start, at = position, 0
                data = self.store.get_range(self.key, start, min(start + self.chunk, self.size))
            header = self._parse(data[at : at + BATCH_OVERHEAD], position)
            if header.base_offset <= last:
                raise CorruptIndexError(f"{self.key}: offset {header.base_offset} at {position} after offset {last}")
            yield header
            last, position = header.last_offset, header.end

    def _parse(self, data: bytes, position: int) -> BatchHeader:
        if len(data) < PREFIX_SIZE:
            raise CorruptIndexError(f"{self.key}: no batch header at {position} of {self.size} bytes")
        prefix = BatchPrefix.read(data)
        if prefix.fault(self.size - position):
            raise CorruptIndexError(f"{self.key}: no batch begins at {position} (magic {prefix.magic}, {prefix.size} bytes)")
        if len(data) < prefix.header_size:
            raise CorruptIndexError(f"{self.key}: the batch header at {position} is cut off")
        header = read_unverified_header(data, position, prefix)
        base, last = header.base_offset, header.last_offset
        if not self.start_offset <= base <= last <= self.end_offset:
            raise CorruptIndexError(
                f"{self.key}: the batch at {position} has offsets {base} to {last}, "
                f"the segment {self.start_offset} to {self.end_offset}"
            )
        return header
