"""Questions to the leaders of partitions: finds the brokers, keeps one connection to each, and retries.

Retries, each once and only within the deadline::

    an old connection is closed                    a new connection, because brokers close idle ones
    the leader is gone, or is no longer leader     new metadata

References: KIP-320 (leader epochs), KIP-516 (topic ids).
"""

from __future__ import annotations

import ssl
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar
from uuid import UUID

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    BrokerResponseError,
    ConfigurationError,
    DirectFetchError,
    LocationError,
    LocationThrottledError,
    NotAnnouncedError,
    ProtocolError,
)
from kafka_remote_client.location.bootstrap import named_servers, parse_bootstrap_servers
from kafka_remote_client.location.cluster_metadata import Address, ClusterMetadata, Key, PartitionLeader
from kafka_remote_client.location.sasl_settings import authenticator
from kafka_remote_client.location.tier_offsets import partition_offsets
from kafka_remote_client.model import IsolationLevel, PartitionOffsets
from kafka_remote_client.protocol import fetch, metadata
from kafka_remote_client.protocol.api_keys import FETCH, METADATA
from kafka_remote_client.protocol.connection import Authenticator, BrokerConnection
from kafka_remote_client.protocol.dialect import TaggedDialect
from kafka_remote_client.protocol.error_codes import ErrorCode, broker_error, refreshes_metadata
from kafka_remote_client.protocol.peer import BrokerPeer, PeerSession
from kafka_remote_client.protocol.throttle import Throttle
from kafka_remote_client.protocol.tls import context_of_protocol
from kafka_remote_client.threads import side_by_side
from kafka_remote_client.wire import NO_TAGS, ZERO_UUID, TaggedFields

__all__ = ["BoundsByLeaders", "PartitionLeaders", "fetch_tagged", "fetch_version", "open_leaders"]

_T = TypeVar("_T")

LedQuestion = Callable[[PeerSession, Mapping[Key, PartitionLeader], Deadline], Mapping[Key, _T]]
_ORDINARY = ""

_DEFAULT_CONNECT_SECONDS = 1.0
_ENOUGH_FOR_NO_RECORD = 1
_WAIT_SECONDS = 0.5
"""How long a peer may wait for look-ups before it answers that they are pending: two rounds of store requests of 0.2 s."""
_NEVER_CREATES_TOPICS = range(4, METADATA.versions.stop)
_FETCH_VERSIONS = TaggedDialect.fetch_versions


