"""GCS, Azure and S3 by obstore: a fetcher with own credentials, and the store that reads the tier's other objects.

Settings: ``store.url`` (``gs://…``, ``az://…``, ``s3://…``) and those of :mod:`kafka_remote_fetchers._obstore`, declared in
:mod:`kafka_remote_fetchers._settings`.

Each range is one request, which is not repeated here: that is the client's to decide. Its deadline holds for the whole body;
fetching a credential first has one of its own, as long. obstore gives bytes by the piece, so
``fetch.remote.min.bytes.per.second`` has no say here: a trickle ends with that deadline.

Permissions: reading objects, and for the store listing them (GCS storage.objects.get and .list, Azure "Storage Blob Data
Reader", S3 as :mod:`kafka_remote_fetchers.s3_store`).

References: KIP-1254 "Authentication".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import obstore

from kafka_remote_client.errors import (
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
    SegmentNotFoundError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ObjectInfo, ReadableStream, WritableBuffer
from kafka_remote_fetchers._byte_range import WantedRange, bytes_between
from kafka_remote_fetchers._obstore import OBSTORE_SETTINGS, ConnectedStore, connected_store, obstore_guarded
from kafka_remote_fetchers._range_client import quoted_etag
from kafka_remote_fetchers._settings import fetcher_settings, int_setting, store_options, store_url

__all__ = ["ObjectStore", "ObjectStoreFetcher"]

_PIECE = 512 * 1024
_STORE_SECONDS = 60.0
_ONE_BYTE = {"range": (0, 1)}


class ObjectStoreFetcher:
    """The fetcher ``object_store``."""

    settings: ClassVar[frozenset[str]] = OBSTORE_SETTINGS | fetcher_settings("store.url")

    def __init__(self) -> None:
        self._connected: ConnectedStore | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        self._connected = connected_store(
            store_url(configs),
            store_options(configs),
            connect_seconds=int_setting(configs, "fetch.remote.connect.timeout.ms") / 1000,
            total_seconds=int_setting(configs, "fetch.remote.read.timeout.ms") / 1000,
            idle=int_setting(configs, "fetch.remote.max.in.flight"),
        )

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        connected = self._connected
        if connected is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured, or closed")
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.object_key is None:
            raise RemoteStorageError("the location has no object key")
        byte_range = {"offset": wanted.start} if wanted.end is None else (wanted.start, wanted.end)
        options: dict[str, Any] = {"range": byte_range}
        if location.etag is not None:
            options["if_match"] = quoted_etag(location.etag)
        return _stream(connected, _asked(connected, location.object_key, options), wanted, location.etag)

    def close(self) -> None:
        """Later fetches fail; those in flight end by themselves."""
        self._connected = None


class ObjectStore:
    """A RemoteObjectStore over one bucket. Thread safe."""

    settings: ClassVar[frozenset[str]] = OBSTORE_SETTINGS

    def __init__(self, url: str, options: Mapping[str, object] | None = None) -> None:
        """Raises ConfigurationError for a URL or an option that cannot be. Asks nothing of the store yet."""
        self._connected = connected_store(url, options or {}, connect_seconds=5.0, total_seconds=_STORE_SECONDS)

    def get(self, key: str) -> bytes:
        return self._bytes(key, {})

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return bytes_between(start, end, lambda: self._bytes(key, {"range": (start, end)}))

    def open_range(self, key: str, start: int, end: int) -> ReadableStream:
        wanted = WantedRange.of(start, end)
        return _stream(self._connected, self._found(key, {"range": (start, end)}), wanted)

    def size(self, key: str) -> int:
        # A HEAD has no body, which could tell a bucket that is gone from an object that is not there
        try:
            return int(self._found(key, _ONE_BYTE).meta["size"])
        except RangeNotSatisfiableError:
            return 0

    def etag(self, key: str) -> str | None:
        try:
            found = self._found(key, _ONE_BYTE).meta.get("e_tag")
        except RangeNotSatisfiableError:
            return None
        return None if found is None else str(found)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # obstore's prefixes are whole directories
        location = self._connected.location
        wanted = location.prefix + prefix
        pages = obstore.list(self._connected.store, prefix=wanted.rpartition("/")[0] or None)
        while page := obstore_guarded(self._connected.name, next, pages, None):
            for item in page:
                key = location.key(item["path"])
                if key is not None and item["path"].startswith(wanted):
                    yield ObjectInfo(key, int(item["size"]))

    def close(self) -> None:
        """Connections end with the store."""

    def _bytes(self, key: str, options: Mapping[str, Any]) -> bytes:
        result = self._found(key, options)
        return bytes(obstore_guarded(self._connected.name, result.bytes))

    def _found(self, key: str, options: Mapping[str, Any]) -> Any:
        try:
            return _asked(self._connected, key, options)
        except SegmentNotFoundError:
            pass
        raise ObjectNotFoundError(key)


def _asked(connected: ConnectedStore, key: str, options: Any) -> Any:
    name = connected.location.name(key)
    return obstore_guarded(connected.name, obstore.get, connected.store, name, options=options)


def _stream(connected: ConnectedStore, result: Any, wanted: WantedRange, etag: str | None = None) -> ReadableStream:
    """The body of an answer. Raises as :func:`_check`."""
    _check(result, wanted, etag)
    start, end = result.range
    return _PieceStream(connected.name, iter(result.stream(min_chunk_size=_PIECE)), end - start)


def _check(result: Any, wanted: WantedRange, etag: str | None) -> None:
    """Raises unless the answer is the range that was asked for, of that version: not every store heeds If-Match."""
    start, end = result.range
    if start != wanted.start or end != wanted.end_in(int(result.meta["size"])):
        raise RangeNotSatisfiableError(f"the store returned bytes [{start}, {end}) instead of {wanted}")
    found = result.meta.get("e_tag")
    if etag is not None and found is not None and found.strip('"') != etag.strip('"'):
        raise SegmentNotFoundError("the object was replaced")


class _PieceStream:
    """A ReadableStream over pieces of bytes, ``length`` in all."""

    def __init__(self, name: str, pieces: Iterator[bytes], length: int) -> None:
        self._name = name
        self._pieces: Iterator[bytes] | None = pieces
        self._piece = memoryview(b"")
        self._remaining = length

    def readinto(self, buffer: WritableBuffer, /) -> int:
        with memoryview(buffer) as whole, whole.cast("B") as data:
            if not len(data) or not self._remaining:
                return 0
            if self._pieces is None:
                raise RemoteStorageUnavailableError("the stream is closed")
            if not len(self._piece):
                self._piece = memoryview(obstore_guarded(self._name, next, self._pieces, b""))
            count = min(len(data), len(self._piece), self._remaining)
            if not count:
                raise RemoteStorageUnavailableError(f"{self._name} ended its response before the range")
            data[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        self._remaining -= count
        return count

    def close(self) -> None:
        self._pieces = None
        self._piece = memoryview(b"")
