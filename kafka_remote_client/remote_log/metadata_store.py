"""The metadata caches of all partitions. Events are applied in the order of their metadata partition.

References: Kafka's RemotePartitionMetadataStore.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from uuid import UUID

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import RemoteLogSegmentMetadata, TopicIdPartition
from kafka_remote_client.remote_log.events import (
    RemoteLogMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from kafka_remote_client.remote_log.metadata_cache import CacheContents, RemoteLogMetadataCache
from kafka_remote_client.remote_log.metadata_keys import MetadataKey, SegmentKey
from kafka_remote_client.remote_log.metadata_snapshot import unpack
from kafka_remote_client.remote_log.packed_segment import MetadataEvent, SegmentEvent, SegmentUpdate, packed_event

__all__ = ["RemoteLogMetadataStore"]

_log = logging.getLogger(__name__)


class _Packed:
    """A partition of a snapshot that is unpacked when it is needed. ``lock``: only one thread unpacks it."""

    __slots__ = ("cache", "lock", "packed")

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self.cache: RemoteLogMetadataCache | None = None
        self.lock = threading.Lock()


class RemoteLogMetadataStore:
    """Thread safe. ``dropped_events`` counts the events that Kafka logs and ignores: unknown segments, invalid state changes.

    A partition of :meth:`restore` is unpacked when it is first needed, without the lock of the store.
    """

    def __init__(self) -> None:
        self._caches: dict[TopicIdPartition, RemoteLogMetadataCache | _Packed] = {}
        self._by_id: dict[tuple[UUID, int], TopicIdPartition] = {}
        self._lock = threading.Lock()
        self._damaged: set[TopicIdPartition] = set()
        self.dropped_events = 0

    def apply(self, event: MetadataEvent | RemoteLogMetadata, *, keyed: bool = False) -> bool:
        """Applies one event; False when it was dropped. ``keyed``: its record has a key (``metadata_keys``).

        Raises RemoteLogMetadataError for an event that no broker writes; its partition must then be read again.
        """
        if isinstance(event, SegmentEvent):
            tip = event.topic_id_partition
            applied = (self.cache(tip) or self._added(tip)).add(event, keyed=keyed)
        elif isinstance(event, SegmentUpdate):
            cache = self.cache(event.topic_id_partition)
            applied = cache is not None and cache.update(event, keyed=keyed)
        elif isinstance(event, RemotePartitionDeleteMetadata):
            applied = self._delete(event)
        elif isinstance(event, RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate):
            return self.apply(packed_event(event), keyed=keyed)
        else:
            raise RemoteLogMetadataError("a snapshot record is outside a snapshot file")
        if not applied:
            with self._lock:
                self.dropped_events += 1
            _log.warning("dropped an event of %s: it contradicts earlier events", event.topic_id_partition)
        return applied

    def remove(self, key: MetadataKey) -> bool:
        """Removes the segments of a tombstone's key. False when none was known, as after each complete delete."""
        tip = self.find(key.topic_id, key.partition)
        cache = None if tip is None else self.cache(tip)
        if cache is None:
            return False
        if isinstance(key, SegmentKey):
            return cache.remove_segment(key.segment_id)
        return cache.remove_segments(key.end_offset, key.broker_leader_epoch)

    def cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache | None:
        """The cache of a partition; None when there was no event of it.

        Raises RemoteLogMetadataError if it was restored from damaged bytes; :meth:`take_damaged` then returns it.
        """
        with self._lock:
            found = self._caches.get(topic_id_partition)
        return self._unpacked(topic_id_partition, found) if isinstance(found, _Packed) else found

    def find(self, topic_id: UUID, partition: int) -> TopicIdPartition | None:
        """The partition with this topic id and number; None when it has no cache."""
        with self._lock:
            return self._by_id.get((topic_id, partition))

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """All partitions with a cache (of one topic name), in the order of topic, topic id and partition."""
        with self._lock:
            found = [tip for tip in self._caches if topic is None or tip.topic == topic]
        return sorted(found, key=lambda tip: (tip.topic, tip.topic_id, tip.partition))

    def topic_ids(self, topic: str) -> list[UUID]:
        """The ids under which a topic name has readable segments: more than one after it was deleted and created again."""
        found = {tip.topic_id for tip in self.partitions(topic) if (cache := self.cache(tip)) and cache.leader_epochs()}
        return sorted(found)

    def clear(self) -> None:
        """Drops all caches."""
        self.forget(lambda _: True)

    def forget(self, concerned: Callable[[TopicIdPartition], bool]) -> None:
        """Drops the caches of the partitions for which ``concerned`` is true. Who holds such a cache may still use it."""
        with self._lock:
            self._caches = {tip: cache for tip, cache in self._caches.items() if not concerned(tip)}
            self._by_id = {(tip.topic_id, tip.partition): tip for tip in self._caches}

    def restore(self, topic_id_partition: TopicIdPartition, packed: bytes) -> None:
        """Replaces the cache of a partition by the one that a snapshot has, ``packed``."""
        with self._lock:
            self._caches[topic_id_partition] = _Packed(packed)
            self._by_id[topic_id_partition.topic_id, topic_id_partition.partition] = topic_id_partition

    def contents(self) -> list[tuple[TopicIdPartition, CacheContents | bytes]]:
        """The contents of each partition's cache, or the bytes of :meth:`restore` if they are not unpacked yet."""
        with self._lock:
            known = list(self._caches.items())
        return [(tip, one.packed if isinstance(one, _Packed) else one.contents()) for tip, one in known]

    def take_damaged(self) -> list[TopicIdPartition]:
        """The partitions that could not be unpacked since the last call."""
        if not self._damaged:
            return []
        with self._lock:
            damaged, self._damaged = self._damaged, set()
        return list(damaged)

    def _unpacked(self, tip: TopicIdPartition, packed: _Packed) -> RemoteLogMetadataCache:
        with packed.lock:
            if packed.cache is None:
                try:
                    packed.cache = RemoteLogMetadataCache.restored(unpack(packed.packed))
                except RemoteLogMetadataError:
                    with self._lock:
                        self._damaged.add(tip)
                    raise
        with self._lock:
            if self._caches.get(tip) is packed:
                self._caches[tip] = packed.cache
        return packed.cache

    def _added(self, tip: TopicIdPartition) -> RemoteLogMetadataCache:
        """Adds the cache of a partition that has none, unless another thread has added it."""
        with self._lock:
            self._by_id[tip.topic_id, tip.partition] = tip
            self._caches.setdefault(tip, RemoteLogMetadataCache(tip))
        return self.cache(tip) or self._added(tip)

    def _delete(self, event: RemotePartitionDeleteMetadata) -> bool:
        if event.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            tip = event.topic_id_partition
            with self._lock:
                self._caches.pop(tip, None)
                self._by_id.pop((tip.topic_id, tip.partition), None)
        return True
