"""The tier as grants need it: metadata and indexes to resolve an offset, and signed URLs to read it by."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from uuid import UUID

import attrs

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import GrantedRange, NotRemote, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.followed_tier import FollowedTier
from kafka_remote_client.remote_log.index_cache import DEFAULT_MAX_BYTES
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, LocatedRange, LocatedSegment, ObjectLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.shim.signing import ObjectSigner

__all__ = ["ResolvingTier"]


class ResolvingTier:
    """A LocationTier over a metadata store, and the objects of a layout with a signer of their URLs. Thread safe.

    ``url_ttl`` is in seconds. ``ready`` tells whether all metadata of a partition up to now has been read: before, nothing is
    granted. ``executor`` is the pool to read objects with, which its owner shuts down; None reads one after the other.
    """

    def __init__(
        self,
        store: RemoteLogMetadataStore,
        objects: RemoteObjectStore,
        layout: ObjectLayout,
        signer: ObjectSigner,
        *,
        url_ttl: float,
        ready: Callable[[TopicIdPartition], bool],
        executor: Executor | None = None,
        index_cache_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        self._store = store
        self._objects = objects
        self._layout = layout
        self._resolver = RemoteSegmentResolver(objects, layout, index_cache_bytes=index_cache_bytes, executor=executor)
        self._tier = FollowedTier(store, self._resolver, ready)
        self._signer = signer
        self._url_ttl = url_ttl
        self._by_id: dict[tuple[UUID, int], TopicIdPartition] = {}
        self._lock = threading.Lock()

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((ORIGINAL_FORMAT, self._layout.format_name)))

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        with self._lock:
            tip = self._by_id.get((topic_id, partition))
            if tip is None:
                self._by_id = {(known.topic_id, known.partition): known for known in self._store.partitions()}
                tip = self._by_id.get((topic_id, partition))
        return tip if tip is None or topic in ("", tip.topic) else None

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        return self._tier.resolve(question)

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        return resolved.located(self._objects, self._layout)

    def sign(self, located: LocatedSegment, etag: str | None, url_ttl: float | None = None) -> tuple[GrantedRange, ...]:
        ttl = url_ttl or self._url_ttl
        return tuple(GrantedRange(one.range, self._signed(one, etag, ttl), one.first_offset) for one in located.ranges)

    def metrics(self) -> dict[str, int]:
        """What was kept of indexes and manifests, under the names of Counters."""
        numbers = {}
        for cache, told in self._resolver.cache_statistics().items():
            numbers[f"{cache}_cache_hits"] = told.hits
            numbers[f"{cache}_cache_misses"] = told.misses
            numbers[f"{cache}_cache_evictions"] = told.evictions
            numbers[f"{cache}_cache_bytes"] = told.nbytes
        return numbers

    def _signed(self, located: LocatedRange, etag: str | None, url_ttl: float) -> bytes:
        key = located.location.object_key
        assert key is not None  # every layout names the object
        signed = self._signer.sign(key, located.object_range, url_ttl, etag)
        return attrs.evolve(located.location, url=signed.url, signed_headers=signed.headers, etag=etag).encode()
