"""Calls while no peer answers the requests that decide a route: they return as a plain consumer's do, and lose no record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    COUNT,
    PATIENCE_SECONDS,
    TOPIC,
    Row,
    direct_settings,
    fallbacks,
    plain_settings,
    take,
)
from tests.support.held_source import HeldSource
from tests.support.ports import HOST, free_ports
from tests.support.silent_peer import SilentPeer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

HERE = TopicPartition(TOPIC, 0)


def at(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


@pytest.fixture
def held(cluster: EmbeddedCluster) -> Iterator[tuple[Any, HeldSource]]:
    consumer: Any = Consumer(direct_settings(cluster, enable_partition_eof=False))
    guarded = consumer._direct_engine.source
    source = guarded.inner = HeldSource(guarded.inner)
    yield consumer, source
    source.released.set()
    consumer.close()


@pytest.mark.parametrize("start", [0, 7, OFFSET_BEGINNING])
def test_an_assignment_returns_before_bounds_are_known(held: tuple[Any, HeldSource], expected: list[Row], start: int) -> None:
    consumer, source = held
    consumer.assign([at(start)])
    assert consumer.consume(1, 0.3) == []
    assert consumer.poll(0.1) is None
    assert source.requests == [[(TOPIC, 0)]]
    assert not source.released.is_set()
    source.released.set()
    first = max(start, 0)
    assert take(consumer, COUNT - first) == expected[first:]
    assert fallbacks(consumer) == {}
    assert consumer.metrics()["broker-fetch-records-total"] < COUNT - first, "nothing of the tier came by the broker"


def test_a_seek_and_an_increment_return_before_bounds_are_known(held: tuple[Any, HeldSource], expected: list[Row]) -> None:
    consumer, source = held
    consumer.assign([at(5)])
    consumer.seek(at(9))
    consumer.incremental_assign([at(OFFSET_BEGINNING, 1)])
    consumer.seek(at(OFFSET_BEGINNING))
    consumer.seek(at(11))
    assert consumer.consume(1, 0.2) == []
    consumer.incremental_unassign([TopicPartition(TOPIC, 1)])
    source.released.set()
    assert take(consumer, 20) == expected[11:31]
    assert {flow.route for flow in consumer._direct_flows} == {Route.REMOTE}


def test_a_seek_to_the_end_does_not_wait_for_bounds(held: tuple[Any, HeldSource], cluster: EmbeddedCluster) -> None:
    consumer, _ = held
    consumer.assign([at(5)])
    consumer.seek(at(OFFSET_END))
    assert {flow.route for flow in consumer._direct_flows} == {Route.BROKER}


def test_known_bounds_decide_without_an_answer(held: tuple[Any, HeldSource], expected: list[Row]) -> None:
    consumer, source = held
    source.released.set()
    consumer.assign([at(5)])
    take(consumer, 1)
    source.released.clear()
    consumer.seek(at(0))
    assert {flow.route for flow in consumer._direct_flows} == {Route.REMOTE}
    consumer.seek(at(COUNT - 3))
    assert {flow.route for flow in consumer._direct_flows} == {Route.BROKER}
    assert take(consumer, 3) == expected[-3:]
    consumer.assign([at(2)])
    assert {flow.route for flow in consumer._direct_flows} == {Route.REMOTE}
    assert take(consumer, 3) == expected[2:5]


def test_calls_on_an_undecided_partition_say_what_the_plain_ones_do(
    held: tuple[Any, HeldSource], cluster: EmbeddedCluster
) -> None:
    consumer, source = held
    plain = confluent_kafka.Consumer(plain_settings(cluster))
    results: list[list[object]] = []
    for one in (plain, consumer):
        one.assign([at(5)])
        one.pause([HERE])
        mine: list[object] = [(tp.topic, tp.partition, tp.offset) for tp in one.assignment()]
        mine += [tp.offset for tp in one.position([HERE])]
        mine.append(one.get_watermark_offsets(HERE, cached=True))
        mine.append(one.get_watermark_offsets(HERE, PATIENCE_SECONDS))
        with pytest.raises(KafkaException) as nothing:
            one.commit(asynchronous=False)
        mine.append(nothing.value.args[0].code())
        assert one.poll(0.2) is None
        results.append(mine)
    assert results[0] == results[1]
    source.released.set()
    wait_until(lambda: consumer.poll(0.05) is None and not consumer._direct_flows.routes.undecided, "the route")
    for one in (plain, consumer):
        one.resume([HERE])
        assert take(one, 1)[0][2] == 5
        one.unassign()
        assert one.assignment() == []
    plain.close()


@pytest.mark.parametrize("paused", [False, True])
def test_direct_fetch_may_be_turned_off_while_bounds_are_unknown(
    held: tuple[Any, HeldSource], expected: list[Row], paused: bool
) -> None:
    consumer, source = held
    consumer.assign([at(3)])
    if paused:
        consumer.pause([HERE])
    consumer.set_remote_fetch(False)
    consumer.poll(0)
    if paused:
        consumer.resume([HERE])
    assert take(consumer, 5) == expected[3:8]
    assert not source.released.is_set()
    assert consumer.metrics()["remote-fetch-records-total"] == 0


def test_a_resume_of_an_unassigned_partition_is_not_kept(held: tuple[Any, HeldSource], expected: list[Row]) -> None:
    """The inner consumer was paused while it waited for bounds. librdkafka remembers that, and the resume clears it."""
    consumer, source = held
    consumer.assign([at(7)])
    consumer.unassign()
    consumer.resume([HERE])
    consumer.assign([at(7)])
    assert confluent_kafka.Consumer.consume(consumer, 10, 1.0) == [], "nothing of the tier comes by the broker"
    source.released.set()
    assert take(consumer, 3) == expected[7:10]


def test_a_pause_and_a_resume_leave_an_undecided_partition_waiting(held: tuple[Any, HeldSource], expected: list[Row]) -> None:
    consumer, source = held
    consumer.assign([at(3)])
    consumer.pause([HERE])
    consumer.resume([HERE])
    assert consumer.consume(1, 0.2) == []
    source.released.set()
    assert take(consumer, 5) == expected[3:8]
    assert fallbacks(consumer) == {}


@pytest.fixture(params=["silent", "closed"])
def nobody(request: pytest.FixtureRequest) -> Iterator[str]:
    """A shim that accepts and never answers, and a closed port."""
    if request.param == "closed":
        yield f"{HOST}:{free_ports(1)[0]}"
        return
    with SilentPeer() as peer:
        yield peer.address


def _whole(one: Any) -> list[Row]:
    one.assign([at(0)])
    return take(one, COUNT)


def _beginning(one: Any) -> list[Row]:
    one.assign([at(OFFSET_BEGINNING)])
    return take(one, 5)


def _sought(one: Any) -> list[Row]:
    one.assign([at(COUNT - 20)])
    rows = take(one, 3)
    one.seek(at(0))
    rows += take(one, 3)
    one.seek(at(OFFSET_BEGINNING))
    rows += take(one, 3)
    one.incremental_assign([at(10, 1)])
    one.pause([HERE])
    return rows + take(one, 3)


def _stored(one: Any) -> list[Row]:
    one.commit(offsets=[at(12)], asynchronous=False)
    one.assign([at(OFFSET_STORED)])
    rows = take(one, 3)
    one.commit(asynchronous=False)
    one.assign([at(OFFSET_INVALID), at(OFFSET_STORED, 1)])
    return rows + sorted(take(one, 2 * COUNT - 15))


@pytest.mark.parametrize("program", [_whole, _beginning, _sought, _stored])
def test_without_a_shim_deliveries_are_the_plain_ones(
    cluster: EmbeddedCluster, nobody: str, program: Callable[[Any], list[Row]]
) -> None:
    more: dict[str, Any] = {"enable_partition_eof": False}
    shimless = {"fetch.remote.bootstrap.servers": nobody, "fetch.remote.location.timeout.ms": 300}
    with confluent_kafka.Consumer(plain_settings(cluster, **more)) as plain:
        theirs = program(plain)
    with Consumer({**direct_settings(cluster, **more), **shimless}) as direct:
        assert program(direct) == theirs
        assert direct.metrics()["remote-fetch-records-total"] == 0


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
@pytest.mark.parametrize("group", [False, True], ids=["by-hand", "by-group"])
def test_a_start_where_nothing_is_committed_follows_the_policy(cluster: EmbeddedCluster, reset: str, group: bool) -> None:
    results: list[object] = []
    for make, settings in ((confluent_kafka.Consumer, plain_settings), (Consumer, direct_settings)):
        with make(settings(cluster, auto_offset_reset=reset)) as one:
            if group:
                one.subscribe([TOPIC])
            else:
                one.assign([at(OFFSET_STORED)])
            message = wait_until(lambda one=one: [each for each in one.consume(1, 0.5) if each.partition() == 0], "a message")[
                0
            ]
            error = message.error()
            if error is None:
                results.append(message.offset())
            else:
                results.append((error.code(), error.str(), message.value()))
    assert results[0] == results[1]


def test_the_committed_offset_is_not_asked_for_inside_assign(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    class Silent(confluent_kafka.Consumer):
        def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
            asked.append(timeout)
            if len(asked) < 4:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().committed(partitions, PATIENCE_SECONDS)

    class Made(Consumer, Silent):
        pass

    group = f"group-{uuid4()}"
    with Made(direct_settings(cluster, group_id=group)) as consumer:
        consumer.commit(offsets=[at(12)], asynchronous=False)
        consumer.assign([at(OFFSET_STORED)])
        assert asked == []
        assert take(consumer, 2)[0][2] == 12
        assert len(asked) == 4
        consumer.assign([at(3)])
        assert len(asked) == 4


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("kind", ["plain", "direct"])
def test_a_partition_begins_at_what_was_committed_before(cluster: EmbeddedCluster, kind: str, asynchronous: bool) -> None:
    """librdkafka requests the committed offset at the assignment, so a later commit does not change the answer."""
    make, settings = (confluent_kafka.Consumer, plain_settings) if kind == "plain" else (Consumer, direct_settings)
    with make(settings(cluster, group_id=f"group-{uuid4()}")) as consumer:
        consumer.commit(offsets=[at(12)], asynchronous=False)
        consumer.assign([at(OFFSET_STORED)])
        consumer.commit(offsets=[at(50)], asynchronous=asynchronous)
        assert [row[2] for row in take(consumer, 2)] == [12, 13]
        (committed,) = consumer.committed([HERE], PATIENCE_SECONDS)
        assert committed.offset == 50


def test_a_refused_committed_offset_is_told_as_by_a_plain_consumer(cluster: EmbeddedCluster) -> None:
    """librdkafka retries itself, so the refusal, or the late answer, is its own."""

    class Refused(confluent_kafka.Consumer):
        def committed(self, *_: Any, **__: Any) -> list[TopicPartition]:
            raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    class Made(Consumer, Refused):
        pass

    with Made(direct_settings(cluster)) as consumer:
        consumer.commit(offsets=[at(12)], asynchronous=False)
        consumer.assign([at(OFFSET_STORED)])
        assert take(consumer, 2)[0][2] == 12
        assert [tp.offset for tp in consumer.assignment()] == [OFFSET_STORED]
