"""The interface of all location sources, which the engine calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics
from kafka_remote_client.model import LocationAnswer, LocationPending, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.segment_spans import SegmentSpans

__all__ = ["CachingLocationSource", "LocationSource", "SegmentListingSource", "locate_one", "watch_caches"]


class LocationSource(Protocol):
    """Returns locations of partitions from an offset on. Safe to call from several threads at once."""

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """Returns for each question a grant from its offset on, the reason why there is none, or an error.

        LocationPending: the look-up is not finished, and the caller must ask again. A source waits a little before this answer,
        and gives other answers as soon as possible, so the caller need not pause.

        Under read_committed a location's aborted transactions are never unknown. Errors are LocationError if the look-up
        failed (ProtocolError, BrokerResponseError, or no answer before ``deadline``), UnsupportedFormatError if the
        segment is in a format that the client did not offer. Raises an error that applies to all questions.
        """

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """Returns the bounds of the partition's two tiers, as far as the source knows them. Raises LocationError."""

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """:meth:`offsets` of many partitions (topic, number) at once: for each the answer, or an error instead."""

    def close(self) -> None:
        """Releases connections; calls in other threads fail at once. May be called twice."""


@runtime_checkable
class CachingLocationSource(Protocol):
    """A source that reads and caches indexes. Any object with the method is one; it subclasses nothing."""

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        """Returns the counters of its caches, by the names of ``metrics.CACHES``; always the same names."""


@runtime_checkable
class SegmentListingSource(Protocol):
    """A source that knows all segments of a partition. Any object with the method is one; it subclasses nothing."""

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: Deadline) -> Mapping[tuple[str, int], SegmentSpans]:
        """Returns the spans of the tiered segments of partitions (topic, number), in the order of their offsets.

        Partitions are left out where the segments are not known, or not before ``deadline``. No leader confirms the segments,
        so they are for plans and not for reads. Raises DirectFetchError kinds that apply to all partitions.
        """


def locate_one(source: LocationSource, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
    """Returns the answer to one question, and repeats it while it is pending. Raises an answer that is an error."""
    while True:
        answer = source.locate([question], deadline)[question]
        if isinstance(answer, DirectFetchError):
            raise answer
        if not isinstance(answer, LocationPending):
            return answer
        if deadline.expired():
            raise LocationError(f"{question}: the location was still pending at the deadline")


def watch_caches(source: LocationSource, metrics: FetchMetrics) -> None:
    """Adds the counters of the caches of ``source`` to ``metrics``, if it has caches."""
    if isinstance(source, CachingLocationSource):
        for cache in source.cache_statistics():
            metrics.watch_cache(cache, partial(_statistics, source, cache))


def _statistics(source: CachingLocationSource, cache: str) -> CacheStatistics:
    return source.cache_statistics()[cache]
