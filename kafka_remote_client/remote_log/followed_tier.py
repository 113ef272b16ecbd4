"""The tier according to the metadata topic, for the shim and for clients that follow the topic."""

from __future__ import annotations

from collections.abc import Callable

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import NotRemote, TopicIdPartition
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.tiered_log import TieredSegment

__all__ = ["FollowedTier"]


class FollowedTier:
    """Thread safe. ``ready``: whether all metadata of a partition has been read. Until then there is no location."""

    def __init__(
        self, store: RemoteLogMetadataStore, resolver: RemoteSegmentResolver, ready: Callable[[TopicIdPartition], bool]
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._ready = ready

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        """As :meth:`RemoteSegmentResolver.resolve`, with the further reason ``metadata-not-ready``.

        Raises RemoteLogError or RemoteStorageError.
        """
        ready, cache = self._cache(question.topic_id_partition)
        if not ready:
            return NotRemote("metadata-not-ready")
        if cache is None:
            return NotRemote("nothing-tiered")
        return self._resolver.resolve(cache, question)

    def segments(
        self, topic_id_partition: TopicIdPartition, start: int = 0, most: int | None = None
    ) -> list[TieredSegment] | None:
        """The segments of a partition's log, in order; ``None`` = not ready. Raises RemoteLogError or RemoteStorageError.

        The first ``most`` of them from offset ``start`` on.
        """
        ready, cache = self._cache(topic_id_partition)
        if not ready:
            return None
        return [] if cache is None else self._resolver.all_segments(cache, start, most)

    def _cache(self, tip: TopicIdPartition) -> tuple[bool, RemoteLogMetadataCache | None]:
        """Whether the partition is ready, and then its cache; ``None`` = nothing is tiered."""
        if not self._ready(tip):
            return False, None
        cache = self._store.cache(tip)
        # If the metadata partition was read again between the two checks, the cache has only a part of it.
        return (True, cache) if self._ready(tip) else (False, None)
