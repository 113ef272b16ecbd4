"""The one kind of Fetch that can be answered with a location, and the questions to the broker that are made of it.

A tagged Fetch is granted when it is a consumer's, belongs to no fetch session, and names exactly one partition: one answer
cannot mix a location with the records of other partitions unless the proxy reads what it otherwise streams.

References: KIP-227 (fetch sessions), docs/wire-format.md.
"""

from __future__ import annotations

from functools import partial

import attrs

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = ["DIALECT", "LocationQuestion", "asks_for_location", "location_question"]

DIALECT = TaggedDialect()

_CONSUMER = -1


@attrs.frozen
class LocationQuestion:
    """A request that can be granted; ``version`` is that of Fetch."""

    version: int
    request: FetchRequest
    topic: FetchTopic
    partition: FetchPartition
    wanted: LocationRequest

    @property
    def isolation_level(self) -> IsolationLevel:
        return IsolationLevel(self.request.isolation_level)

    @property
    def offset(self) -> int:
        return self.partition.fetch_offset

    def probe(self, **changes: int) -> bytes:
        """The request again, without our tags, for no bytes and without waiting, with ``changes`` to its partition."""
        partition = attrs.evolve(
            self.partition, **({"partition_max_bytes": 0} | changes), tags=DIALECT.strip_request(self.partition.tags)
        )
        topic = attrs.evolve(self.topic, partitions=(partition,))
        tags = DIALECT.strip_request(self.request.tags)
        request = attrs.evolve(self.request, topics=(topic,), max_wait_ms=0, min_bytes=0, tags=tags)
        return fetch.encode_request(request, self.version)


def asks_for_location(request: FetchRequest) -> bool:
    """Whether any partition of the request asks for a location. Raises ProtocolError when our tags do not parse."""
    wanted = partial(DIALECT.read_request, request.tags)
    return any(wanted(partition.tags).requested for topic in request.topics for partition in topic.partitions)


def location_question(request: FetchRequest, version: int) -> LocationQuestion:
    """Raises NotGrantedError unless the request is of the one kind that can be granted."""
    if request.session_id or request.session_epoch != fetch.NO_SESSION_EPOCH or request.forgotten_topics:
        raise NotGrantedError("session")
    if request.replica_id != _CONSUMER or request.isolation_level not in tuple(IsolationLevel):
        raise NotGrantedError("not-a-consumer")
    if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
        raise NotGrantedError("several-partitions")
    (topic,) = request.topics
    (partition,) = topic.partitions
    return LocationQuestion(version, request, topic, partition, DIALECT.read_request(request.tags, partition.tags))
