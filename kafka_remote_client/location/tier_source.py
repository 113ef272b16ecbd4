"""TierLocationSource: the client looks up the location in the tier, and the partition's leader confirms it.

Steps of one question: to the leader about the position (error, divergence, log start, high watermark, last stable
offset), to the tier (segment, ranges, aborted transactions), to the leader about the result (lineage, aborted transactions
whose marker is still local). These are the shim's steps, over a connection of the client's own, so any broker works, and READ,
quotas and leadership stay under its control. The client reads the segment with its own credentials.

Topics are identified by the leader's topic ids: a recreated topic is never read from the old topic's tier.

References: KIP-516, KIP-1254, docs/design.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from typing import Protocol

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.location.answer import leader_answer, not_remote
from kafka_remote_client.location.cluster_metadata import PartitionLeader
from kafka_remote_client.location.direct_location import direct_location
from kafka_remote_client.location.leader_check import LeaderCheck, only_partition, readable_end
from kafka_remote_client.location.leaders import BoundsByLeaders, PartitionLeaders, fetch_version
from kafka_remote_client.location.look_ups import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_SECONDS, LookUps
from kafka_remote_client.location.probes import NotGrantedError, Probe, ProbeKind, answered
from kafka_remote_client.location.segment_lists import list_segments
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import LocationAnswer, NotRemote, SegmentLocation, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol import fetch
from kafka_remote_client.protocol.api_keys import FETCH
from kafka_remote_client.protocol.fetch import PartitionData
from kafka_remote_client.protocol.peer import PeerSession
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.segment_spans import SegmentSpans
from kafka_remote_client.settings import default_of
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["DEFAULT_RANGE_BYTES", "DEFAULT_WINDOW_BYTES", "TierLocationSource", "TierResolver"]

DEFAULT_RANGE_BYTES: int = default_of("fetch.remote.range.bytes")
DEFAULT_WINDOW_BYTES = 4 * DEFAULT_RANGE_BYTES
_ENOUGH_FOR_ONE_BATCH = 1


class TierResolver(Protocol):
    """The content of the tier, from the metadata topic or a listing. Thread safe."""

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        """Where the offset lies in the log ``[log_start_offset, end_offset)``. Raises what the store raises.

        In :func:`kept_only` raises NotKeptError instead of waiting for a read.
        """

    def segments(self, topic_id_partition: TopicIdPartition) -> Sequence[TieredSegment] | None:
        """The segments of the log, in order; ``None`` = not ready. Raises RemoteLogError kinds, and what the store raises."""

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        """Returns the counters of its caches, by the names of ``metrics.CACHES``."""

    def close(self) -> None:
        """Ends its background work. May be called twice."""


class TierLocationSource(BoundsByLeaders):
    """A LocationSource over a tier and the leaders of its partitions. Owns ``leaders``, ``tier``, ``store`` and ``reads``.

    ``range_bytes`` bounds the bytes of one range, ``lookup_concurrency`` the look-ups that read at the same time, and
    ``lookup_timeout`` the seconds of one look-up, including its wait for a thread. The deadline of a question limits the
    requests to the leader. ``reads`` is the pool with which the tier reads the store, if it has one.
    """

    def __init__(
        self,
        leaders: PartitionLeaders,
        tier: TierResolver,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        *,
        clock: Clock,
        range_bytes: int = DEFAULT_RANGE_BYTES,
        reads: Executor | None = None,
        lookup_concurrency: int = DEFAULT_CONCURRENCY,
        lookup_timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self._leaders = leaders
        self._tier = tier
        self._store = store
        self._layout = layout
        self._clock = clock
        self._range_bytes = arguments.whole(range_bytes, "range_bytes", 1)
        self._reads = reads
        self._leader_check = LeaderCheck()
        self._lookup_concurrency = lookup_concurrency
        self._look_ups = LookUps(self._answer, clock, concurrency=lookup_concurrency, timeout=lookup_timeout)

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource; reasons are those of the tier and of the leader. RemoteLogError is an answer as well."""
        return self._look_ups.locate(questions, deadline)

    def _answer(self, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:

        def ask(leader: PartitionLeader, session: PeerSession) -> SegmentLocation | NotRemote:
            version = fetch_version(leader, session)
            if version is None:
                return NotRemote("no-common-version")
            if leader.topic_id == ZERO_UUID:
                return NotRemote("no-topic-id")
            asked = attrs.evolve(question, topic_id=leader.topic_id, max_bytes=question.max_bytes or DEFAULT_WINDOW_BYTES)
            return self._locate(_LeaderFetches(asked, leader, session, version), deadline)

        return self._leaders.ask(question.topic, question.partition, deadline, ask)

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: Deadline) -> Mapping[tuple[str, int], SegmentSpans]:
        """As SegmentListingSource. The leaders' cluster gives the topic ids: one Metadata request for all topics."""
        topics = self._leaders.topics(list(dict.fromkeys(topic for topic, _ in partitions)), deadline)

        def tip(key: tuple[str, int]) -> TopicIdPartition | None:
            topic_id = topics[key[0]].topic_id
            return None if topic_id == ZERO_UUID else TopicIdPartition(topic_id, *key)

        return list_segments(partitions, tip, self._tier.segments, deadline, concurrency=self._lookup_concurrency)

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self._tier.cache_statistics()

    def close(self) -> None:
        with ExitStack() as steps:  # the end of the tier's thread may take seconds, in which an interrupt may arrive
            steps.callback(self._store.close)
            if self._reads is not None:
                steps.callback(self._reads.shutdown, wait=False, cancel_futures=True)
            steps.callback(self._tier.close)
            steps.callback(self._leaders.close)
            self._look_ups.close()

    def _locate(self, fetches: _LeaderFetches, deadline: Deadline) -> SegmentLocation | NotRemote:
        question = fetches.question
        answer = fetches.ask(Probe(ProbeKind.POSITION, question.offset, question.leader_epoch), deadline)
        data_of_leader = leader_answer(question, answer, by_id=fetches.by_id)
        if isinstance(data_of_leader, NotRemote):
            return data_of_leader
        try:
            end = readable_end(data_of_leader, question.offset, question.isolation_level)
            left = deadline.remaining()
            found = self._tier.resolve(
                attrs.evolve(
                    question,
                    log_start_offset=data_of_leader.log_start_offset,
                    end_offset=end,
                    range_bytes=range_size(question.max_bytes, question.range_bytes, self._range_bytes),
                )
            )
            if isinstance(found, NotRemote):
                return not_remote(found.reason, question, data_of_leader, by_id=fetches.by_id, error=found.error)
            probes = self._leader_check.confirm(found, question.isolation_level, fetches.leader.leader_epoch)
            aborted = answered(probes, partial(fetches.data, deadline=Deadline(self._clock, left)))
        except NotGrantedError as refused:
            return not_remote(refused.why, question, data_of_leader, by_id=fetches.by_id)
        return direct_location(
            self._store,
            self._layout,
            found,
            aborted=aborted,
            high_watermark=data_of_leader.high_watermark,
            last_stable_offset=data_of_leader.last_stable_offset,
            log_start_offset=data_of_leader.log_start_offset,
            throttle_time_ms=answer.throttle_time_ms,
        )


class _LeaderFetches:
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
