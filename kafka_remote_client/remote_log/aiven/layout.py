"""Aiven's plugin as an object layout.

================= =================================================================================
object            holds
================= =================================================================================
``.log``          the segment, in chunks that may be compressed and encrypted, or as Kafka wrote it
``.indexes``      all index files, one after the other; each is encrypted separately if the log is encrypted
``.rsm-manifest`` the encoding of this segment, and the position of each index and chunk
================= =================================================================================

The plugin uploads the manifest last. A segment without one was not copied completely, was deleted, has another prefix, or is an
Iceberg table. In all these cases it has no location.

Keys come from the custom metadata if the plugin is configured to write them there, otherwise from the configured prefix and the
segment's id.

References: Aiven-Open/tiered-storage-for-apache-kafka; docs/aiven.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from kafka_remote_client.errors import CorruptChunkError, CorruptIndexError, RemoteLogMetadataError
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import ByteRange, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven import keys
from kafka_remote_client.remote_log.aiven.chunk_index import aligned
from kafka_remote_client.remote_log.aiven.chunk_table import CHUNKED_FORMAT, check_chunk_bytes
from kafka_remote_client.remote_log.aiven.chunked_logs import ChunkedLogs
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.manifest_cache import ManifestCache, StoredLog
from kafka_remote_client.remote_log.layout import (
    LayoutOptions,
    ListedSegment,
    LocatedRange,
    LocatedSegment,
    ObjectKind,
    located_as_they_are,
    segment_order,
    topic_in_directory,
)
from kafka_remote_client.remote_log.loading_cache import LoadingCache

__all__ = ["AivenLayout"]
_MAX_INDEXES_BYTES = 16 * 1024 * 1024
_DIRECTORY = re.compile(r"(?P<topic>.+)-[A-Za-z0-9_-]{22}", re.ASCII)


class AivenLayout:
    """The objects whose keys begin with ``key_prefix``. ``key_ring``: the private keys for encrypted segments."""

    name = "aiven"
    format_name = CHUNKED_FORMAT

    def __init__(self, key_prefix: str = "", key_ring: KeyRing | None = None) -> None:
        self.prefix = key_prefix
        self.key_ring = key_ring or KeyRing()
        self._manifests = ManifestCache(self.key_ring)
        self._whole_indexes: LoadingCache[bytes] = LoadingCache(_MAX_INDEXES_BYTES)

    @classmethod
    def of_options(cls, options: LayoutOptions) -> AivenLayout:
        """The layout for a user's options. Raises ConfigurationError for keys that cannot be read, MissingExtraError."""
        return cls(options.key_prefix, KeyRing.of_files(options.encryption_keys))

    def prefix_of(self, topic: str | None = None) -> str:
        return self.prefix if topic is None else f"{self.prefix}{topic}-"

    def topic_of(self, key: str) -> str | None:
        return topic_in_directory(key, self.prefix, _DIRECTORY)

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        """Raises RemoteLogMetadataError for malformed custom metadata."""
        custom = AivenCustomMetadata.decode(metadata.custom_metadata)
        prefix = self.prefix if custom.object_prefix is None else custom.object_prefix
        main = custom.object_key
        if main is None:
            main = keys.main_path(metadata.remote_log_segment_id, metadata.start_offset)
        return f"{prefix}{main}.{keys.LOG if kind is ObjectKind.LOG else keys.INDEXES}"

    def list_segments(self, store: RemoteObjectStore, topic: str | None = None) -> Iterator[ListedSegment]:
        objects: list[tuple[keys.SegmentObjectKey, int]] = []
        for info in store.list(self.prefix_of(topic)):
            parsed = keys.parse_key(info.key, self.prefix)
            if parsed and topic in {None, parsed.remote_log_segment_id.topic_id_partition.topic}:
                objects.append((parsed, info.size))
        objects.sort(key=lambda found: segment_order(found[0].remote_log_segment_id, found[0].start_offset))
        for (segment_id, start), group in groupby(
            objects, lambda found: (found[0].remote_log_segment_id, found[0].start_offset)
        ):
            yield ListedSegment(segment_id, start, _sizes({found.suffix: size for found, size in group}))

    def stored_metadata(self, store: RemoteObjectStore, segment: ListedSegment) -> RemoteLogSegmentMetadata | None:
        main = keys.main_path(segment.remote_log_segment_id, segment.start_offset)
        manifest = self._manifests.manifest(store, f"{self.prefix}{main}.{keys.LOG}")
        described = manifest.segment_metadata()
        if (described.remote_log_segment_id, described.start_offset) != (segment.remote_log_segment_id, segment.start_offset):
            raise RemoteLogMetadataError(f"the manifest describes segment {described.remote_log_segment_id}")
        sizes = segment.sizes[ObjectKind.LOG], segment.sizes[ObjectKind.OFFSET_INDEX]
        expected = manifest.chunks.object_end, max(piece.position + piece.size for piece in manifest.indexes.values())
        if sizes != expected:
            raise RemoteLogMetadataError(f"log and indexes have {sizes} bytes; the manifest says {expected}")
        return described

    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        """Also raises DataKeyError, if the segment is encrypted and its key is not available.

        The offset index raises RemoteLogMetadataError if the chunks are too large for a location: a look-up would read batch
        headers at its positions, and restore a whole chunk for each.
        """
        stored = self._stored_log(store, metadata)
        if kind is ObjectKind.OFFSET_INDEX and not stored.manifest.encoding.is_plain:
            check_chunk_bytes(stored.manifest.chunks)
        piece = stored.manifest.indexes.get(kind)
        if piece is None or not piece.size:
            return b""
        key = self.object_key(metadata, kind)
        data = self._stored_bytes(store, key, piece.position, piece.position + piece.size)
        if len(data) != piece.size:
            raise CorruptIndexError(f"{key}: {len(data)} of {piece.size} bytes of the {kind.value} at {piece.position}")
        cipher = stored.cipher()
        if cipher is None:
            return data
        try:
            return cipher.decrypt(data)
        except CorruptChunkError as error:
            raise CorruptIndexError(f"{key}: {kind.value} at {piece.position}: {error}") from None

    def offer_indexes(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, *, missing: bool
    ) -> Iterator[Callable[[], None]]:
        """Reads of the manifest and, if an index is missing, of all indexes as they are stored. They can run in parallel."""
        offered = [self._manifests.offer_manifest(store, self.object_key(metadata, ObjectKind.LOG))]
        if missing:
            key = self.object_key(metadata, ObjectKind.OFFSET_INDEX)
            offered.append(self._whole_indexes.offer((store, key), lambda: _sized(store.get(key))))
        yield from (begin for begin in offered if begin is not None)

    def original_logs(self, store: RemoteObjectStore) -> RemoteObjectStore:
        return ChunkedLogs(store, self._manifests)

    def locate(
        self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, ranges: Sequence[ByteRange]
    ) -> LocatedSegment:
        """The ranges of a chunked log end at ends of chunks, and each location has the chunk table of its own chunks."""
        key = self.object_key(metadata, ObjectKind.LOG)
        stored = self._stored_log(store, metadata)
        if stored.manifest.encoding.is_plain:
            return located_as_they_are(key, ranges)
        located = []
        for one in aligned(ranges, stored.manifest.chunks):
            table = stored.table(one.start, one.end)
            location = LocationMetadata(object_key=key, chunk_table=table.encode(), data_key=stored.data_key)
            located.append(LocatedRange(one, table.chunks.object_range, location))
        return LocatedSegment(CHUNKED_FORMAT, tuple(located))

    def manifest_statistics(self) -> CacheStatistics:
        return self._manifests.statistics()

    def _stored_bytes(self, store: RemoteObjectStore, key: str, start: int, end: int) -> bytes:
        """Bytes ``[start, end)`` of an ``.indexes`` object: from the whole object if its read was offered, else these only."""
        if self._whole_indexes.has((store, key)):
            return self._whole_indexes.get((store, key), lambda: _sized(store.get(key)))[start:end]
        return store.get_range(key, start, end)

    def _stored_log(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredLog:
        stored = self._manifests.stored_log(store, self.object_key(metadata, ObjectKind.LOG))
        size = stored.manifest.chunks.original_end
        if size != metadata.segment_size_in_bytes:
            raise RemoteLogMetadataError(
                f"segment {metadata.remote_log_segment_id} has {metadata.segment_size_in_bytes} bytes, its manifest says {size}"
            )
        return stored


def _sized(data: bytes) -> tuple[bytes, int]:
    return data, len(data)


def _sizes(objects: dict[str, int]) -> dict[ObjectKind, int]:
    """Sizes by kind. A missing manifest is detected when it is read."""
    sizes = {kind: objects[keys.INDEXES] for kind in ObjectKind if keys.INDEXES in objects}
    sizes.pop(ObjectKind.LOG, None)
    return sizes | ({ObjectKind.LOG: objects[keys.LOG]} if keys.LOG in objects else {})
