from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    BrokerResponseError,
    LocationError,
    LocationThrottledError,
    NotAnnouncedError,
    PeerUnreachableError,
    ProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import (
    IsolationLevel,
    LocationPending,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
)
from kafka_remote_client.protocol import list_offsets, metadata
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeature
from kafka_remote_client.protocol.dialect import LocationRequest
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.protocol.headers import RequestHeader
from kafka_remote_client.protocol.list_offsets import ListOffsetsPartitionResponse
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataPartition, MetadataResponse, MetadataTopic
from tests.support.fake_broker import DIALECT, GRANT, TOPIC_ID, FakeBroker, Setup
from tests.support.locations import ManualClock
from tests.support.questions import question
from tests.support.scripted_peer import PeerConnection, ScriptedPeer
from tests.support.waiting import wait_until


@pytest.fixture
def setup() -> Any:
    broker = FakeBroker()
    with ScriptedPeer(broker.script()) as peer:
        setup = Setup(broker, peer)
        yield setup
        setup.source.close()


@contextmanager
def led_by_two(setup: Setup) -> Iterator[tuple[FakeBroker, Setup]]:
    """A second broker that leads partition 1, and a source that knows it."""
    other = FakeBroker()
    with ScriptedPeer(other.script()) as peer:
        both = (MetadataBroker(1, *setup.broker.leader), MetadataBroker(2, peer.host, peer.port))
        topic = MetadataTopic("t", (MetadataPartition(0, 1), MetadataPartition(1, 2)), topic_id=TOPIC_ID)
        setup.broker._metadata = lambda header, _: metadata.encode_response(
            MetadataResponse(both, (topic,)), header.api_version
        )
        with ScriptedPeer(setup.broker.script()) as bootstrap:
            mine = Setup(other, bootstrap)
            yield other, mine
            mine.source.close()


def test_a_granted_location_is_returned(setup: Setup) -> None:
    setup.broker.throttle_time_ms = 250
    location = setup.locate()
    assert isinstance(location, SegmentLocation)
    assert location.metadata.remote_log_segment_id.id == GRANT.segment_id
    assert location.metadata.topic_id_partition.topic_id == TOPIC_ID
    assert (location.next_offset, location.throttle_time_ms) == (100, 250)


def test_a_throttling_broker_gets_no_request_and_its_metadata_is_used(setup: Setup) -> None:
    setup.broker.throttle_time_ms = 600_000
    assert isinstance(setup.locate(), SegmentLocation)
    for ask in (setup.locate, setup.offsets, lambda: setup.locate(partition=1)):
        with pytest.raises(LocationThrottledError) as told:
            ask()
        assert 0 < told.value.retry_after <= 600
    assert (len(setup.broker.fetches), len(setup.broker.metadata_requests), setup.peer.accepted) == (1, 1, 2)


def test_other_brokers_get_requests_while_one_throttles(setup: Setup) -> None:
    setup.broker.throttle_time_ms = 600_000
    with led_by_two(setup) as (other, mine):
        assert isinstance(mine.locate(partition=0), SegmentLocation)
        with pytest.raises(LocationThrottledError):
            mine.locate(partition=0)
        for _ in range(3):
            assert isinstance(mine.locate(partition=1), SegmentLocation)
    assert (len(setup.broker.fetches), len(other.fetches)) == (1, 3)


def test_the_fetch_has_the_readers_position_and_requests_no_records(setup: Setup) -> None:
    setup.locate(partition=2)
    ((version, request),) = setup.broker.fetches
    assert version == 18
    assert (request.session_id, request.session_epoch, request.max_wait_ms, request.min_bytes, request.max_bytes) == (
        0,
        -1,
        500,
        0,
        1,
    )
    assert request.isolation_level == IsolationLevel.READ_COMMITTED
    ((asked,),) = (topic.partitions for topic in request.topics)
    assert request.topics[0].topic_id == TOPIC_ID
    assert (asked.partition, asked.fetch_offset, asked.partition_max_bytes) == (2, 5, 0)
    assert (asked.current_leader_epoch, asked.last_fetched_epoch) == (4, 3)
    assert DIALECT.read_request(request.tags, asked.tags) == LocationRequest(
        ("ApacheKafkaV1",), max_bytes=1 << 20, batched=True, large_positions=True
    )


