"""Who leads a partition: a cache of Metadata that is refreshed when it is old, or when a leader turned out to be none.

A topic is asked for by its name and never created. Threads that miss the same topic share one request; a thread that was
sent away by a leader passes what it believed as ``stale``, so that only the first of many such threads asks again.

References: Kafka's Metadata, KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias
from uuid import UUID

import attrs

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import BrokerResponseError, LocationError
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error
from kafka_remote_client.protocol.metadata import MetadataResponse, MetadataTopic

__all__ = ["DEFAULT_MAX_AGE_SECONDS", "Address", "ClusterMetadata", "PartitionLeader"]

DEFAULT_MAX_AGE_SECONDS = 300.0
"""As ``metadata.max.age.ms`` of Kafka's clients."""

Address: TypeAlias = tuple[str, int]


@attrs.frozen
class PartitionLeader:
    """The leader of a partition as one answer had it; another answer gives another object, though it may be equal."""

    topic_id: UUID
    leader_epoch: int
    address: Address

    @property
    def host(self) -> str:
        """``host:port``, for messages."""
        return f"{self.address[0]}:{self.address[1]}"


@attrs.frozen
class _Topic:
    leaders: Mapping[int, PartitionLeader]
    leaderless: frozenset[int]
    fetched_at: float


class ClusterMetadata:
    """Leaders by topic and partition. ``ask`` sends a Metadata request for one topic to one address."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        ask: Callable[[Address, str, Deadline], MetadataResponse],
        clock: Clock,
        max_age: float = DEFAULT_MAX_AGE_SECONDS,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._ask = ask
        self._clock = clock
        self._max_age = max_age
        self._guard = threading.Lock()
        self._refreshing: dict[str, threading.Lock] = {}
        self._topics: dict[str, _Topic] = {}
        self._brokers: tuple[Address, ...] = ()

    def leader(
        self, topic: str, partition: int, deadline: Deadline, *, stale: PartitionLeader | None = None
    ) -> PartitionLeader:
        """The partition's leader, other than what ``stale`` says by newer metadata.

        Raises BrokerResponseError when the partition does not exist, has no leader now, or may not be described; LocationError
        when no broker answers.
        """
        known = self._fresh(topic, partition, stale)
        if known is None:
            with self._guard:
                lock = self._refreshing.setdefault(topic, threading.Lock())
            if not lock.acquire(timeout=deadline.remaining()):
                raise LocationError(f"no metadata of {topic} before the deadline")
            try:
                known = self._fresh(topic, partition, stale) or self._refreshed(topic, deadline, stale)
            finally:
                lock.release()
        leader = known.leaders.get(partition)
        if leader is None:
            absent = ErrorCode.LEADER_NOT_AVAILABLE if partition in known.leaderless else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            raise broker_error(absent, f"Metadata of {topic}-{partition}")
        return leader

    def _fresh(self, topic: str, partition: int, stale: PartitionLeader | None) -> _Topic | None:
        known = self._topics.get(topic)
        if known is None or self._clock.monotonic() - known.fetched_at > self._max_age:
            return None
        leader = known.leaders.get(partition)
        return None if leader is None or leader is stale else known

    def _refreshed(self, topic: str, deadline: Deadline, stale: PartitionLeader | None) -> _Topic:
        try:
            return self._refresh(topic, deadline)
        except BrokerResponseError:
            raise
        except LocationError:
            # Old metadata that nobody has contradicted is better than none.
            if stale is None and topic in self._topics:
                return self._topics[topic]
            raise

    def _refresh(self, topic: str, deadline: Deadline) -> _Topic:
        failure = LocationError("there is no broker to ask for metadata")
        for address in dict.fromkeys((*self._brokers, *self._bootstrap)):
            if deadline.expired():
                break
            try:
                response = self._ask(address, topic, deadline)
            except LocationError as error:
                failure = error
                continue
            return self._learn(topic, response)
        raise failure

    def _learn(self, topic: str, response: MetadataResponse) -> _Topic:
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, f"Metadata of {topic}")
        found = next((entry for entry in response.topics if entry.name == topic), None)
        if found is None:
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Metadata of {topic}")
        if found.error_code != ErrorCode.NONE:
            raise broker_error(found.error_code, f"Metadata of {topic}")
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        known = _topic(found, addresses, self._clock.monotonic())
        with self._guard:
            self._brokers = tuple(addresses.values())
            self._topics[topic] = known
        return known


def _topic(topic: MetadataTopic, addresses: Mapping[int, Address], now: float) -> _Topic:
    leaders = {
        entry.partition_index: PartitionLeader(topic.topic_id, entry.leader_epoch, addresses[entry.leader_id])
        for entry in topic.partitions
        if entry.leader_id in addresses
    }
    return _Topic(leaders, frozenset(entry.partition_index for entry in topic.partitions) - leaders.keys(), now)
