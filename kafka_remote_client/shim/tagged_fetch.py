"""The kinds of Fetch that can be answered with locations, and the probes that are sent to the broker for them.

A tagged Fetch is granted when it is a consumer's and belongs to no fetch session. It names exactly one partition, or is a
batch: up to 128 partitions, all different, each of which asks for a location and carries tag 12491. Other requests with several
partitions are not granted: their answer would mix a location with the records of other partitions, which the proxy streams and
does not read.

References: KIP-227 (fetch sessions), docs/wire-format.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from uuid import UUID

import attrs

from kafka_remote_client.location.probes import NotGrantedError, Probe
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.dialect import MOST_PARTITIONS, LocationRequest, TaggedDialect
from kafka_remote_client.protocol.fetch import FetchPartition, FetchRequest, FetchTopic

__all__ = ["DIALECT", "TaggedFetch", "TaggedPartition", "asks_for_location", "joined_probe", "read_tagged_fetch"]

DIALECT = TaggedDialect()

_CONSUMER = -1


@attrs.frozen
class TaggedPartition:
    """One partition of a request that can be granted; ``version`` is that of Fetch."""

    version: int
    request: FetchRequest
    topic: FetchTopic
    partition: FetchPartition
    wanted: LocationRequest

    @property
    def name(self) -> tuple[str, UUID, int]:
        """Topic, topic id and partition, as the answer has them: one of the first two is empty."""
        return self.topic.topic, self.topic.topic_id, self.partition.partition

    @property
    def isolation_level(self) -> IsolationLevel:
        return IsolationLevel(self.request.isolation_level)

    @property
    def offset(self) -> int:
        return self.partition.fetch_offset

    def probe(self, probe: Probe) -> bytes:
        """The request for this partition alone, as TaggedFetch.probe makes it, at the offset of ``probe``."""
        return joined_probe([(self, probe)])


@attrs.frozen
class TaggedFetch:
    """A request that can be granted: one partition, or a batch of them."""

    version: int
    request: FetchRequest
    partitions: tuple[TaggedPartition, ...]

    @property
    def batched(self) -> bool:
        """Whether each partition has its own answer, which may be "pending"."""
        return all(one.wanted.batched for one in self.partitions)

    def probe(self) -> bytes:
        """Returns the request without the dialect's tags, for no bytes and without waiting."""
        topics = (
            attrs.evolve(topic, partitions=tuple(_bare(partition, {}) for partition in topic.partitions))
            for topic in self.request.topics
        )
        return _probe(self.version, self.request, tuple(topics))


def joined_probe(probes: Sequence[tuple[TaggedPartition, Probe]]) -> bytes:
    """One request for different partitions of the same request, as TaggedFetch.probe makes it, each at its probe's offset."""
    topics: dict[tuple[str, UUID], FetchTopic] = {}
    for asked, probe in probes:
        changes = {
            "fetch_offset": probe.offset,
            "last_fetched_epoch": probe.last_fetched_epoch,
            "partition_max_bytes": probe.max_bytes,
        }
        name = asked.topic.topic, asked.topic.topic_id
        before = topics[name].partitions if name in topics else ()
        topics[name] = attrs.evolve(asked.topic, partitions=(*before, _bare(asked.partition, changes)))
    first = probes[0][0]
    return _probe(first.version, first.request, tuple(topics.values()))


def _bare(partition: FetchPartition, changes: Mapping[str, int]) -> FetchPartition:
    return attrs.evolve(partition, **{"partition_max_bytes": 0, **changes}, tags=DIALECT.strip_request(partition.tags))


def _probe(version: int, request: FetchRequest, topics: tuple[FetchTopic, ...]) -> bytes:
    bare = attrs.evolve(request, topics=topics, max_wait_ms=0, min_bytes=0, tags=DIALECT.strip_request(request.tags))
    return fetch.encode_request(bare, version)


def asks_for_location(request: FetchRequest) -> bool:
    """Whether any partition of the request asks for a location. Raises ProtocolError when our tags do not parse."""
    wanted = partial(DIALECT.read_request, request.tags)
    return any(wanted(partition.tags).requested for topic in request.topics for partition in topic.partitions)


def read_tagged_fetch(request: FetchRequest, version: int) -> TaggedFetch:
    """Raises NotGrantedError unless the request is of a kind that can be granted, ProtocolError when our tags do not parse."""
    if request.session_id or request.session_epoch != fetch.NO_SESSION_EPOCH or request.forgotten_topics:
        raise NotGrantedError("session")
    if request.replica_id != _CONSUMER or request.isolation_level not in tuple(IsolationLevel):
        raise NotGrantedError("not-a-consumer")
    partitions = tuple(
        TaggedPartition(version, request, topic, partition, DIALECT.read_request(request.tags, partition.tags))
        for topic in request.topics
        for partition in topic.partitions
    )
    if len(partitions) != 1 and not _is_batch(partitions):
        raise NotGrantedError("several-partitions")
    return TaggedFetch(version, request, partitions)


def _is_batch(partitions: Sequence[TaggedPartition]) -> bool:
    names = {one.name for one in partitions}
    return 1 <= len(partitions) == len(names) <= MOST_PARTITIONS and all(
        one.wanted.requested and one.wanted.batched for one in partitions
    )