def asked(*partitions: int, **changes: Any) -> list[LocationQuestion]:
    return [question("t", partition, 5, **changes) for partition in partitions]


def partitions_of(setup: Setup) -> list[list[int]]:
    """Returns the partitions of each Fetch."""
    return [[one.partition for one in request.topics[0].partitions] for _, request in setup.broker.fetches]


def test_partitions_of_one_leader_are_one_fetch(setup: Setup) -> None:
    setup.broker.pending = {1}
    setup.broker.errors = [0, 0, ErrorCode.CORRUPT_MESSAGE]
    questions = asked(0, 1, 2)
    answers = setup.source.locate(questions, Deadline(SystemClock(), 60))
    first, second, third = (answers[question] for question in questions)
    assert isinstance(first, SegmentLocation)
    assert second == LocationPending()
    assert isinstance(third, BrokerResponseError)
    assert partitions_of(setup) == [[0, 1, 2]]


def test_each_leader_is_asked_about_its_own_partitions(setup: Setup) -> None:
    with led_by_two(setup) as (other, mine):
        questions = asked(0, 1)
        answers = mine.source.locate(questions, Deadline(SystemClock(), 60))
    assert all(isinstance(answers[question], SegmentLocation) for question in questions)
    assert (len(setup.broker.fetches), len(other.fetches)) == (1, 1)


def test_two_questions_about_one_partition_are_two_fetches(setup: Setup) -> None:
    questions = [*asked(0, 1), *asked(0, max_bytes=7), *asked(2, isolation_level=IsolationLevel.READ_UNCOMMITTED)]
    answers = setup.source.locate([*questions, questions[0]], Deadline(SystemClock(), 60))
    assert set(answers) == set(questions)
    assert partitions_of(setup) == [[0, 1], [0], [2]]


def test_an_old_peer_gets_one_partition_per_request(setup: Setup) -> None:
    keys = tuple(key for key in setup.broker.versions.api_keys if key.api_key != ApiKey.DIRECT_REMOTE_FETCH)
    feature = SupportedFeature("direct.remote.fetch", 1, 1)
    setup.broker.versions = ApiVersionsResponse(api_keys=keys, supported_features=(feature,))
    answers = setup.source.locate(asked(0, 1, 2), Deadline(SystemClock(), 60))
    assert all(isinstance(answer, SegmentLocation) for answer in answers.values())
    assert partitions_of(setup) == [[0], [1], [2]]
    assert {request.max_wait_ms for _, request in setup.broker.fetches} == {0}


def test_a_pending_location_is_neither_a_refusal_nor_an_error(setup: Setup) -> None:
    setup.broker.pending = {0}
    (answer,) = setup.source.locate(asked(0), Deadline(SystemClock(), 60)).values()
    assert answer == LocationPending()


def test_an_inconsistent_answer_affects_its_own_partition_only(setup: Setup) -> None:
    wrong = attrs.evolve(setup.broker.answer, last_stable_offset=50)
    partition = setup.broker._partition
    setup.broker._partition = lambda number: attrs.evolve(wrong, partition_index=1) if number == 1 else partition(number)
    questions = asked(0, 1)
    answers = setup.source.locate(questions, Deadline(SystemClock(), 60))
    assert isinstance(answers[questions[0]], SegmentLocation)
    assert isinstance(answers[questions[1]], ProtocolError)
    setup.locate()
    assert setup.peer.accepted == 3


def test_metadata_is_requested_once_and_creates_no_topic(setup: Setup) -> None:
    for partition in range(3):
        setup.locate(partition=partition)
    (request,) = setup.broker.metadata_requests
    assert not request.allow_auto_topic_creation
    assert setup.peer.accepted == 2


