"""BrokerLocationSource: asks the partition's leader with a Fetch that has the dialect's tagged fields.

Step by step: the partitions' leaders and a session with each (:mod:`~kafka_remote_client.location.leaders`), whether these
peers announced themselves, one Fetch per leader with up to 128 partitions, and the answers
(:mod:`~kafka_remote_client.location.answer`). A peer that announces version 1 of the dialect gets one partition per Fetch.

The Fetch has no session and requests no records (MinBytes and PartitionMaxBytes 0), so a peer that grants nothing has
hardly any work. A peer that did not announce the dialect never gets it: a broker would treat the Fetch as an ordinary
one and might read the tier for it. Locations have a connection of their own, so a look-up that takes long delays nothing else.

References: KIP-1248, KIP-1254, docs/wire-format.md.
"""

from __future__ import annotations

import ssl
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import NotAnnouncedError
from kafka_remote_client.location.answer import location_of
from kafka_remote_client.location.cluster_metadata import Key, PartitionLeader
from kafka_remote_client.location.leader_lists import LeaderLists
from kafka_remote_client.location.leaders import BoundsByLeaders, PartitionLeaders, fetch_tagged, fetch_version
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer, NotRemote
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.connection import Authenticator
from kafka_remote_client.protocol.dialect import MOST_PARTITIONS, LocationRequest, TaggedDialect
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT
from kafka_remote_client.segment_spans import SegmentSpans
from kafka_remote_client.wire import TaggedFields

__all__ = ["BrokerLocationSource"]

_DEFAULT_FORMATS = (ORIGINAL_FORMAT,)
_DEFAULT_CONNECT_SECONDS = 1.0
_LOCATIONS = "locations"


class BrokerLocationSource(BoundsByLeaders):
    """A LocationSource that asks brokers (or a shim in front of them). Two connections per broker, shared by all threads.

    ``formats`` are the storage formats that the caller can read; ``connect_timeout`` is in seconds. Asking for bounds raises
    NotAnnouncedError where the leader does not announce the dialect.
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
        self._lists = LeaderLists(self._leaders, clock)

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource; reasons are those of the answer module, "not-announced" and "no-common-version"."""
        answers: dict[LocationQuestion, LocationAnswer] = {}
        for asked in _once_per_partition(questions):
            answer = partial(self._locate_led, asked)
            answered = self._leaders.ask_all(list(asked), deadline, answer, _LOCATIONS)
            answers |= {question: answered[key] for key, question in asked.items()}
        return answers

    def _locate_led(
        self,
        asked: Mapping[Key, LocationQuestion],
        session: PeerSession,
        led: Mapping[Key, PartitionLeader],
        deadline: Deadline,
    ) -> Mapping[Key, LocationAnswer]:
        """The answers of one leader. The time of each Fetch begins with its turn on the connection.

        The batches in front of it may take all of their time, so the wait for the turn has no end of its own.
        """
        if not session.versions.announces_direct_fetch:
            return {key: NotRemote("not-announced", error=NotAnnouncedError(leader.host)) for key, leader in led.items()}
        answers: dict[Key, LocationAnswer] = {}
        by_version: dict[int, list[Key]] = defaultdict(list)
        for key, leader in led.items():
            version = fetch_version(leader, session)
            if version is None:
                answers[key] = NotRemote("no-common-version")
            else:
                by_version[version].append(key)
        most = MOST_PARTITIONS if session.versions.announces_many_partitions else 1
        for version, keys in by_version.items():
            for begin in range(0, len(keys), most):
                some = {key: led[key] for key in keys[begin : begin + most]}
                seconds = deadline.remaining()
                with session.connection.turn():
                    answers |= self._fetched(asked, session, some, version, Deadline(self._clock, seconds))
        return answers

    def _fetched(
        self,
        asked: Mapping[Key, LocationQuestion],
        session: PeerSession,
        led: Mapping[Key, PartitionLeader],
        version: int,
        deadline: Deadline,
    ) -> Mapping[Key, LocationAnswer]:
        """The answers to one Fetch. Raises LocationError."""
        wanted: dict[Key, fetch.FetchPartition] = {}
        root: TaggedFields = {}
        for key, leader in led.items():
            question = asked[key]
            root, tags = self._dialect.request_tags(
                LocationRequest(
                    self._formats,
                    max_bytes=question.max_bytes,
                    end_offset=question.read_end_offset,
                    batched=True,
                    range_bytes=question.range_bytes,
                    large_positions=session.versions.announces_large_positions,
                )
            )
            wanted[key] = fetch.FetchPartition(
                question.partition, question.offset, 0, leader.leader_epoch, question.leader_epoch, tags=tags
            )
        sent_at = self._clock.monotonic()
        by_id = version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS

        def read(key: Key, response: fetch.FetchResponse) -> LocationAnswer:
            question = attrs.evolve(asked[key], topic_id=led[key].topic_id, formats=self._formats)
            return location_of(question, response, sent_at=sent_at, by_id=by_id, dialect=self._dialect)

        return fetch_tagged(
            session,
            version,
            wanted,
            led,
            deadline,
            may_wait=session.versions.announces_many_partitions,
            isolation_level=asked[next(iter(led))].isolation_level,
            tags=root,
            read=read,
        )

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: Deadline) -> Mapping[tuple[str, int], SegmentSpans]:
        """As SegmentListingSource. Partitions are left out whose leader does not list segments, or refuses this one."""
        return self._lists.segments_of(partitions, deadline, _LOCATIONS)

    def close(self) -> None:
        self._leaders.close()


def _once_per_partition(questions: Sequence[LocationQuestion]) -> list[dict[Key, LocationQuestion]]:
    """Returns the questions in groups for one Fetch each: no partition twice, one isolation level."""
    groups: list[dict[Key, LocationQuestion]] = []
    for question in dict.fromkeys(questions):
        key = (question.topic, question.partition)
        for group in groups:
            if key not in group and next(iter(group.values())).isolation_level is question.isolation_level:
                group[key] = question
                break
        else:
            groups.append({key: question})
    return groups


def _check_announced(leader: PartitionLeader, session: PeerSession) -> None:
    """A peer that grants nothing is not asked for bounds, because the partition would leave the broker path without use."""
    if not session.versions.announces_direct_fetch:
        raise NotAnnouncedError(leader.host)