class PartitionLeaders:
    """The leaders of all partitions of a cluster. One connection per broker and name, shared by all threads; thread safe.

    ``connect_timeout`` is in seconds. ``check`` raises LocationError for a leader that must not be asked for offsets.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str,
        clock: Clock,
        connect_timeout: float = _DEFAULT_CONNECT_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
        sasl: Authenticator | None = None,
        check: Callable[[PartitionLeader, PeerSession], None] | None = None,
    ) -> None:
        self._check = check
        self._client_id = client_id
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._ssl_context = ssl_context
        self._sasl = sasl
        self._guard = threading.Lock()
        self._peers: dict[tuple[Address, str], BrokerPeer] = {}
        self._throttles: dict[Address, Throttle] = {}
        self._closed = False
        self._cluster = ClusterMetadata(parse_bootstrap_servers(bootstrap_servers), self._ask_metadata, clock)

    def topics(self, names: Sequence[str] | None, deadline: Deadline) -> dict[str, metadata.MetadataTopic]:
        """As :meth:`ClusterMetadata.topics`: what the cluster says now about topics, ``None`` = all."""
        return self._cluster.topics(names, deadline)

    def ask(self, topic: str, partition: int, deadline: Deadline, question: Callable[[PartitionLeader, PeerSession], _T]) -> _T:
        """Returns the answer of the partition's leader to ``question``, which gets the leader and a session with it.

        Raises the errors of ``question``, and LocationError if the leader is not known or cannot be reached.
        """
        leader = self._cluster.leader(topic, partition, deadline)
        try:
            return self._ask_peer(leader.address, deadline, lambda session: question(leader, session))
        except LocationError as error:
            if self._closed or deadline.expired() or not _may_be_outdated(error):
                raise
        leader = self._cluster.leader(topic, partition, deadline, stale=leader)
        return self._ask_peer(leader.address, deadline, lambda session: question(leader, session))

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """Returns the bounds of the tiers of partitions: for each the answer, or an error instead.

        It sends one Metadata request for all topics, then four ListOffsets to each leader for all of its partitions, leaders in
        parallel. So the four offsets of a partition are from slightly different times. An offset that the peer's version of
        ListOffsets cannot name is -1.

        Each of the two steps may use the whole time of ``deadline``, because otherwise a slow first one would leave none for
        the second. Leaders are looked up again only before ``deadline``.
        """
        return self.ask_all(partitions, deadline, self._offsets_led)

    def ask_all(
        self, partitions: Sequence[Key], deadline: Deadline, question: LedQuestion[_T], connection: str = _ORDINARY
    ) -> dict[Key, _T | DirectFetchError]:
        """Returns the answers of the leaders of all partitions to ``question``: for each the answer, or an error instead.

        ``question`` runs once per leader, in parallel. It gets the session, the leaders of the partitions that
        this broker leads, and the deadline, and answers all of them. ``connection`` names the connection that it uses: those of
        other names never wait for it.
        """
        seconds = deadline.remaining()
        answers, leaders = self._ask_leaders(partitions, seconds, {}, question, connection)
        outdated = {key: leaders[key] for key in leaders if _may_be_outdated(answers[key])}
        if outdated and not self._closed and not deadline.expired():
            again, _ = self._ask_leaders(list(outdated), seconds, outdated, question, connection)
            answers.update(again)
        return answers

    def _ask_leaders(
        self,
        partitions: Sequence[Key],
        seconds: float,
        stale: Mapping[Key, PartitionLeader],
        question: LedQuestion[_T],
        connection: str,
    ) -> tuple[dict[Key, _T | DirectFetchError], dict[Key, PartitionLeader]]:
        """The answers of all, and the leaders of those for which one was known."""
        answers: dict[Key, _T | DirectFetchError] = {}
        leaders: dict[Key, PartitionLeader] = {}
        for key, found in self._cluster.leaders(partitions, Deadline(self._clock, seconds), stale).items():
            if isinstance(found, LocationError):
                answers[key] = found
            else:
                leaders[key] = found
        by_address: dict[Address, dict[Key, PartitionLeader]] = defaultdict(dict)
        for key, leader in leaders.items():
            by_address[leader.address][key] = leader
        asked = [partial(self._ask_led, address, led, seconds, question, connection) for address, led in by_address.items()]
        for answered in side_by_side("kafka-remote-leaders", asked):
            answers |= answered
        return answers, leaders

    def _ask_led(
        self,
        address: Address,
        led: Mapping[Key, PartitionLeader],
        seconds: float,
        question: LedQuestion[_T],
        connection: str,
    ) -> Mapping[Key, _T | DirectFetchError]:
        deadline = Deadline(self._clock, seconds)
        try:
            return self._ask_peer(address, deadline, lambda session: question(session, led, deadline), connection)
        except LocationError as error:
            return dict.fromkeys(led, error)

    def _offsets_led(
        self, session: PeerSession, led: Mapping[Key, PartitionLeader], deadline: Deadline
    ) -> Mapping[Key, PartitionOffsets | DirectFetchError]:
        if self._check is not None:
            self._check(next(iter(led.values())), session)
        return partition_offsets(session, led, deadline)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """:meth:`offsets_of` one partition. Raises LocationError."""
        answer = self.offsets_of([(topic, partition)], deadline)[topic, partition]
        if isinstance(answer, DirectFetchError):
            raise answer
        return answer

    def close(self) -> None:
        """Closes all connections; calls in other threads fail at once. May be called twice."""
        with self._guard:
            self._closed = True
            peers = tuple(self._peers.values())
        for peer in peers:
            peer.close()

    def _ask_peer(
        self, address: Address, deadline: Deadline, ask: Callable[[PeerSession], _T], connection: str = _ORDINARY
    ) -> _T:
        try:
            return self._ask_again_on_new_connection(self._peer(address, connection), deadline, ask)
        except LocationError as error:
            error.with_context(host=f"{address[0]}:{address[1]}")
            raise

    def _ask_again_on_new_connection(self, peer: BrokerPeer, deadline: Deadline, ask: Callable[[PeerSession], _T]) -> _T:
        session, used_before = peer.session(deadline)
        try:
            return _ask(session, ask)
        except (ProtocolError, BrokerResponseError, LocationThrottledError, NotAnnouncedError):
            raise
        except LocationError:
            if not used_before or self._closed or deadline.expired():
                raise
        session, _ = peer.session(deadline)
        return _ask(session, ask)

    def _ask_metadata(self, address: Address, topics: Sequence[str] | None, deadline: Deadline) -> metadata.MetadataResponse:
        def ask(session: PeerSession) -> metadata.MetadataResponse:
            version = session.best_version(METADATA, _NEVER_CREATES_TOPICS)
            if version is None:
                raise broker_error(ErrorCode.UNSUPPORTED_VERSION, "Metadata")
            named = None if topics is None else tuple(metadata.MetadataRequestTopic(topic) for topic in topics)
            request = metadata.MetadataRequest(named)
            body = metadata.encode_request(request, version)
            return metadata.decode_response(session.call(METADATA, version, body, deadline), version)

        return self._ask_peer(address, deadline, ask)

    def _peer(self, address: Address, connection: str) -> BrokerPeer:
        with self._guard:
            if self._closed:
                raise LocationError("the location source is closed")
            if (address, connection) not in self._peers:
                name = f"{address[0]}:{address[1]}"
                throttle = self._throttles.setdefault(address, Throttle(name, self._clock))
                self._peers[address, connection] = BrokerPeer(name, lambda: self._connection(address), self._clock, throttle)
            return self._peers[address, connection]

    def _connection(self, address: Address) -> BrokerConnection:
        host, port = address
        return BrokerConnection(
            host,
            port,
            client_id=self._client_id,
            clock=self._clock,
            connect_timeout=self._connect_timeout,
            ssl_context=self._ssl_context,
            sasl=self._sasl,
        )


class BoundsByLeaders:
    """The half of a LocationSource that asks ``_leaders`` for the bounds of tiers."""

    _leaders: PartitionLeaders

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """As LocationSource. Raises what the check of the leaders raises."""
        return self._leaders.offsets(topic, partition, deadline)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return self._leaders.offsets_of(partitions, deadline)


def open_leaders(settings: Mapping[str, object], clock: Clock, connect_timeout: float) -> PartitionLeaders:
    """``settings``: librdkafka's for a connection, ``bootstrap.servers`` at least. It connects at the first question.

    ``connect_timeout`` is in seconds. Raises ConfigurationError for settings with which it cannot connect.
    """
    _, servers = named_servers(settings)
    if not servers:
        raise ConfigurationError("bootstrap.servers is not set")
    return PartitionLeaders(
        servers,
        client_id=str(settings.get("client.id", "rdkafka")),
        clock=clock,
        connect_timeout=connect_timeout,
        ssl_context=context_of_protocol(settings),
        sasl=authenticator(settings, clock),
    )


def fetch_version(leader: PartitionLeader, session: PeerSession) -> int | None:
    """Uses topic ids if both sides support them, so that a recreated topic is not confused with the old one; else 12."""
    with_ids = range(fetch.FIRST_VERSION_WITH_TOPIC_IDS, _FETCH_VERSIONS.stop)
    by_name = range(_FETCH_VERSIONS.start, fetch.FIRST_VERSION_WITH_TOPIC_IDS)
    version = None if leader.topic_id == ZERO_UUID else session.best_version(FETCH, with_ids)
    return session.best_version(FETCH, by_name) if version is None else version


def fetch_tagged(
    session: PeerSession,
    version: int,
    partitions: Mapping[Key, fetch.FetchPartition],
    led: Mapping[Key, PartitionLeader],
    deadline: Deadline,
    *,
    read: Callable[[Key, fetch.FetchResponse], _T],
    may_wait: bool = True,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    tags: TaggedFields = NO_TAGS,
) -> dict[Key, _T | DirectFetchError]:
    """Sends one Fetch for partitions of the same leader. It has no session and requests no records.

    ``may_wait``: the peer may wait for look-ups before it answers. ``read`` takes a partition's answer out of the response. A
    DirectFetchError that it raises is the answer; after a ProtocolError the connection is closed. Raises LocationError.
    """
    by_topic: dict[tuple[str, UUID], list[fetch.FetchPartition]] = defaultdict(list)
    for key, wanted in partitions.items():
        by_topic[key[0], led[key].topic_id].append(wanted)
    request = fetch.FetchRequest(
        topics=tuple(fetch.FetchTopic(tuple(wanted), *topic) for topic, wanted in by_topic.items()),
        max_wait_ms=int(1000 * min(_WAIT_SECONDS, deadline.remaining() / 2)) if may_wait else 0,
        max_bytes=_ENOUGH_FOR_NO_RECORD,
        isolation_level=isolation_level,
        tags=tags,
    )
    response = fetch.decode_response(session.call(FETCH, version, fetch.encode_request(request, version), deadline), version)
    answers: dict[Key, _T | DirectFetchError] = {}
    for key in partitions:
        try:
            answers[key] = read(key, response)
        except DirectFetchError as error:
            answers[key] = error
    if any(isinstance(answer, ProtocolError) for answer in answers.values()):
        session.connection.close()  # the frame was complete but its content is wrong: the connection is not used any more
    return answers


def _ask(session: PeerSession, ask: Callable[[PeerSession], _T]) -> _T:
    try:
        return ask(session)
    except ProtocolError:
        # The frame was complete but its content is wrong: this connection is not used any more.
        session.connection.close()
        raise


def _may_be_outdated(answer: object) -> bool:
    """Whether outdated metadata may be the cause of an answer."""
    if isinstance(answer, BrokerResponseError):
        return refreshes_metadata(answer.code)
    return isinstance(answer, LocationError) and not isinstance(
        answer, LocationThrottledError | NotAnnouncedError | ProtocolError
    )