@pytest.mark.parametrize(
    ("newest", "topic_id", "version"),
    [(18, TOPIC_ID, 18), (15, TOPIC_ID, 15), (13, TOPIC_ID, 13), (12, TOPIC_ID, 12), (18, UUID(int=0), 12)],
)
def test_topic_ids_are_used_if_both_sides_support_them(setup: Setup, newest: int, topic_id: UUID, version: int) -> None:
    keys = (ApiVersion(ApiKey.FETCH, 4, newest), *setup.broker.versions.api_keys[1:])
    setup.broker.versions = attrs.evolve(setup.broker.versions, api_keys=keys)
    setup.broker.topic_id = topic_id
    assert isinstance(setup.locate(), SegmentLocation)
    assert setup.broker.fetches[0][0] == version
    assert setup.broker.fetches[0][1].topics[0].topic == ("t" if version == 12 else "")


def test_a_peer_without_tagged_fields_in_fetch_gets_no_request(setup: Setup) -> None:
    keys = (ApiVersion(ApiKey.FETCH, 4, 11), *setup.broker.versions.api_keys[1:])
    setup.broker.versions = attrs.evolve(setup.broker.versions, api_keys=keys)
    assert setup.locate() == NotRemote("no-common-version")
    assert setup.broker.fetches == []


def test_a_peer_that_does_not_announce_the_dialect_gets_no_request(setup: Setup) -> None:
    keys = tuple(key for key in setup.broker.versions.api_keys if key.api_key != ApiKey.DIRECT_REMOTE_FETCH)
    setup.broker.versions = ApiVersionsResponse(api_keys=keys)
    for _ in range(3):
        answer = setup.locate()
        assert isinstance(answer, NotRemote)
        assert answer.reason == "not-announced"
        assert answer.error is not None
        assert answer.error.host is not None
        assert str(answer.error).startswith(f"{answer.error.host} does not announce direct fetch")
    assert setup.broker.fetches == []
    with pytest.raises(NotAnnouncedError, match=f"^{answer.error.host} does not announce direct fetch"):
        setup.offsets()


def test_an_answer_without_a_grant_is_not_granted(setup: Setup) -> None:
    setup.broker.answer = attrs.evolve(setup.broker.answer, tags={}, records=b"a batch")
    assert setup.locate() == NotRemote("not-granted", PartitionOffsets(log_start=0, high_watermark=1000))


def test_an_offset_out_of_range_is_not_an_error(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.OFFSET_OUT_OF_RANGE]
    refused = setup.locate()
    assert isinstance(refused, NotRemote)
    assert refused.out_of_range


REFRESHING = [3, 5, 6, 9, 56, 74, 75, 78, 100, 103]


@pytest.mark.parametrize("code", REFRESHING)
def test_stale_metadata_is_refreshed_and_retried_once(setup: Setup, code: int) -> None:
    setup.locate()
    setup.broker.errors = [code]
    setup.broker.leader_epoch = 5
    assert isinstance(setup.locate(), SegmentLocation)
    assert [request.topics[0].partitions[0].current_leader_epoch for _, request in setup.broker.fetches] == [4, 4, 5]
    assert len(setup.broker.metadata_requests) == 2


@pytest.mark.parametrize("code", REFRESHING)
def test_metadata_that_stays_stale_is_an_error(setup: Setup, code: int) -> None:
    setup.broker.errors = [code, code]
    with pytest.raises(BrokerResponseError) as failure:
        setup.locate()
    assert (failure.value.code, failure.value.retriable) == (code, True)
    assert len(setup.broker.fetches) == 2


@pytest.mark.parametrize("code", [29, 2, 76, -1, 999])
def test_other_errors_are_final(setup: Setup, code: int) -> None:
    setup.broker.errors = [code]
    with pytest.raises(BrokerResponseError) as failure:
        setup.locate()
    assert failure.value.code == code
    assert len(setup.broker.fetches) == 1


