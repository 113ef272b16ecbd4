"""The tier according to a listing of the store, for a client with a broker that confirms it.

Theory of operation, for each partition::

    first question      the listing and the segments' own objects are read by a worker; until then: "listing-not-ready"
    a later question    answered from the objects that were read
    topic not in store  "nothing-tiered" with an error that says what the store has instead
    not in the tier     if the listing is older than ``max_age``, a worker repeats it; the old answer is used until then,
                        and if that fails

The objects of a segment are not read twice. A listing does not show what the broker has deleted since; the leader
does (the log's start), and an object that is gone costs one location.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future, wait

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import DirectFetchError, NoSegmentsError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import NotRemote, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver, ResolvedSegment
from kafka_remote_client.remote_log.store_contents import no_segments
from kafka_remote_client.remote_log.tier_listing import TierListing
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["DEFAULT_MAX_AGE_SECONDS", "ListedTier"]

_log = logging.getLogger(__name__)

DEFAULT_MAX_AGE_SECONDS = 60.0
_WORKERS = 2
_MAY_BE_NEWER = frozenset({"local", "missing", "nothing-tiered"})


@attrs.define(eq=False)
class _Partition:
    cache: RemoteLogMetadataCache | None = None
    read_at: float = 0.0
    reading: Future[RemoteLogMetadataCache] | None = None


class ListedTier:
    """A TierResolver over listings of a store, one per topic. Thread safe; does not own ``store``.

    In the first ``patience`` seconds a question waits for its partition to be read. ``max_age`` is in seconds.
    """

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        resolver: RemoteSegmentResolver,
        *,
        clock: Clock,
        patience: float = 0.0,
        max_age: float = DEFAULT_MAX_AGE_SECONDS,
    ) -> None:
        self._store = store
        self._layout = layout
        self._resolver = resolver
        self._clock = clock
        self._patient_until = clock.monotonic() + patience
        self._max_age = max_age
        self._partitions: dict[TopicIdPartition, _Partition] = {}
        self._listings: dict[str, tuple[TierListing, float]] = {}
        self._absent: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._list_lock = threading.Lock()
        self._closed = False
        self._workers = DaemonExecutor(_WORKERS, "kafka-remote-listing")

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        """As TierResolver; a further reason is ``listing-not-ready``. A failed listing raises once, then is tried again."""
        tip = question.topic_id_partition
        cache = self._cache(tip)
        if cache is None:
            return NotRemote("listing-not-ready")
        found = self._resolver.resolve(cache, question)
        if isinstance(found, NotRemote) and found.reason in _MAY_BE_NEWER:
            self._read_again(tip)
            absence = self._absent.get(tip.topic) if found.reason == NoSegmentsError.cause else None
            if absence is not None:
                return attrs.evolve(found, error=NoSegmentsError(absence).with_context(topic=tip.topic))
        return found

    def segments(self, topic_id_partition: TopicIdPartition) -> list[TieredSegment] | None:
        """As TierResolver. A failed listing raises once, then is tried again."""
        cache = self._cache(topic_id_partition)
        return None if cache is None else self._resolver.all_segments(cache)

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self._resolver.cache_statistics()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _cache(self, tip: TopicIdPartition) -> RemoteLogMetadataCache | None:
        with self._lock:
            partition = self._partitions.setdefault(tip, _Partition())
            if partition.cache is None:
                about_to_read()
            if partition.cache is None and partition.reading is None:
                self._start_reading(tip, partition)
            reading = partition.reading
        if partition.cache is None and reading is not None:
            wait([reading], max(0.0, self._patient_until - self._clock.monotonic()))
        with self._lock:
            done = partition.reading
            if done is not None and done.done():
                partition.reading = None
                partition.read_at = self._clock.monotonic()
                if not done.cancelled():
                    partition.cache = _result(done, partition.cache)
            return partition.cache

    def _read_again(self, tip: TopicIdPartition) -> None:
        with self._lock:
            partition = self._partitions[tip]
            if partition.reading is None and self._clock.monotonic() - partition.read_at > self._max_age:
                self._start_reading(tip, partition)

    def _start_reading(self, tip: TopicIdPartition, partition: _Partition) -> None:
        if not self._closed:
            partition.reading = self._workers.submit(self._read, tip)

    def _read(self, tip: TopicIdPartition) -> RemoteLogMetadataCache:
        with self._list_lock:
            listing, listed_at = self._listings.get(tip.topic, (None, 0.0))
            if listing is None or self._clock.monotonic() - listed_at > self._max_age:
                indexes = self._resolver.indexes
                listing = TierListing(self._store, self._layout, tip.topic, previous=listing, indexes=indexes)
                self._listings[tip.topic] = listing, self._clock.monotonic()
                self._absent[tip.topic] = None if listing.partitions(tip.topic) else str(no_segments(tip.topic, self._store))
        return listing.cache(tip)


def _result(done: Future[RemoteLogMetadataCache], known: RemoteLogMetadataCache | None) -> RemoteLogMetadataCache:
    try:
        return done.result()
    except DirectFetchError as error:
        if known is None:
            raise
        _log.info("cannot list the tier again, so segments that were uploaded since are not read yet: %s", error)
        return known
