"""Aiven's plugin as an object layout.

================= =================================================================================
object            holds
================= =================================================================================
``.log``          the segment, in chunks that may be compressed and encrypted, or as Kafka wrote it
``.indexes``      all index files, one behind the other; each encrypted by itself where the log is
``.rsm-manifest`` which of that is so for this very segment, and where each index and chunk lies
================= =================================================================================

The manifest is uploaded last: a segment without one was not copied to its end, was deleted, lies under another prefix, or is
kept as an Iceberg table. Each of these means: no location.

Keys come from the custom metadata if the plugin is configured to write them there, else from the configured prefix and the
segment's identity.

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
from kafka_remote_client.remote_log.aiven.chunk_table import CHUNKED_FORMAT
from kafka_remote_client.remote_log.aiven.chunked_logs import ChunkedLogs
from kafka_remote_client.remote_log.aiven.custom_metadata import AivenCustomMetadata
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.manifest import SegmentManifest
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
    """The objects below ``key_prefix``, which is put in front of every name as it is. ``key_ring`` opens encrypted segments."""

    name = "aiven"
    format_name = CHUNKED_FORMAT

    def __init__(self, key_prefix: str = "", key_ring: KeyRing | None = None) -> None:
        self.prefix = key_prefix
        self.key_ring = key_ring or KeyRing()
        self._manifests = ManifestCache(self.key_ring)
        self._whole_indexes: LoadingCache[bytes] = LoadingCache(_MAX_INDEXES_BYTES)

    @classmethod
    def of_options(cls, options: LayoutOptions) -> AivenLayout:
        """The layout as users name it. Raises ConfigurationError for keys that cannot be read, MissingExtraError."""
        return cls(options.key_prefix, KeyRing.of_files(options.encryption_keys))

    def prefix_of(self, topic: str | None = None) -> str:
        return self.prefix if topic is None else f"{self.prefix}{topic}-"

    def topic_of(self, key: str) -> str | None:
        return topic_in_directory(key, self.prefix, _DIRECTORY)

    def object_key(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> str:
        """Raises RemoteLogMetadataError for custom metadata that does not parse."""
        told = AivenCustomMetadata.decode(metadata.custom_metadata)
        prefix = self.prefix if told.object_prefix is None else told.object_prefix
        main = (
            keys.main_path(metadata.remote_log_segment_id, metadata.start_offset)
            if told.object_key is None
            else told.object_key
        )
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
        told = manifest.segment_metadata()
        if (told.remote_log_segment_id, told.start_offset) != (segment.remote_log_segment_id, segment.start_offset):
            raise RemoteLogMetadataError(f"the manifest describes segment {told.remote_log_segment_id}")
        sizes = segment.sizes[ObjectKind.LOG], segment.sizes[ObjectKind.OFFSET_INDEX]
        wanted = manifest.chunks.object_end, max(piece.position + piece.size for piece in manifest.indexes.values())
        if sizes != wanted:
            raise RemoteLogMetadataError(f"log and indexes have {sizes} bytes; the manifest says {wanted}")
        return told

    def read_index(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata, kind: ObjectKind) -> bytes:
        """Raises DataKeyError as well, where the segment is encrypted and its key cannot be had."""
        stored = self._stored_log(store, metadata)
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
        """The manifest and, where an index is missing, all indexes as they are stored: neither has to wait for the other."""
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
        """Ranges of a log in chunks are cut where chunks end, and each location holds what restores its own chunks."""
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
        """Bytes ``[start, end)`` of an ``.indexes`` object: from the whole one where that was offered, else by themselves."""
        if self._whole_indexes.has((store, key)):
            return self._whole_indexes.get((store, key), lambda: _sized(store.get(key)))[start:end]
        return store.get_range(key, start, end)

    def _stored_log(self, store: RemoteObjectStore, metadata: RemoteLogSegmentMetadata) -> StoredLog:
        stored = self._manifests.stored_log(store, self.object_key(metadata, ObjectKind.LOG))
        _check_size(stored.manifest, metadata)
        return stored


def _check_size(manifest: SegmentManifest, metadata: RemoteLogSegmentMetadata) -> None:
    if manifest.chunks.original_end != metadata.segment_size_in_bytes:
        raise RemoteLogMetadataError(
            f"segment {metadata.remote_log_segment_id} has {metadata.segment_size_in_bytes} bytes, "
            f"its manifest says {manifest.chunks.original_end}"
        )


def _sized(data: bytes) -> tuple[bytes, int]:
    return data, len(data)


def _sizes(objects: dict[str, int]) -> dict[ObjectKind, int]:
    """By kind; a manifest that is missing is found out when it is read."""
    sizes = {kind: objects[keys.INDEXES] for kind in ObjectKind if keys.INDEXES in objects}
    sizes.pop(ObjectKind.LOG, None)
    return sizes | ({ObjectKind.LOG: objects[keys.LOG]} if keys.LOG in objects else {})