@pytest.mark.fault("F62")
def test_the_new_leader_is_asked_if_the_old_one_is_gone(setup: Setup) -> None:
    successor = FakeBroker()
    with ScriptedPeer(successor.script()) as peer, ScriptedPeer(setup.broker.script()) as old:
        successor.leader = setup.broker.leader = (old.host, old.port)
        setup.locate()
        successor.leader = setup.broker.leader = (peer.host, peer.port)
        old.__exit__()
        assert isinstance(setup.locate(), SegmentLocation)
        assert len(successor.fetches) == 1
        setup.source.close()


def test_a_closed_idle_connection_is_replaced(setup: Setup) -> None:
    setup.locate()
    setup.peer.cut()
    assert isinstance(setup.locate(), SegmentLocation)
    assert setup.peer.accepted == 3, "one for metadata, two for locations"
    assert len(setup.broker.metadata_requests) == 1


def test_a_peer_that_fails_in_each_answer_is_an_error() -> None:
    def dying(connection: PeerConnection) -> None:
        broker = FakeBroker()
        broker.leader = (peer.host, peer.port)

        def die() -> None:
            raise EOFError

        broker.before_fetch = die
        broker.script()(connection)

    with ScriptedPeer(dying) as peer:
        setup = Setup(FakeBroker(), peer)
        with pytest.raises(LocationError) as failure:
            setup.locate()
        assert type(failure.value) is UnservedConnectionError
        setup.source.close()


@pytest.mark.parametrize("body", [b"", b"\xff" * 40, bytes(8), bytes(40)])
def test_an_answer_that_does_not_parse_closes_the_connection(body: bytes) -> None:
    broker = FakeBroker()
    whole = broker.script()

    def script(connection: PeerConnection) -> None:
        def reply(header: RequestHeader, answered: bytes) -> None:
            PeerConnection.reply(connection, header, body if header.api_key == ApiKey.FETCH else answered)

        connection.reply = reply
        whole(connection)

    with ScriptedPeer(script) as peer:
        setup = Setup(broker, peer)
        with pytest.raises(ProtocolError):
            setup.locate()
        assert len(broker.fetches) == 1
        with pytest.raises(ProtocolError):
            setup.locate()
        assert peer.accepted == 3, "one for metadata, two for locations"
        setup.source.close()


def test_an_unreachable_peer_is_an_error_without_an_immediate_retry() -> None:
    with ScriptedPeer(lambda _: None) as peer:
        pass
    setup = Setup(FakeBroker(), peer)
    with pytest.raises(PeerUnreachableError, match="cannot connect to") as first:
        setup.locate()
    with pytest.raises(PeerUnreachableError, match=r"cannot connect to .* \(failed recently; the next attempt waits\)"):
        setup.locate()
    assert first.value.host == f"{peer.host}:{peer.port}"
    setup.source.close()


def test_a_silent_peer_costs_no_more_than_the_deadline() -> None:
    with ScriptedPeer(PeerConnection.hold) as peer:
        setup = Setup(FakeBroker(), peer)
        with pytest.raises(LocationError):
            setup.locate(deadline=Deadline(SystemClock(), 0.05))
        setup.source.close()
    assert peer.accepted == 1


def test_offsets_are_those_of_both_tiers(setup: Setup) -> None:
    assert setup.offsets() == PartitionOffsets(log_start=10, earliest_local=60, latest_tiered=80, high_watermark=90)


@pytest.mark.parametrize(
    ("newest", "offsets"),
    [
        (9, PartitionOffsets(10, 60, 80, 90)),
        (8, PartitionOffsets(10, 60, -1, 90)),
        (7, PartitionOffsets(10, -1, -1, 90)),
        (1, PartitionOffsets(10, -1, -1, 90)),
        (0, PartitionOffsets()),
    ],
)
def test_offsets_that_the_version_cannot_request_are_unknown(setup: Setup, newest: int, offsets: PartitionOffsets) -> None:
    keys = (*(key for key in setup.broker.versions.api_keys if key.api_key != ApiKey.LIST_OFFSETS), ApiVersion(2, 0, newest))
    setup.broker.versions = attrs.evolve(setup.broker.versions, api_keys=keys)
    assert setup.offsets() == offsets


