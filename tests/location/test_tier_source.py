"""A client that resolves locations itself sends the leader the same probes as the shim."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import BrokerResponseError, NoSegmentsError, ObjectNotFoundError
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location.tier_source import DEFAULT_WINDOW_BYTES, TierLocationSource
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import (
    AbortedTransaction,
    IsolationLevel,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
    TopicIdPartition,
)
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.fetch import DIVERGING_EPOCH_TAG, FetchPartition, PartitionData
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.remote_log.resolver import ResolvedSegment
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.segment_spans import SegmentSpans
from kafka_remote_client.wire import ZERO_UUID
from tests.support.fake_broker import TOPIC_ID, FakeBroker
from tests.support.questions import question, tier_question
from tests.support.scripted_peer import ScriptedPeer
from tests.support.shim_fakes import resolved
from tests.support.tier import LAYOUT, MemoryStore

COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
STATISTICS = {"index": CacheStatistics()}
TOLD = PartitionOffsets(log_start=50, high_watermark=1000)


class FakeTier:
    """Gives a prepared answer and records the questions."""

    def __init__(self) -> None:
        self.answer: ResolvedSegment | NotRemote | Exception = resolved()
        self.asked: list[LocationQuestion] = []
        self.listed: list[TopicIdPartition] = []
        self.closed = 0
        self.reads = False

    def resolve(self, question: LocationQuestion) -> ResolvedSegment | NotRemote:
        if self.reads:
            about_to_read()
        self.asked.append(question)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def segments(self, topic_id_partition: TopicIdPartition) -> list[TieredSegment] | None:
        self.listed.append(topic_id_partition)
        return [] if topic_id_partition.partition == 2 else None

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return STATISTICS

    def close(self) -> None:
        self.closed += 1


class Broker(FakeBroker):
    """A plain broker without the dialect. ``answers`` gives its data by fetch offset."""

    def __init__(self) -> None:
        super().__init__()
        self.versions = ApiVersionsResponse(
            api_keys=tuple(key for key in self.versions.api_keys if key.api_key != ApiKey.DIRECT_REMOTE_FETCH)
        )
        self.whole = attrs.evolve(self.answer, tags={}, log_start_offset=50, records=b"")
        self.answers: Callable[[FetchPartition], PartitionData] = lambda _asked: self.whole
        self.before_fetch = self._choose

    def _choose(self) -> None:
        self.answer = self.answers(self.asked[-1])

    @property
    def asked(self) -> list[FetchPartition]:
        return [request.topics[0].partitions[0] for _, request in self.fetches]


class Setup:
    def __init__(self, broker: Broker, peer: ScriptedPeer) -> None:
        self.broker = broker
        self.tier = FakeTier()
        self.store = MemoryStore()
        broker.leader = (peer.host, peer.port)
        clock = SystemClock()
        leaders = PartitionLeaders(peer.address, client_id="me", clock=clock, connect_timeout=30)
        self.reads = ThreadPoolExecutor(1)
        self.source = TierLocationSource(
            leaders, self.tier, self.store, LAYOUT, clock=clock, range_bytes=1 << 20, reads=self.reads
        )

    def locate(self, **changes: Any) -> SegmentLocation | NotRemote:
        given = {"topic": "t", "partition": 2, "offset": 120, "leader_epoch": 2, "max_bytes": 1 << 22}
        return locate_one(self.source, question(**{**given, **changes}), Deadline(SystemClock(), 60))


@pytest.fixture
def setup() -> Iterator[Setup]:
    broker = Broker()
    with ScriptedPeer(broker.script()) as peer:
        setup = Setup(broker, peer)
        yield setup
        setup.source.close()


def test_a_resolved_and_confirmed_location_is_returned(setup: Setup) -> None:
    setup.broker.throttle_time_ms = 30
    location = setup.locate()
    assert isinstance(location, SegmentLocation)
    assert (location.fetch_offset, location.next_offset, location.aborted_transactions) == (120, 160, ())
    assert (location.log_start_offset, location.high_watermark, location.last_stable_offset) == (50, 1000, 1000)
    assert (location.throttle_time_ms, location.range_signed) == (30, False)
    keys = {LocationMetadata.decode(granted.custom_metadata).object_key for granted in location}
    assert len(keys) == 1


def test_the_tier_is_searched_within_the_leaders_log(setup: Setup) -> None:
    setup.broker.whole = attrs.evolve(setup.broker.whole, last_stable_offset=400)
    setup.locate()
    setup.locate(isolation_level=UNCOMMITTED, max_bytes=0)
    tip = TopicIdPartition(TOPIC_ID, "t", 2)
    first = tier_question(tip, 120, leader_epoch=2, log_start_offset=50, end_offset=400, max_bytes=1 << 22, range_bytes=1 << 19)
    default = {"max_bytes": DEFAULT_WINDOW_BYTES, "range_bytes": 1 << 20}
    assert setup.tier.asked == [
        first,
        attrs.evolve(first, isolation_level=UNCOMMITTED, end_offset=1000, **default),
    ]


def test_the_probes_are_the_shims_and_request_no_records(setup: Setup) -> None:
    setup.locate()
    position, lineage = setup.broker.asked
    assert (position.fetch_offset, position.last_fetched_epoch, position.partition_max_bytes) == (120, 2, 0)
    assert (lineage.fetch_offset, lineage.last_fetched_epoch, lineage.partition_max_bytes) == (300, 4, 0)
    for version, request in setup.broker.fetches:
        assert (version, request.topics[0].topic_id, request.tags) == (18, TOPIC_ID, {})
        assert (request.max_wait_ms, request.min_bytes, request.session_epoch) == (0, 0, -1)
        assert request.topics[0].partitions[0].current_leader_epoch == 4


def test_reads_happen_in_another_thread(setup: Setup) -> None:
    setup.tier.reads = True
    assert isinstance(setup.locate(), SegmentLocation)
    assert len(setup.tier.asked) == 1
    assert [asked.fetch_offset for asked in setup.broker.asked] == [120, 120, 300]


def test_the_lineage_is_confirmed_once_per_leader_epoch(setup: Setup) -> None:
    setup.locate()
    setup.locate()
    assert len(setup.broker.asked) == 3


def test_the_leader_adds_transactions_with_a_local_marker(setup: Setup) -> None:
    setup.tier.answer = resolved(aborted_complete=False)
    aborted = (AbortedTransaction(1, 130), AbortedTransaction(2, 200))
    setup.broker.whole = attrs.evolve(setup.broker.whole, aborted_transactions=aborted)
    location = setup.locate()
    assert isinstance(location, SegmentLocation)
    assert location.aborted_transactions == (AbortedTransaction(1, 130),)
    tail = setup.broker.asked[-1]
    assert (tail.fetch_offset, tail.last_fetched_epoch, tail.partition_max_bytes) == (300, -1, 1)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tags": {DIVERGING_EPOCH_TAG: bytes(13)}}, "diverging-epoch"),
        ({"preferred_read_replica": 2}, "preferred-replica"),
        ({"last_stable_offset": 100}, "not-tiered"),
    ],
)
def test_the_leaders_answer_precedes_the_tier(setup: Setup, changes: dict[str, Any], reason: str) -> None:
    setup.broker.whole = attrs.evolve(setup.broker.whole, **changes)
    assert setup.locate() == NotRemote(reason, TOLD)
    assert setup.tier.asked == []


def test_an_offset_out_of_range_is_not_an_error(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    answer = setup.locate()
    assert isinstance(answer, NotRemote)
    assert (answer.reason, answer.out_of_range) == ("out-of-range", True)


def test_a_missing_acl_is_an_error(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerResponseError):
        setup.locate()
    assert setup.tier.asked == []


def test_the_tiers_reason_is_the_answer(setup: Setup) -> None:
    setup.tier.answer = NotRemote("metadata-not-ready", PartitionOffsets(latest_tiered=7))
    assert setup.locate() == NotRemote("metadata-not-ready", TOLD)


def test_the_error_behind_a_missing_topic_is_passed_on(setup: Setup) -> None:
    error = NoSegmentsError("found no segments of topic orders; the store has no objects there")
    setup.tier.answer = NotRemote("nothing-tiered", error=error)
    answer = setup.locate()
    assert isinstance(answer, NotRemote)
    assert answer.error is error


def test_an_error_of_the_tier_is_raised(setup: Setup) -> None:
    setup.tier.answer = ObjectNotFoundError("gone")
    with pytest.raises(ObjectNotFoundError):
        setup.locate()


def test_a_window_off_the_leaders_lineage_is_not_located(setup: Setup) -> None:
    off = attrs.evolve(setup.broker.whole, tags={DIVERGING_EPOCH_TAG: bytes(13)})
    setup.broker.answers = lambda asked: off if asked.fetch_offset == 300 else setup.broker.whole
    assert setup.locate() == NotRemote("lineage", TOLD)
    failing = attrs.evolve(setup.broker.whole, error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    setup.broker.answers = lambda asked: failing if asked.fetch_offset == 300 else setup.broker.whole


@pytest.mark.fault("F65")
def test_a_recreated_topic_is_another_topic(setup: Setup) -> None:
    setup.locate()
    setup.broker.topic_id = UUID(int=8)
    setup.broker.errors = [ErrorCode.UNKNOWN_TOPIC_ID]
    setup.locate()
    assert [asked.topic_id for asked in setup.tier.asked] == [TOPIC_ID, UUID(int=8)]


@pytest.mark.parametrize("reason", ["no-segment", "lineage"])
def test_a_refusal_names_the_leaders_topic(setup: Setup, reason: str) -> None:
    if reason == "lineage":
        off = attrs.evolve(setup.broker.whole, tags={DIVERGING_EPOCH_TAG: bytes(13)})
        setup.broker.answers = lambda asked: off if asked.fetch_offset == 300 else setup.broker.whole
    else:
        setup.tier.answer = NotRemote(reason)
    answer = setup.locate()
    assert isinstance(answer, NotRemote)
    assert (answer.reason, answer.topic_id) == (reason, TOPIC_ID)


def test_brokers_without_topic_ids_get_no_fetch(setup: Setup) -> None:
    setup.broker.topic_id = UUID(int=0)
    assert setup.locate() == NotRemote("no-topic-id")
    assert setup.broker.fetches == []


def test_brokers_without_a_common_version_are_not_used(setup: Setup) -> None:
    keys = (ApiVersion(ApiKey.FETCH, 4, 11), *setup.broker.versions.api_keys[1:])
    setup.broker.versions = attrs.evolve(setup.broker.versions, api_keys=keys)
    assert setup.locate() == NotRemote("no-common-version")


def test_offsets_are_the_leaders(setup: Setup) -> None:
    deadline = Deadline(SystemClock(), 60)
    assert setup.source.offsets("t", 0, deadline) == PartitionOffsets(10, 60, 80, 90)
    assert setup.source.offsets_of([("t", 1)], deadline) == {("t", 1): PartitionOffsets(10, 60, 80, 90)}


def test_close_closes_all_parts(setup: Setup) -> None:
    assert setup.source.cache_statistics() == STATISTICS
    setup.source.close()
    assert (setup.tier.closed, setup.store.closed) == (1, True)
    with pytest.raises(RuntimeError, match="after shutdown"):
        setup.reads.submit(int)


def test_an_interrupted_close_closes_the_other_parts(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup.tier, "close", interrupted)  # it may wait for the follower's thread
    with pytest.raises(KeyboardInterrupt):
        setup.source.close()
    assert setup.store.closed
    with pytest.raises(RuntimeError, match="after shutdown"):
        setup.reads.submit(int)


def test_a_tier_without_a_pool_closes(setup: Setup) -> None:
    leaders = PartitionLeaders("127.0.0.1:1", client_id="me", clock=SystemClock(), connect_timeout=30)
    TierLocationSource(leaders, setup.tier, setup.store, LAYOUT, clock=SystemClock()).close()
    assert (setup.tier.closed, setup.store.closed) == (1, True)


def test_lineage_is_confirmed_for_the_leaders_epoch_not_the_readers(setup: Setup) -> None:
    setup.locate(leader_epoch=2)
    setup.locate(leader_epoch=3)
    assert [asked.fetch_offset for asked in setup.broker.asked] == [120, 300, 120]


def test_segments_are_those_of_the_cluster_s_topic(setup: Setup) -> None:
    found = setup.source.segments_of([("t", 2), ("t", 5)], Deadline(SystemClock(), 60))
    assert found == {("t", 2): SegmentSpans()}
    assert set(setup.tier.listed) == {TopicIdPartition(TOPIC_ID, "t", number) for number in (2, 5)}
    assert setup.broker.fetches == []


def test_segments_of_a_topic_without_id_are_not_known(setup: Setup) -> None:
    setup.broker.topic_id = ZERO_UUID
    assert setup.source.segments_of([("t", 2)], Deadline(SystemClock(), 60)) == {}
    assert setup.tier.listed == []
