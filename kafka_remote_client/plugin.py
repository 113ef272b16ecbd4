"""All that a plugin author must read.

A plugin is a class with the methods of :class:`RemoteStorageFetcher`; it subclasses nothing. It is found by its name in the
entry-point group ``kafka_remote_client.fetchers`` (or by ``package.module:Class``), built without arguments, and configured
once. One instance is shared by all threads of a consumer.

Positions are bytes of the **original** segment file as Kafka wrote it. A store that keeps segments in another shape is served
by a wrapper around a plain fetcher.

``remote_log_segment_metadata.custom_metadata`` holds what the location says about this very range: decode it with
:meth:`LocationMetadata.decode` to get a signed URL or an object key. It is a secret; keep it out of messages and logs.

Prove a plugin with ``kafka_remote_client.testing.RemoteStorageFetcherTests``.

References: KIP-1254, "New or Changed Public Interfaces".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import attrs

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata

__all__ = [
    "DeclaresSettings",
    "LocationMetadata",
    "ObjectInfo",
    "ObjectSigner",
    "ReadableStream",
    "RemoteObjectStore",
    "RemoteStorageFetcher",
    "SignedUrl",
    "StorageFormat",
    "StreamingObjectStore",
    "VersionedObjectStore",
    "WritableBuffer",
]

WritableBuffer: TypeAlias = bytearray | memoryview


class ReadableStream(Protocol):
    """The bytes of one range, in order, once."""

    def readinto(self, buffer: WritableBuffer, /) -> int:
        """Fills the front of ``buffer`` and returns how many bytes it wrote; 0 only at the end of the range.

        Raises a RemoteStorageError kind when the store fails in the middle, or ends before the range.
        """

    def close(self) -> None:
        """Gives the connection back, or closes it when the range was not read to its end. May be called twice."""


@runtime_checkable
class RemoteStorageFetcher(Protocol):
    """KIP-1254's interface: reads byte ranges of segments from a store."""

    def configure(self, configs: Mapping[str, object]) -> None:
        """Takes the consumer's ``fetch.remote.*`` and ``remote.storage.fetcher.*`` settings, once, before any fetch.

        Raises ConfigurationError for a value that it cannot accept.
        """

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        """Opens bytes ``[start_position, end_position)`` of a segment; ``end_position`` -1 reads to its end.

        Raises only RemoteStorageError kinds (kafka_remote_client.errors), with no URL in any text.
        """

    def close(self) -> None:
        """Releases connections. Fetches in flight may fail. May be called twice."""


@runtime_checkable
class DeclaresSettings(Protocol):
    """What a fetcher or store may have besides, so that a misspelled key is refused and not ignored.

    ``settings`` are all keys below ``remote.storage.fetcher.`` that it reads, in full. A plugin without it gets every key.
    """

    settings: ClassVar[frozenset[str]]


@attrs.frozen
class ObjectInfo:
    """An object of a store: its key below the store's root, and its size in bytes."""

    key: str
    size: int


class RemoteObjectStore(Protocol):
    """What reads the tier's *other* objects (indexes, checkpoints, manifests) with credentials of its own.

    The shim and the sources that need no broker stand on it; a consumer with signed URLs never does. Keys are relative,
    separated by ``/``. Found by URL scheme in the entry-point group ``kafka_remote_client.stores``, and built with that URL
    and a mapping of options: settings of its kind without the prefix ``remote.storage.fetcher.``, from among others.
    """

    def get(self, key: str) -> bytes:
        """The whole object. Raises ObjectNotFoundError, or a RemoteStorageError kind."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)``, cut at the object's end. Raises as :meth:`get`."""

    def size(self, key: str) -> int:
        """The object's size in bytes. Raises as :meth:`get`."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects whose key starts with ``prefix``, in the order of their keys."""

    def close(self) -> None:
        """Releases connections."""


@runtime_checkable
class VersionedObjectStore(Protocol):
    """What a RemoteObjectStore may have besides, so that readers are bound to the version of a log that was looked at."""

    def etag(self, key: str) -> str | None:
        """The ETag of the object as it is now; None where the store gives none. Raises as :meth:`RemoteObjectStore.get`."""


@runtime_checkable
class StreamingObjectStore(Protocol):
    """What a RemoteObjectStore may have besides, so that the bytes of a log are received in the memory of their reader.

    Without it, ranges of logs come from :meth:`RemoteObjectStore.get_range`, and each is copied once more.
    """

    def open_range(self, key: str, start: int, end: int) -> ReadableStream:
        """Opens bytes ``[start, end)``. Raises as :meth:`RemoteObjectStore.get`, and RangeNotSatisfiableError if the range is
        empty or the object ends before ``end``.
        """


def _secret(value: object) -> str:
    return "<redacted>" if value else repr(value)


@attrs.frozen
class SignedUrl:
    """A URL that opens one object for a while, and the headers that its reader has to send with it, besides Range.

    Both are bearer secrets and never shown. ``life_seconds``: how long that while is; ``None`` = as long as was asked for.
    """

    url: str = attrs.field(repr=_secret)
    headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=_secret)
    life_seconds: float | None = None


class ObjectSigner(Protocol):
    """Signs URLs of a store's objects for clients that have no credentials: what a shim grants. Thread safe.

    Found by URL scheme in the entry-point group ``kafka_remote_client.signers``, and built as the store of that URL is.
    ``binds_ranges`` False: its URLs open the whole object whatever range they are signed for, which shows a client what
    DeleteRecords and retention have hidden. Such URLs are granted only where that is permitted.
    """

    binds_ranges: bool

    def sign(self, object_key: str, byte_range: ByteRange, ttl_seconds: float, etag: str | None = None) -> SignedUrl:
        """Opens those bytes of that object, of the version ``etag`` where one is given, for ``ttl_seconds``.

        A signer whose credentials end before that says so in ``SignedUrl.life_seconds``: a grant promises no longer life.
        Raises ValueError for what is no object key, RemoteStorageError kinds where nothing can be signed now.
        """


class StorageFormat(Protocol):
    """Reads segments of one storage format as Kafka wrote them. Found by the format's name, as locations announce it, in the
    entry-point group ``kafka_remote_client.storage_formats``, and built without arguments.
    """

    def missing(self) -> str | None:
        """The command that installs what is needed here to read the format; None = it can be read, and is offered."""

    def restoring(self, inner: RemoteStorageFetcher) -> RemoteStorageFetcher:
        """A fetcher that takes positions of the original segment, over one that takes those of the stored object.

        What restores a range is in its location, where the layout put it: ``LocationMetadata.chunk_table`` and ``data_key``.
        """
