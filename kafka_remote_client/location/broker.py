"""BrokerLocationSource: asks the partition's leader, by a Fetch that carries the dialect's tagged fields.

One question, step by step: the partition's leader and a session with it (:mod:`~kafka_remote_client.location.leaders`), whether
that peer announced itself, the Fetch, and the answer (:mod:`~kafka_remote_client.location.answer`).

The Fetch is without a session, waits for nothing and asks for no records (MaxWaitMs, MinBytes and PartitionMaxBytes 0), so a
peer that grants nothing has next to nothing to do. A peer that did not announce the dialect is never asked: a broker would
take the Fetch for an ordinary one and might read the tier for it.

References: KIP-1248, KIP-1254, docs/wire-format.md.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError, NotAnnouncedError
from kafka_remote_client.location.answer import LocationQuestion, location_of
from kafka_remote_client.location.cluster import PartitionLeader
from kafka_remote_client.location.leaders import PartitionLeaders, fetch_version
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.protocol.connection import Authenticator
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT

__all__ = ["BrokerLocationSource"]

_DEFAULT_FORMATS = (ORIGINAL_FORMAT,)
_DEFAULT_CONNECT_SECONDS = 1.0
_ENOUGH_FOR_NO_RECORD = 1


class BrokerLocationSource:
    """A LocationSource that asks brokers (or a shim in front of them). One connection per broker, shared by all threads.

    ``formats`` are the storage formats that the caller can read; ``connect_timeout`` is in seconds.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        client_id: str,
        clock: Clock,
        formats: Sequence[str] = _DEFAULT_FORMATS,
        connect_timeout: float = _DEFAULT_CONNECT_SECONDS,
        ssl_context: ssl.SSLContext | None = None,
        sasl: Authenticator | None = None,
    ) -> None:
        self._clock = clock
        self._formats = tuple(formats)
        self._dialect = TaggedDialect()
        self._leaders = PartitionLeaders(
            bootstrap_servers,
            client_id=client_id,
            clock=clock,
            connect_timeout=arguments.duration(connect_timeout, "connect_timeout"),
            ssl_context=ssl_context,
            sasl=sasl,
            check=_check_announced,
        )

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
        """As LocationSource; reasons are those of the answer module, "not-announced" and "no-common-version"."""
        isolation_level = arguments.isolation_level(isolation_level)
        arguments.offset(offset, "offset")
        arguments.whole(max_bytes, "max_bytes", 0)

        def ask(leader: PartitionLeader, session: PeerSession) -> SegmentLocation | NotRemote:
            if not session.versions.announces_direct_fetch:
                return NotRemote("not-announced", error=NotAnnouncedError(leader.host))
            version = fetch_version(leader, session)
            if version is None:
                return NotRemote("no-common-version")
            root, tags = self._dialect.request_tags(LocationRequest(self._formats, max_bytes=max_bytes))
            wanted = fetch.FetchPartition(partition, offset, 0, leader.leader_epoch, leader_epoch, tags=tags)
            request = fetch.FetchRequest(
                topics=(fetch.FetchTopic((wanted,), topic, leader.topic_id),),
                max_bytes=_ENOUGH_FOR_NO_RECORD,
                isolation_level=isolation_level,
                tags=root,
            )
            sent_at = self._clock.monotonic()
            answer = session.call(FETCH, version, fetch.encode_request(request, version), deadline)
            return location_of(
                LocationQuestion(topic, leader.topic_id, partition, offset, isolation_level, self._formats, sent_at),
                fetch.decode_response(answer, version),
                by_id=version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS,
                dialect=self._dialect,
            )

        return self._leaders.ask(topic, partition, deadline, ask)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """As LocationSource. Raises NotAnnouncedError where the leader does not announce the dialect."""
        return self._leaders.offsets(topic, partition, deadline)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return self._leaders.offsets_of(partitions, deadline)

    def close(self) -> None:
        self._leaders.close()


def _check_announced(leader: PartitionLeader, session: PeerSession) -> None:
    """A peer that grants nothing is not asked for bounds either: the partition would leave the broker path for nothing."""
    if not session.versions.announces_direct_fetch:
        raise NotAnnouncedError(leader.host)
