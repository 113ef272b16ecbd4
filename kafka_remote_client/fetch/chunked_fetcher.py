"""Restores original segments from stores that keep them in chunks, above any fetcher.

::

    fetch_log_segment(original positions)
      └─ chunk table of the location ─► the chunks that hold them: adjacent, so one range of the object
           └─ the plain fetcher reads it ─► chunk by chunk: decrypt, decompress, trim ─► the caller's buffer

It wraps a plain fetcher, and is below metering and retries, so those see original positions and restored bytes. A
location without a chunk table is one of a log as Kafka wrote it, and is passed on unchanged.

Memory: one stored chunk and one restored chunk, for any range; a chunk that is read completely is restored in the
caller's buffer. Beyond 8 MiB memory does not follow the chunk table: it is at most twice the received bytes.

References: docs/design.md; docs/aiven.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from kafka_remote_client.errors import (
    ConfigurationError,
    CorruptChunkError,
    InvalidStorageResponseError,
    RangeNotSatisfiableError,
    RemoteLogError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.piecewise_stream import PiecewiseStream
from kafka_remote_client.fetch.range_io import DiscardingFetcher
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.pages import new_pages
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, RemoteStorageFetcher
from kafka_remote_client.remote_log.aiven.chunk_index import Chunk
from kafka_remote_client.remote_log.aiven.chunk_table import CHUNKED_FORMAT, ChunkTable
from kafka_remote_client.remote_log.aiven.transforms import ChunkTransform
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["CHUNKED_FORMATS", "ChunkedFetcher", "ChunkedFormat"]

CHUNKED_FORMATS = (ORIGINAL_FORMAT, CHUNKED_FORMAT)
"""The storage formats that can be read through a ChunkedFetcher."""

_INSTALL = "pip install 'kafka-remote-client[aiven]'"
_TO_THE_END = -1
_KEPT_BUFFERS = 4
_LARGEST_KEPT = 8 * 1024 * 1024
_FIRST_BYTES = 8 * 1024 * 1024


class ChunkedFormat:
    """The storage format of Aiven's plugin (kafka_remote_client.plugin.StorageFormat). Encrypted segments need an extra."""

    def missing(self) -> str | None:
        return None if find_spec("cryptography") is not None else _INSTALL

    def restoring(self, inner: RemoteStorageFetcher) -> ChunkedFetcher:
        return ChunkedFetcher(inner)


class ChunkedFetcher:
    """A RemoteStorageFetcher over another one. Thread safe where that one is."""

    def __init__(self, inner: RemoteStorageFetcher) -> None:
        self._inner = inner
        self._buffers = _Buffers()

    def configure(self, configs: Mapping[str, object]) -> None:
        self._inner.configure(configs)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        """Raises InvalidStorageResponseError for an invalid chunk table or a damaged chunk.

        A range outside the table's chunks is RangeNotSatisfiableError: the location is that of another range.
        """
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.chunk_table is None:
            return self._inner.fetch_log_segment(remote_log_segment_metadata, start_position, end_position)
        table, transform = _restoring(location.chunk_table, location.data_key)
        end = remote_log_segment_metadata.segment_size_in_bytes if end_position == _TO_THE_END else end_position
        try:
            chunks = table.chunks.select(start_position, end)
        except ValueError as error:
            raise RangeNotSatisfiableError(f"the location's chunks do not contain the range: {error}") from None
        wanted = chunks.object_range
        stream = self._inner.fetch_log_segment(remote_log_segment_metadata, wanted.start, wanted.end)
        return _ChunkedStream(stream, iter(chunks), transform, self._buffers, start_position, end)

    def discard(self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int) -> None:
        """Reports wrong bytes to the wrapped fetcher, in positions of the object."""
        if not isinstance(self._inner, DiscardingFetcher):
            return
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        wanted = ByteRange(start_position, end_position)
        if location.chunk_table is not None:
            table, _ = _restoring(location.chunk_table, location.data_key)
            wanted = table.chunks.select(start_position, end_position).object_range
        self._inner.discard(remote_log_segment_metadata, wanted.start, wanted.end)

    def close(self) -> None:
        try:
            self._buffers.restorers.shutdown()
        finally:
            self._inner.close()


