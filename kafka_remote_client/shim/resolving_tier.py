"""The tier as grants need it: metadata and indexes to resolve an offset, and signed URLs to read it by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from uuid import UUID

from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import ByteRange, IsolationLevel, NotRemote, TopicIdPartition
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.shim.grants import Window
from kafka_remote_client.shim.signing import ObjectSigner

__all__ = ["ResolvingTier"]


class ResolvingTier:
    """A LocationTier over a metadata store, a resolver and a signer. Thread safe.

    ``ready`` tells whether all metadata of a partition up to now has been read: before, nothing is granted.
    """

    def __init__(
        self,
        store: RemoteLogMetadataStore,
        resolver: RemoteSegmentResolver,
        signer: ObjectSigner,
        *,
        format_name: str,
        url_ttl: float,
        ready: Callable[[TopicIdPartition], bool],
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._signer = signer
        self._format_name = format_name
        self._url_ttl = url_ttl
        self._ready = ready
        self._by_id: dict[tuple[UUID, int], TopicIdPartition] = {}
        self._lock = threading.Lock()

    @property
    def format_name(self) -> str:
        return self._format_name

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        with self._lock:
            tip = self._by_id.get((topic_id, partition))
            if tip is None:
                self._by_id = {(known.topic_id, known.partition): known for known in self._store.partitions()}
                tip = self._by_id.get((topic_id, partition))
        return tip if tip is None or topic in ("", tip.topic) else None

    def resolve(
        self, tip: TopicIdPartition, offset: int, isolation_level: IsolationLevel, *, end: int, window: Window
    ) -> ResolvedSegment | NotRemote:
        cache = self._store.cache(tip)
        if cache is None:
            return NotRemote("nothing-tiered")
        if not self._ready(tip):
            return NotRemote("metadata-not-ready")
        return self._resolver.resolve(
            cache,
            offset,
            isolation_level=isolation_level,
            max_bytes=window.max_bytes,
            range_bytes=window.range_bytes,
            end_offset=end,
        )

    def location_of(self, object_key: str, byte_range: ByteRange, etag: str | None) -> bytes:
        signed = self._signer.sign(object_key, byte_range, self._url_ttl, etag)
        return LocationMetadata(url=signed.url, signed_headers=signed.headers, object_key=object_key, etag=etag).encode()
