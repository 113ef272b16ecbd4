"""A fetcher over an object store that this process reads with its own credentials."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.errors import ObjectNotFoundError, RemoteStorageError, SegmentNotFoundError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import (
    LocationMetadata,
    ReadableStream,
    RemoteObjectStore,
    StreamingObjectStore,
    WritableBuffer,
)

__all__ = ["StoreFetcher"]


class StoreFetcher:
    """A RemoteStorageFetcher over a RemoteObjectStore, for sources whose ranges carry object keys. Does not own the store."""

    def __init__(self, store: RemoteObjectStore) -> None:
        self._store = store

    def configure(self, configs: Mapping[str, object]) -> None:
        """Has no settings: the store is configured already."""

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        key = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata).object_key
        if key is None:
            raise RemoteStorageError("the location has no object key")
        end = remote_log_segment_metadata.segment_size_in_bytes if end_position == -1 else end_position
        try:
            if isinstance(self._store, StreamingObjectStore):
                return self._store.open_range(key, start_position, end)
            return _RangeStream(self._store.get_range(key, start_position, end))
        except ObjectNotFoundError as error:
            raise SegmentNotFoundError(str(error)) from None

    def close(self) -> None:
        """Leaves the store to its owner."""


class _RangeStream:
    """The bytes of a store that has no streams."""

    def __init__(self, data: bytes) -> None:
        self._rest = memoryview(data)

    def readinto(self, buffer: WritableBuffer, /) -> int:
        target = memoryview(buffer)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        self._rest = self._rest[:0]
