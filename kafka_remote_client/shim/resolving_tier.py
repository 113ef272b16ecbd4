"""The tier for grants: metadata and indexes that resolve an offset, and signed URLs to read it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from uuid import UUID

import attrs

from kafka_remote_client.model import GrantedRange, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.followed_tier import FollowedTier
from kafka_remote_client.remote_log.index_cache import DEFAULT_MAX_BYTES
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, LocatedRange, LocatedSegment, ObjectLayout
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.shim.signing import ObjectSigner, SignedUrl

__all__ = ["ResolvingTier"]


class ResolvingTier(FollowedTier):
    """A LocationTier over a metadata store, and the objects of a layout with a signer of their URLs. Thread safe.

    ``url_ttl`` is in seconds. ``ready``: whether all metadata of a partition has been read; before that nothing is granted.
    ``executor``: the pool that reads objects, which its owner shuts down; ``None`` reads one after the other.
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
        resolver = RemoteSegmentResolver(objects, layout, index_cache_bytes=index_cache_bytes, executor=executor)
        super().__init__(store, resolver, ready)
        self._objects = objects
        self._layout = layout
        self._signer = signer
        self._url_ttl = url_ttl

    @property
    def formats(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((ORIGINAL_FORMAT, self._layout.format_name)))

    def find(self, topic: str, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        tip = self._store.find(topic_id, partition)
        return tip if tip is None or topic in ("", tip.topic) else None

    def locate(self, resolved: ResolvedSegment) -> LocatedSegment:
        return resolved.located(self._objects, self._layout)

    def sign(
        self, located: LocatedSegment, etag: str | None, url_ttl: float | None = None
    ) -> tuple[tuple[GrantedRange, ...], float]:
        life = ttl = url_ttl or self._url_ttl
        ranges = []
        for one in located.ranges:
            signed = self._signed(one, etag, ttl)
            life = min(life, ttl if signed.life_seconds is None else signed.life_seconds)
            found = attrs.evolve(one.location, url=signed.url, signed_headers=signed.headers, etag=etag)
            ranges.append(GrantedRange(one.range, found.encode(), one.first_offset))
        return tuple(ranges), life

    def metrics(self) -> dict[str, int]:
        """Counters of the caches of indexes and manifests, under the names of Counters."""
        numbers = {}
        for cache, told in self._resolver.cache_statistics().items():
            numbers[f"{cache}_cache_hits"] = told.hits
            numbers[f"{cache}_cache_misses"] = told.misses
            numbers[f"{cache}_cache_evictions"] = told.evictions
            numbers[f"{cache}_cache_bytes"] = told.nbytes
        return numbers

    def _signed(self, located: LocatedRange, etag: str | None, url_ttl: float) -> SignedUrl:
        key = located.location.object_key
        assert key is not None  # every layout names the object
        return self._signer.sign(key, located.object_range, url_ttl, etag)
