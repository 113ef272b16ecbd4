"""TierLocationSource: the client finds the place in the tier by itself, and has the partition's leader confirm it.

One question, step by step: the leader's word on the position (error, divergence, log start, high watermark, last stable
offset), the tier (segment, ranges, aborted transactions), the leader's word on what was found (lineage, aborted transactions
whose marker is still local). These are the shim's steps, over a connection of the client's own, so any broker will do and READ,
quotas and leadership stay its to judge. What is found is read with the client's own credentials.

Topics are told apart by their ids, which the leader gives: a topic that was created anew is never read from the old one's tier.

References: KIP-516, KIP-1254, docs/design.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location.answer import LocationQuestion, leaders_word, offsets_of
from kafka_remote_client.location.brokers_word import BrokersWord, only_partition, readable_end
from kafka_remote_client.location.cluster import PartitionLeader
from kafka_remote_client.location.direct_location import direct_location
from kafka_remote_client.location.leaders import PartitionLeaders, fetch_version
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, answered
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import IsolationLevel, NotRemote, PartitionOffsets, SegmentLocation, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.protocol.primitives import ZERO_UUID
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.remote_log.window import range_size

__all__ = ["DEFAULT_RANGE_BYTES", "DEFAULT_WINDOW_BYTES", "Tier", "TierLocationSource"]

DEFAULT_RANGE_BYTES = 8 * 1024 * 1024
DEFAULT_WINDOW_BYTES = 4 * DEFAULT_RANGE_BYTES
_ENOUGH_FOR_ONE_BATCH = 1


class Tier(Protocol):
    """What lies in the tier, by the metadata topic or by a listing. Thread safe."""

    def resolve(
        self,
        tip: TopicIdPartition,
        offset: int,
        isolation_level: IsolationLevel,
        *,
        log_start: int,
        end: int,
        max_bytes: int,
        range_bytes: int,
    ) -> ResolvedSegment | NotRemote:
        """Where ``offset`` lies in the log ``[log_start, end)``. Raises RemoteLogError or RemoteStorageError kinds."""

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        """What its caches did, by the names of ``metrics.CACHES``."""

    def close(self) -> None:
        """Ends what it does in the background. May be called twice."""


class TierLocationSource:
    """A LocationSource over a tier and the leaders of its partitions. Owns ``leaders``, ``tier`` and ``store``.

    ``range_bytes`` bounds the bytes of one range. The deadline of a question bounds what is asked of the leader; the store
    bounds what is read of it.
    """

    def __init__(
        self,
        leaders: PartitionLeaders,
        tier: Tier,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        *,
        clock: Clock,
        range_bytes: int = DEFAULT_RANGE_BYTES,
    ) -> None:
        self._leaders = leaders
        self._tier = tier
        self._store = store
        self._layout = layout
        self._clock = clock
        self._range_bytes = arguments.whole(range_bytes, "range_bytes", 1)
        self._word = BrokersWord()

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
        """As LocationSource; reasons are those of the tier and of the leader's word. Raises RemoteLogError as well."""
        isolation_level = arguments.isolation_level(isolation_level)
        arguments.offset(offset, "offset")
        arguments.whole(max_bytes, "max_bytes", 0)

        def ask(leader: PartitionLeader, session: PeerSession) -> SegmentLocation | NotRemote:
            version = fetch_version(leader, session)
            if version is None:
                return NotRemote("no-common-version")
            if leader.topic_id == ZERO_UUID:
                return NotRemote("no-topic-id")
            question = LocationQuestion(topic, leader.topic_id, partition, offset, isolation_level, (), self._clock.monotonic())
            exchange = _Exchange(question, leader, session, version)
            return self._locate(exchange, leader_epoch, max_bytes or DEFAULT_WINDOW_BYTES, deadline)

        return self._leaders.ask(topic, partition, deadline, ask)

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        return self._leaders.offsets(topic, partition, deadline)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return self._leaders.offsets_of(partitions, deadline)

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self._tier.cache_statistics()

    def close(self) -> None:
        self._leaders.close()
        self._tier.close()
        self._store.close()

    def _locate(
        self, exchange: _Exchange, leader_epoch: int, max_bytes: int, deadline: Deadline
    ) -> SegmentLocation | NotRemote:
        question = exchange.question
        answer = exchange.ask(Probe(ProbeKind.POSITION, question.offset, leader_epoch), deadline)
        told = leaders_word(question, answer, by_id=exchange.by_id)
        if isinstance(told, NotRemote):
            return told
        try:
            end = readable_end(told, question.offset, question.isolation_level)
            left = deadline.remaining()
            found = self._tier.resolve(
                TopicIdPartition(question.topic_id, question.topic, question.partition),
                question.offset,
                question.isolation_level,
                log_start=told.log_start_offset,
                end=end,
                max_bytes=max_bytes,
                range_bytes=range_size(max_bytes, self._range_bytes),
            )
            if isinstance(found, NotRemote):
                return NotRemote(found.reason, offsets_of(told))
            probes = self._word.confirm(found, question.isolation_level, exchange.leader.leader_epoch)
            aborted = answered(probes, partial(exchange.data, deadline=Deadline(self._clock, left)))
        except NotGrantedError as refused:
            return NotRemote(refused.why, offsets_of(told))
        return direct_location(
            self._store,
            self._layout,
            found,
            aborted=aborted,
            high_watermark=told.high_watermark,
            last_stable_offset=told.last_stable_offset,
            log_start_offset=told.log_start_offset,
            throttle_time_ms=answer.throttle_time_ms,
        )


class _Exchange:
    """Fetches of one partition, by one leader, in one session."""

    def __init__(self, question: LocationQuestion, leader: PartitionLeader, session: PeerSession, version: int) -> None:
        self.question = question
        self.leader = leader
        self._session = session
        self._version = version

    @property
    def by_id(self) -> bool:
        return self._version >= fetch.FIRST_VERSION_WITH_TOPIC_IDS

    def ask(self, probe: Probe, deadline: Deadline) -> fetch.FetchResponse:
        """Raises LocationError, ProtocolError."""
        question = self.question
        wanted = fetch.FetchPartition(
            question.partition, probe.offset, probe.max_bytes, self.leader.leader_epoch, probe.last_fetched_epoch
        )
        request = fetch.FetchRequest(
            topics=(fetch.FetchTopic((wanted,), question.topic, question.topic_id),),
            max_bytes=_ENOUGH_FOR_ONE_BATCH,
            isolation_level=question.isolation_level,
        )
        answer = self._session.call(FETCH, self._version, fetch.encode_request(request, self._version), deadline)
        return fetch.decode_response(answer, self._version)

    def data(self, probe: Probe, *, deadline: Deadline) -> PartitionData | None:
        answer = self.ask(probe, deadline)
        return None if answer.error_code else only_partition(answer)
