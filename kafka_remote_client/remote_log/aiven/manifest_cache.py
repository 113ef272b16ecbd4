"""A cache of manifests and data keys.

A decrypted data key stays valid: the manifest may be written again for another private key, with the same data key.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aiven.chunk_table import ChunkTable
from kafka_remote_client.remote_log.aiven.key_ring import KeyRing
from kafka_remote_client.remote_log.aiven.keys import MANIFEST, with_suffix
from kafka_remote_client.remote_log.aiven.manifest import MAX_MANIFEST_BYTES, SegmentManifest, parse_manifest
from kafka_remote_client.remote_log.aiven.transforms import ChunkCipher, ChunkTransform
from kafka_remote_client.remote_log.loading_cache import LoadingCache

__all__ = ["ManifestCache", "StoredLog"]

_MAX_BYTES = 32 * 1024 * 1024


@attrs.frozen(eq=False)
class StoredLog:
    """A segment's manifest and, if the segment is encrypted, its data key, which the repr hides."""

    manifest: SegmentManifest
    data_key: bytes | None = attrs.field(default=None, repr=False)

    def cipher(self) -> ChunkCipher | None:
        """The cipher of its chunks and indexes; None if the segment is not encrypted."""
        encryption = self.manifest.encryption
        if encryption is None:
            return None
        assert self.data_key is not None  # unwrapped by the code that made this
        return ChunkCipher(self.data_key, encryption.aad)

    def transform(self) -> ChunkTransform:
        """The transform that restores its chunks."""
        return ChunkTransform(self.manifest.encoding, self.cipher())

    def table(self, start: int, end: int) -> ChunkTable:
        """The chunks of the original bytes ``[start, end)``. Raises ValueError outside the segment."""
        encryption = self.manifest.encryption
        aad = None if encryption is None else encryption.aad
        return ChunkTable(self.manifest.chunks.select(start, end), self.manifest.encoding, aad)


class ManifestCache:
    """Thread safe. Raises the errors of the store, RemoteLogMetadataError, and DataKeyError where it needs a key."""

    def __init__(self, keys: KeyRing, *, max_bytes: int = _MAX_BYTES) -> None:
        self._keys = keys
        self._manifests: LoadingCache[SegmentManifest] = LoadingCache(max_bytes)
        self._data_keys: LoadingCache[bytes] = LoadingCache(max_bytes)

    def manifest(self, store: RemoteObjectStore, log_key: str) -> SegmentManifest:
        """The manifest of the segment whose log is ``log_key``. It needs no private key."""
        # One layout may serve several stores with equal object keys.
        return self._manifests.get((store, log_key), lambda: _read(store, log_key))

    def offer_manifest(self, store: RemoteObjectStore, log_key: str) -> Callable[[], None] | None:
        """A read of the manifest that a thread pool may begin, see :meth:`LoadingCache.offer`."""
        return self._manifests.offer((store, log_key), lambda: _read(store, log_key))

    def stored_log(self, store: RemoteObjectStore, log_key: str) -> StoredLog:
        """The manifest and the data key."""
        manifest = self.manifest(store, log_key)
        if manifest.encryption is None:
            return StoredLog(manifest)
        wrapped = (manifest.encryption.key_id, manifest.encryption.wrapped_key)
        return StoredLog(manifest, self._data_keys.get(wrapped, lambda: self._unwrap(*wrapped)))

    def statistics(self) -> CacheStatistics:
        """Hits and misses of manifests."""
        return self._manifests.statistics()

    def _unwrap(self, key_id: str, wrapped_key: bytes) -> tuple[bytes, int]:
        data_key = self._keys.unwrap(key_id, wrapped_key)
        return data_key, len(data_key) + len(wrapped_key)


def _read(store: RemoteObjectStore, log_key: str) -> tuple[SegmentManifest, int]:
    data = store.get_range(with_suffix(log_key, MANIFEST), 0, MAX_MANIFEST_BYTES + 1)
    manifest = parse_manifest(data)
    return manifest, 4 * len(data) + manifest.chunks.nbytes