def _restoring(chunk_table: bytes, data_key: bytes | None) -> tuple[ChunkTable, ChunkTransform]:
    try:
        table = ChunkTable.decode(chunk_table)
        return table, table.transform(data_key)
    except RemoteLogError as error:
        raise InvalidStorageResponseError(f"the location's chunk table is invalid: {error}") from None
    except ConfigurationError as error:  # a package is missing, so a retry does not help
        raise RemoteStorageError(str(error)) from None


class _ChunkedStream(PiecewiseStream):
    """A ReadableStream of the original bytes ``[start, end)``, over one of the chunks that hold them."""

    def __init__(
        self,
        stored: ReadableStream,
        chunks: Iterator[Chunk],
        transform: ChunkTransform,
        buffers: _Buffers,
        start: int,
        end: int,
    ) -> None:
        super().__init__(start, end)
        self._stored = stored
        self._chunks = chunks
        self._buffers = buffers
        self._buffer: memoryview | None = None
        self._transform = transform

    def close(self) -> None:
        self._at = self._end
        self._rest = memoryview(b"")
        buffer, self._buffer = self._buffer, None
        if buffer is not None:
            self._buffers.give_back(buffer)
        self._stored.close()

    def _next_piece(self, target: memoryview) -> int:
        chunk = next(self._chunks)
        try:
            with self._read(chunk.object_size) as stored:
                return self._buffers.restorers.submit(self._restore, stored, target, chunk).result()
        except CorruptChunkError as error:
            where = f"[{chunk.object_start}, {chunk.object_end})"
            raise InvalidStorageResponseError(f"cannot restore the chunk in bytes {where} of the object: {error}") from None

    def _restore(self, stored: memoryview, target: memoryview, chunk: Chunk) -> int:
        """Restores a chunk into ``target``, or apart if it is partly wanted or does not fit.

        A restoring thread runs it, so only as many chunks are restored apart at a time as there are such threads.
        """
        begin, end = max(self._at, chunk.original_start), min(self._end, chunk.original_end)
        size = chunk.original_size
        if end - begin == size <= len(target):
            with target[:size] as place:
                self._transform.restore(stored, place)
            return size
        restored = new_pages(size)
        self._transform.restore(stored, restored)
        wanted = restored[begin - chunk.original_start : end - chunk.original_start]
        if len(wanted) > len(target):
            self._rest = wanted
            return 0
        target[: len(wanted)] = wanted
        return len(wanted)

    def _read(self, size: int) -> memoryview:
        """Returns the next ``size`` bytes, in the buffer, which grows with the received bytes, not with announced sizes."""
        if self._buffer is None:
            self._buffer = self._buffers.take(size)
        filled = 0
        while filled < size:
            if filled == len(self._buffer):  # in new memory: the traceback of a kept error may refer to the old one
                larger = new_pages(min(2 * filled, size))
                larger[:filled] = self._buffer
                self._buffer = larger
            with self._buffer[filled:size] as free:
                count = self._stored.readinto(free)
                if not 0 < count <= len(free):
                    raise RemoteStorageUnavailableError(f"the store sent {filled} of {size} bytes of a chunk")
            filled += count
        return self._buffer[:size]


class _Buffers:
    """Reused buffers for stored chunks, one for each stream, because new memory costs more than the restoring."""

    def __init__(self) -> None:
        self._free: list[memoryview] = []
        self._lock = threading.Lock()
        # Few threads, because glibc keeps what the codec frees for each thread, and more than cores save no time.
        self.restorers = DaemonExecutor(os.cpu_count() or 1, "kafka-remote-restore")

    def take(self, size: int) -> memoryview:
        with self._lock:
            return self._free.pop() if self._free else new_pages(min(size, _FIRST_BYTES))

    def give_back(self, buffer: memoryview) -> None:
        with self._lock:
            if len(self._free) < _KEPT_BUFFERS and len(buffer) <= _LARGEST_KEPT:
                self._free.append(buffer)
