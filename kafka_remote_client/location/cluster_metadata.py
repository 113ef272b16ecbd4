"""The leader of a partition: a cache of Metadata that is refreshed when it is old, or when a leader was wrong.

A request names topics and never creates them; it has all topics that a caller needs. One request runs at a
time; threads that need the same topics share it. A thread that a leader rejected passes its old answer as ``stale``,
so that only the first of many such threads asks again.

Brokers that the last answer named are asked before the bootstrap servers. After them come those whose answer a leader has
contradicted, because they may be cut off from the controller, and last those that gave no answer, because they may hang.

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

__all__ = ["DEFAULT_MAX_AGE_SECONDS", "Address", "ClusterMetadata", "Key", "PartitionLeader"]

DEFAULT_MAX_AGE_SECONDS = 300.0
"""As ``metadata.max.age.ms`` of Kafka's clients."""

Address: TypeAlias = tuple[str, int]

Key: TypeAlias = tuple[str, int]
"""Topic and partition."""


@attrs.frozen
class PartitionLeader:
    """The leader of a partition from one answer; another answer gives another object, even if it is equal."""

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
    """Leaders by topic and partition. ``ask`` sends a Metadata request for topics (``None`` = all) to one address."""

    def __init__(
        self,
        bootstrap: Sequence[Address],
        ask: Callable[[Address, Sequence[str] | None, Deadline], MetadataResponse],
        clock: Clock,
        max_age: float = DEFAULT_MAX_AGE_SECONDS,
    ) -> None:
        self._bootstrap = tuple(bootstrap)
        self._ask = ask
        self._clock = clock
        self._max_age = max_age
        self._guard = threading.Lock()
        self._refreshing = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._brokers: tuple[Address, ...] = ()
        self._put_off: dict[Address, bool] = {}
        """Those to ask after all others, the earliest first, and whether they gave no answer."""
        self._answered: Address | None = None

    def leader(
        self, topic: str, partition: int, deadline: Deadline, *, stale: PartitionLeader | None = None
    ) -> PartitionLeader:
        """Returns the partition's leader, from metadata that are newer than ``stale``.

        Raises BrokerResponseError when the partition does not exist, has no leader now, or may not be described; LocationError
        when no broker answers.
        """
        found = self.leaders([(topic, partition)], deadline, {} if stale is None else {(topic, partition): stale})
        leader = found[topic, partition]
        if isinstance(leader, LocationError):
            raise leader
        return leader

    def leaders(
        self, partitions: Sequence[Key], deadline: Deadline, stale: Mapping[Key, PartitionLeader] | None = None
    ) -> dict[Key, PartitionLeader | LocationError]:
        """:meth:`leader` of many partitions, with at most one answered request: for each its leader or the error."""
        stale = stale or {}
        failures: Mapping[str, LocationError] = {}
        if missing := self._missing(partitions, stale):
            if self._refreshing.acquire(timeout=deadline.remaining()):
                try:
                    if missing := self._missing(partitions, stale):  # another thread may have asked
                        if stale and self._answered is not None:
                            self._put_off_one(self._answered, failed=False)
                        failures = self._refresh(missing, deadline)
                finally:
                    self._refreshing.release()
            else:
                failures = dict.fromkeys(missing, LocationError(f"timed out getting the metadata of {len(missing)} topics"))
        return {key: self._leader(key, failures.get(key[0]), contradicted=key in stale) for key in partitions}

    def topics(self, names: Sequence[str] | None, deadline: Deadline) -> dict[str, MetadataTopic]:
        """Returns the topics of these names as a broker describes them now, ``None`` = all that it shows.

        Raises BrokerResponseError for a named topic that does not exist or may not be described; LocationError when no broker
        answers.
        """
        response = self._first_answer(names, deadline)
        if response.error_code != ErrorCode.NONE:
            raise broker_error(response.error_code, "Metadata")
        found = {entry.name: entry for entry in response.topics if entry.name is not None}
        if names is None:
            return {name: entry for name, entry in found.items() if entry.error_code == ErrorCode.NONE}
        for name in names:
            code = found[name].error_code if name in found else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code != ErrorCode.NONE:
                raise broker_error(code, f"Metadata of {name}")
        return {name: found[name] for name in names}

    def _missing(self, partitions: Sequence[Key], stale: Mapping[Key, PartitionLeader]) -> list[str]:
        """Returns the topics of partitions without metadata, or with old or contradicted metadata."""
        now = self._clock.monotonic()
        missing: dict[str, None] = {}
        for topic, partition in partitions:
            known = self._topics.get(topic)
            leader = None if known is None or now - known.fetched_at > self._max_age else known.leaders.get(partition)
            if leader is None or leader is stale.get((topic, partition)):
                missing[topic] = None
        return list(missing)

    def _leader(self, key: Key, failure: LocationError | None, *, contradicted: bool) -> PartitionLeader | LocationError:
        topic, partition = key
        known = self._topics.get(topic)
        # While no broker answers, old metadata that no broker has contradicted is better than none.
        if failure is not None and (known is None or contradicted or isinstance(failure, BrokerResponseError)):
            return failure
        leader = None if known is None else known.leaders.get(partition)
        if leader is not None:
            return leader
        leaderless = known is not None and partition in known.leaderless
        absent = ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return broker_error(absent, f"Metadata of {topic}-{partition}")

    def _refresh(self, topics: Sequence[str], deadline: Deadline) -> dict[str, LocationError]:
        """Asks until a broker answers. Keeps the metadata of the topics, and returns the errors of the others."""
        try:
            return self._learn(topics, self._first_answer(topics, deadline))
        except LocationError as failure:
            return dict.fromkeys(topics, failure)

    def _first_answer(self, topics: Sequence[str] | None, deadline: Deadline) -> MetadataResponse:
        """Asks one broker after the other until one answers. Raises the last LocationError."""
        failure = LocationError("no broker is available for the metadata request")
        for address in self._in_order():
            if deadline.expired():
                break
            try:
                response = self._ask(address, topics, deadline)
            except LocationError as error:
                failure = error
                self._put_off_one(address, failed=True)
            else:
                with self._guard:
                    self._put_off.pop(address, None)
                    self._answered = address
                return response
        raise failure

    def _in_order(self) -> list[Address]:
        """All that may be asked, in the order in which to ask them."""
        with self._guard:
            known = dict.fromkeys((*self._brokers, *self._bootstrap))
            self._put_off = {one: failed for one, failed in self._put_off.items() if one in known}
            return [one for one in known if one not in self._put_off] + sorted(self._put_off, key=self._put_off.__getitem__)

    def _put_off_one(self, address: Address, *, failed: bool) -> None:
        with self._guard:
            self._put_off.pop(address, None)
            self._put_off[address] = failed

    def _learn(self, topics: Sequence[str], response: MetadataResponse) -> dict[str, LocationError]:
        if response.error_code != ErrorCode.NONE:
            return {topic: broker_error(response.error_code, f"Metadata of {topic}") for topic in topics}
        addresses = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        answered = {entry.name: entry for entry in response.topics}
        now = self._clock.monotonic()
        failures: dict[str, LocationError] = {}
        fresh: dict[str, _Topic] = {}
        for topic in topics:
            entry = answered.get(topic)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if entry is None else entry.error_code
            if entry is None or code != ErrorCode.NONE:
                failures[topic] = broker_error(code, f"Metadata of {topic}")
            else:
                fresh[topic] = _topic(entry, addresses, now)
        with self._guard:
            self._brokers = tuple(addresses.values())
            self._topics |= fresh
        return failures


def _topic(topic: MetadataTopic, addresses: Mapping[int, Address], now: float) -> _Topic:
    leaders = {
        entry.partition_index: PartitionLeader(topic.topic_id, entry.leader_epoch, addresses[entry.leader_id])
        for entry in topic.partitions
        if entry.leader_id in addresses
    }
    return _Topic(leaders, frozenset(entry.partition_index for entry in topic.partitions) - leaders.keys(), now)
