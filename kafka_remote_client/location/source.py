"""What the engine asks for locations: the one interface of all location sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation

__all__ = ["CachingLocationSource", "LocationSource", "watch_caches"]


class LocationSource(Protocol):
    """Says where the records of a partition lie from an offset on. Safe to call from several threads at once."""

    def locate(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        leader_epoch: int,
        isolation_level: IsolationLevel,
        max_bytes: int,
        deadline: Deadline,
    ) -> SegmentLocation | NotRemote:
        """A grant that begins at ``offset``, or the reason why there is none.

        ``leader_epoch`` is that of the last record consumed before ``offset`` (-1 = not known); ``max_bytes`` the size of the
        window wanted (0 = the source's choice). Under read_committed a location's aborted transactions are never unknown.

        Raises LocationError when nothing could be learnt (ProtocolError, BrokerResponseError, or no answer before
        ``deadline``), UnsupportedFormatError when the segment is in a format that was not offered.
        """

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """Where the two tiers of the partition begin and end, as far as the source can know. Raises LocationError."""

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """:meth:`offsets` of many partitions (topic, number) at once: for each the answer, or the error in its place."""

    def close(self) -> None:
        """Releases connections; calls in other threads fail at once. May be called twice."""


@runtime_checkable
class CachingLocationSource(Protocol):
    """A source that reads indexes itself and keeps them. What has the method is one; it subclasses nothing."""

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        """What its caches did, by the names of ``metrics.CACHES``; always the same names."""


def watch_caches(source: LocationSource, metrics: FetchMetrics) -> None:
    """Shows in ``metrics`` what the caches of ``source`` do, where it has some."""
    if isinstance(source, CachingLocationSource):
        for cache in source.cache_statistics():
            metrics.watch_cache(cache, partial(_statistics, source, cache))


def _statistics(source: CachingLocationSource, cache: str) -> CacheStatistics:
    return source.cache_statistics()[cache]
