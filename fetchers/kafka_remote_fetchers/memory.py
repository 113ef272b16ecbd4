"""Reads segments from a dictionary: for tests, and for trying things out without a store."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import ClassVar

from kafka_remote_client.errors import RemoteStorageError, RemoteStorageUnavailableError, SegmentNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, WritableBuffer
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._settings import fetcher_settings

__all__ = ["MemoryFetcher"]


class MemoryFetcher:
    """The fetcher ``memory``. ``objects`` maps object keys to bytes.

    An instance made by name, as a consumer makes it, reads :attr:`shared`, which everything in the process shares.
    """

    settings: ClassVar[frozenset[str]] = fetcher_settings()
    shared: ClassVar[MutableMapping[str, bytes]] = {}

    def __init__(self, objects: Mapping[str, bytes] | None = None) -> None:
        self._objects = self.shared if objects is None else objects
        self._closed = False

    def configure(self, configs: Mapping[str, object]) -> None:
        """Has no settings."""

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        wanted = WantedRange.of(start_position, end_position)
        key = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata).object_key
        if self._closed:
            raise RemoteStorageUnavailableError("the fetcher is closed")
        if key is None:
            raise RemoteStorageError("the location has no object key")
        data = self._objects.get(key)
        if data is None:
            raise SegmentNotFoundError("the object does not exist")
        return _MemoryRangeStream(memoryview(data)[wanted.start : wanted.end_in(len(data))])

    def close(self) -> None:
        self._closed = True


class _MemoryRangeStream:
    """A ReadableStream over a slice."""

    def __init__(self, data: memoryview) -> None:
        self._rest = data
        self._closed = False

    def readinto(self, buffer: WritableBuffer, /) -> int:
        with memoryview(buffer) as whole, whole.cast("B") as target:
            count = min(len(target), len(self._rest))
            if count and self._closed:
                raise RemoteStorageUnavailableError("the stream is closed")
            target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._closed = True
