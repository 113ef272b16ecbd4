"""The tier as the metadata topic describes it, for the shim and for clients that follow the topic."""

from __future__ import annotations

from collections.abc import Callable

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import NotRemote, TopicIdPartition
from kafka_remote_client.remote_log.metadata_store import RemoteLogMetadataStore
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment

__all__ = ["FollowedTier"]


class FollowedTier:
    """Thread safe. ``ready`` tells whether all metadata of a partition up to now has been read: before, nothing is said."""

    def __init__(
        self, store: RemoteLogMetadataStore, resolver: RemoteSegmentResolver, ready: Callable[[TopicIdPartition], bool]
    ) -> None:
        self._store = store
        self._resolver = resolver
        self._ready = ready

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        """Where the offset lies in the log ``[log_start_offset, end_offset)``, as RemoteSegmentResolver has it.

        Further reasons: ``metadata-not-ready``. Raises RemoteLogError or RemoteStorageError.
        """
        tip = question.topic_id_partition
        if not self._ready(tip):
            return NotRemote("metadata-not-ready")
        cache = self._store.cache(tip)
        # Between the two questions the metadata partition may have started again: then the cache has a part of it.
        if not self._ready(tip):
            return NotRemote("metadata-not-ready")
        if cache is None:
            return NotRemote("nothing-tiered")
        return self._resolver.resolve(cache, question)
