"""Leaders are asked for lists of segments in as few requests as there are pages, and only if they announce lists."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.location.leader_lists import PartitionsAtOnce
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeature
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentPage
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.segment_list import SegmentEntry
from kafka_remote_client.segment_spans import SegmentSpan
from tests.support.fake_broker import DIALECT, FakeBroker, Setup
from tests.support.locations import ManualClock
from tests.support.scripted_peer import ScriptedPeer

SECONDS = 60


def entries(count: int, first: int = 0) -> list[SegmentEntry]:
    """Segments of ten offsets."""
    starts = range(first, first + 10 * count, 10)
    return [SegmentEntry(UUID(int=1 + at).bytes, at, at + 9, at, at + 10, 3, 1000 + at, 5000) for at in starts]


@pytest.fixture
def setup() -> Iterator[Setup]:
    broker = FakeBroker()
    broker.lists = {0: entries(5), 1: entries(1, first=40), 2: []}
    with ScriptedPeer(broker.script()) as peer:
        setup = Setup(broker, peer)
        yield setup
        setup.source.close()


def starts_of(setup: Setup, *partitions: int, seconds: float = SECONDS) -> dict[int, list[int]]:
    """The first offsets of the listed segments, by partition."""
    source = GuardedLocationSource(setup.source)
    found = source.segments_of([("t", partition) for partition in partitions], Deadline(SystemClock(), seconds))
    return {partition: [one.start for one in segments] for (_, partition), segments in found.items()}


def asked(setup: Setup) -> list[dict[int, int | None]]:
    """From where each Fetch asked for lists, by partition."""
    return [
        {one.partition: DIALECT.read_request(request.tags, one.tags).list_start for one in request.topics[0].partitions}
        for _, request in setup.broker.fetches
    ]


def test_lists_of_many_partitions_are_read_page_by_page(setup: Setup) -> None:
    assert starts_of(setup, 0, 1, 2) == {0: [0, 10, 20, 30, 40], 1: [40], 2: []}
    assert asked(setup) == [{0: 0, 1: 0, 2: 0}, {0: 20}, {0: 40}]


def test_a_listed_segment_has_all_that_a_plan_needs(setup: Setup) -> None:
    (segment,) = setup.source.segments_of([("t", 1)], Deadline(SystemClock(), SECONDS))["t", 1]
    assert segment == SegmentSpan(40, 50, 5000, 1040)


def test_a_segment_that_ends_early_has_its_share_of_the_bytes(setup: Setup) -> None:
    (whole,) = entries(1, first=40)
    setup.broker.lists[1] = [whole._replace(next_offset=44)]
    (segment,) = setup.source.segments_of([("t", 1)], Deadline(SystemClock(), SECONDS))["t", 1]
    assert segment == SegmentSpan(40, 44, 2000, 1040)


def test_requests_for_long_lists_name_fewer_partitions() -> None:
    batch = PartitionsAtOnce()

    def answered(*lengths: int, more: bool) -> int:
        batch.adapt([SegmentPage(tuple(entries(length)), 10 * length if more else None) for length in lengths])
        return batch.most

    assert [answered(2, 2, 2, 2, more=True) for _ in range(3)] == [64, 32, 16]
    assert answered(4, 3, more=False) == 16, "complete, and nearly as many entries as an answer has"
    assert answered(2, 2, more=False) == 32
    assert [answered(1, more=False) for _ in range(3)] == [64, 128, 128]
    assert [answered(8, more=True) for _ in range(9)][-2:] == [1, 1]


def test_the_fetch_is_at_the_end_of_the_log_and_requests_no_records(setup: Setup) -> None:
    starts_of(setup, 1)
    ((version, request),) = setup.broker.fetches
    ((one,),) = (topic.partitions for topic in request.topics)
    assert version == 18
    assert (one.fetch_offset, one.partition_max_bytes, one.current_leader_epoch) == (90, 0, 4)
    assert (request.max_bytes, request.min_bytes, request.max_wait_ms, request.session_epoch) == (1, 0, 500, -1)
    assert DIALECT.read_request(request.tags, one.tags) == LocationRequest((), batched=True, list_start=0)


@pytest.mark.parametrize(
    "announced",
    [
        {"api_keys": (ApiVersion(ApiKey.DIRECT_REMOTE_FETCH, 0, 2),)},
        {"supported_features": (SupportedFeature("direct.remote.fetch", 1, 3),)},
        {},
    ],
)
def test_a_peer_that_does_not_announce_lists_is_not_asked(setup: Setup, announced: dict[str, tuple[object, ...]]) -> None:
    known = setup.broker.versions
    keys = tuple(key for key in known.api_keys if key.api_key != ApiKey.DIRECT_REMOTE_FETCH)
    told = ApiVersionsResponse(**announced)
    setup.broker.versions = attrs.evolve(told, api_keys=(*keys, *told.api_keys))
    assert starts_of(setup, 0, 1) == {}
    assert setup.broker.fetches == []


def test_a_peer_without_tagged_fields_in_fetch_is_not_asked(setup: Setup) -> None:
    known = setup.broker.versions
    keys = tuple(attrs.evolve(key, max_version=11) if key.api_key == ApiKey.FETCH else key for key in known.api_keys)
    setup.broker.versions = attrs.evolve(known, api_keys=keys)
    assert starts_of(setup, 0) == {}
    assert setup.broker.fetches == []


def test_a_pending_page_is_asked_for_again(setup: Setup) -> None:
    setup.broker.pending = {0}

    def release() -> None:
        if len(setup.broker.fetches) == 2:
            setup.broker.pending = set()

    setup.broker.before_fetch = release
    assert starts_of(setup, 0, 1) == {0: [0, 10, 20, 30, 40], 1: [40]}
    assert asked(setup) == [{0: 0, 1: 0}, {0: 0}, {0: 20}, {0: 40}]


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.OFFSET_OUT_OF_RANGE]
)
def test_a_refused_partition_is_left_out(setup: Setup, code: ErrorCode, caplog: pytest.LogCaptureFixture) -> None:
    setup.broker.before_fetch = lambda: setup.broker.errors.append(code)
    with caplog.at_level(logging.DEBUG, "kafka_remote_client.location.leader_lists"):
        assert starts_of(setup, 1) == {}
    assert "the segments of t-1 are not listed" in caplog.text


def test_a_partition_without_a_list_is_left_out(setup: Setup) -> None:
    del setup.broker.lists[1]
    assert starts_of(setup, 1, 2) == {2: []}


def test_refused_offsets_leave_their_partition_out(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert starts_of(setup, 0, 1) == {1: [40]}


def test_a_page_that_contradicts_the_question_leaves_its_partition_out(setup: Setup) -> None:
    first = DIALECT.page_tags(SegmentPage(tuple(entries(1)), 10))
    del setup.broker.lists[0]
    setup.broker.answer = attrs.evolve(setup.broker.answer, tags=first)
    assert starts_of(setup, 0) == {}
    assert asked(setup) == [{0: 0}, {0: 10}], "the second page begins below 10"


def test_complete_lists_are_kept_when_a_later_request_fails(setup: Setup) -> None:
    clock = ManualClock()
    source = BrokerLocationSource(setup.peer.address, client_id="me", clock=clock, connect_timeout=30)
    setup.broker.pending = {0}

    def pass_time() -> None:
        clock.now += 40

    setup.broker.before_fetch = pass_time
    try:
        found = source.segments_of([("t", 0), ("t", 1)], Deadline(clock, SECONDS))
    finally:
        source.close()
    assert set(found) == {("t", 1)}
    assert asked(setup)[:2] == [{0: 0, 1: 0}, {0: 0}]


def test_a_failure_of_the_first_request_leaves_all_partitions_out(setup: Setup) -> None:
    setup.broker.before_fetch = setup.source.close
    assert starts_of(setup, 0, 1) == {}
