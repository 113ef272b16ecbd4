"""What the engine asks for locations: the one interface of all location sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics, FetchMetrics
from kafka_remote_client.model import LocationAnswer, LocationPending, NotRemote, PartitionOffsets, SegmentLocation

__all__ = ["CachingLocationSource", "LocationSource", "locate_one", "watch_caches"]


class LocationSource(Protocol):
    """Says where the records of partitions lie from an offset on. Safe to call from several threads at once."""

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """For each question a grant that begins at its offset, the reason why there is none, or the error in its place.

        LocationPending: the look-up goes on, and the question is to be asked again. A source waits a little before it answers
        so, and answers as soon as it can otherwise; the caller need not pause.

        Under read_committed a location's aborted transactions are never unknown. Errors are LocationError when nothing could
        be learnt (ProtocolError, BrokerResponseError, or no answer before ``deadline``), UnsupportedFormatError when the
        segment is in a format that the client did not offer. Raises what stands for all questions.
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


def locate_one(source: LocationSource, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
    """The answer to one question, asked again while it is pending. Raises the error that is the answer."""
    while True:
        answer = source.locate([question], deadline)[question]
        if isinstance(answer, DirectFetchError):
            raise answer
        if not isinstance(answer, LocationPending):
            return answer
        if deadline.expired():
            raise LocationError(f"{question}: the location was still pending at the deadline")


def watch_caches(source: LocationSource, metrics: FetchMetrics) -> None:
    """Shows in ``metrics`` what the caches of ``source`` do, where it has some."""
    if isinstance(source, CachingLocationSource):
        for cache in source.cache_statistics():
            metrics.watch_cache(cache, partial(_statistics, source, cache))


def _statistics(source: CachingLocationSource, cache: str) -> CacheStatistics:
    return source.cache_statistics()[cache]