def test_an_offset_that_the_broker_does_not_support_is_unknown(setup: Setup) -> None:
    setup.broker.errors = [0, ErrorCode.UNSUPPORTED_VERSION]
    assert setup.offsets() == PartitionOffsets(10, -1, 80, 90)


def test_offsets_are_requested_from_the_new_leader_after_an_election(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert setup.offsets() == PartitionOffsets(10, 60, 80, 90)
    assert len(setup.broker.metadata_requests) == 2


def test_refused_offsets_are_an_error(setup: Setup) -> None:
    setup.broker.errors = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    with pytest.raises(BrokerResponseError):
        setup.offsets()


@pytest.mark.parametrize(
    "told", [(), (("t", 1),), (("other", 0),), (("other", 0), ("t", 2))], ids=["nothing", "partition", "topic", "both"]
)
def test_offsets_of_other_partitions_are_a_protocol_error(told: tuple[tuple[str, int], ...]) -> None:
    broker = FakeBroker()
    topics = tuple(list_offsets.ListOffsetsTopicResponse(name, (ListOffsetsPartitionResponse(index),)) for name, index in told)
    answer = list_offsets.encode_response(list_offsets.ListOffsetsResponse(topics), 11)
    broker._list_offsets = lambda *_: answer
    with ScriptedPeer(broker.script()) as peer:
        setup = Setup(broker, peer)
        with pytest.raises(ProtocolError, match="other partitions"):
            setup.offsets()
        setup.source.close()


def test_a_broker_that_would_create_topics_gets_no_metadata_request(setup: Setup) -> None:
    keys = (*(key for key in setup.broker.versions.api_keys if key.api_key != ApiKey.METADATA), ApiVersion(3, 0, 3))
    setup.broker.versions = attrs.evolve(setup.broker.versions, api_keys=keys)
    with pytest.raises(BrokerResponseError, match="UNSUPPORTED_VERSION"):
        setup.locate()
    assert setup.broker.metadata_requests == []


def test_partitions_of_different_leaders_do_not_wait_for_each_other(setup: Setup) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert release.wait(30)

    setup.broker.before_fetch = hold
    with led_by_two(setup) as (_, mine):
        slow = threading.Thread(target=mine.locate)
        slow.start()
        assert held.wait(30)
        assert isinstance(mine.locate(partition=1), SegmentLocation)
        release.set()
        slow.join(30)


def test_the_time_out_of_a_request_begins_with_its_turn(setup: Setup) -> None:
    """Many partitions begin at once: the second batch waits for the first, and then has the same time."""
    clock, held, release = ManualClock(), threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        assert release.wait(30)
        clock.now += 6.0

    setup.broker.before_fetch = hold
    source = BrokerLocationSource(setup.peer.address, client_id="me", clock=clock, connect_timeout=30)
    answers: list[object] = []

    def ask() -> None:
        answers.append(locate_one(source, question(topic="t", partition=0, offset=5), Deadline(clock, 10.0)))

    first, second = threading.Thread(target=ask), threading.Thread(target=ask)
    first.start()
    assert held.wait(30)
    second.start()
    wait_until(lambda: "turn" in functions_of(second), "the second question")
    release.set()
    for thread in (first, second):
        thread.join(30)
    source.close()
    assert [type(answer) for answer in answers] == [SegmentLocation] * 2


def functions_of(thread: threading.Thread) -> set[str]:
    """Returns the names of the functions on a thread's stack."""
    frame = sys._current_frames().get(thread.ident or 0)
    return set() if frame is None else {called.f_code.co_name for called, _ in traceback.walk_stack(frame)}


def test_close_ends_a_request_in_another_thread(setup: Setup) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        release.wait(30)

    setup.broker.before_fetch = hold
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            setup.locate()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert held.wait(30)
    setup.source.close()
    thread.join(30)
    assert not thread.is_alive()
    release.set()
    assert [type(failure) for failure in failures] == [LocationError]
    with pytest.raises(LocationError, match="closed"):
        setup.locate()
