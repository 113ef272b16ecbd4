"""A callback seeks, pauses, revokes or raises during a delivering call, or librdkafka is not ready.

The inner consumer is confluent_kafka's own with a seam in it: Python's method resolution puts a class between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.arrow_reading import by_arrow
from tests.support.embedded_topics import (
    COUNT,
    PATIENCE_SECONDS,
    TOPIC,
    Row,
    Take,
    by_consume,
    by_poll,
    decide,
    direct_settings,
    fallbacks,
    fill_topic,
    rows_of,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded


class Seam(confluent_kafka.Consumer):
    """confluent_kafka's consumer that runs ``during`` once inside a delivering call and can refuse seeks."""

    during: Callable[[], object] | None = None
    timeouts: list[float]
    """How long each inner call was allowed to take."""
    refused_seeks = 0
    refusal = KafkaError._STATE
    callbacks: dict[str, Any] | None = None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self.timeouts = [*getattr(self, "timeouts", []), timeout]
        self._run()
        return super().consume(num_messages, timeout)

    def poll(self, timeout: float = -1) -> Message | None:
        self.timeouts = [*getattr(self, "timeouts", []), timeout]
        self._run()
        return super().poll(timeout)

    def seek(self, partition: TopicPartition) -> None:
        if self.refused_seeks:
            self.refused_seeks -= 1
            raise KafkaException(KafkaError(self.refusal))
        super().seek(partition)

    def subscribe(self, *args: Any, **kwargs: Any) -> None:
        self.callbacks = kwargs
        super().subscribe(*args, **kwargs)

    def _run(self) -> None:
        hook, self.during = self.during, None
        if hook is not None:
            hook()


class SeamedConsumer(Consumer, Seam):
    """An application's subclass; direct fetch comes before Consumer and Seam after it."""


@pytest.fixture(scope="module")
def local_start(running: EmbeddedCluster) -> int:
    return tiers(running, TOPIC).earliest_local


@pytest.fixture
def consumer(cluster: EmbeddedCluster) -> Iterator[SeamedConsumer]:
    made = SeamedConsumer(direct_settings(cluster))
    made.assign([at(0)])
    yield made
    made.close()


def at(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def gather(consumer: SeamedConsumer, count: int = 0) -> int:
    """Calls poll() until records are gathered; returns how many."""
    consumer._direct_deliveries.settle()
    if not consumer._direct_deliveries.gathered.pieces:
        assert consumer.poll(PATIENCE_SECONDS) is not None
    consumer._direct_deliveries.settle()
    assert len(consumer._direct_deliveries.gathered) > count
    return len(consumer._direct_deliveries.gathered)


def in_next_call(consumer: SeamedConsumer, hook: Callable[[], object]) -> None:
    """The inner consumer runs ``hook`` as a callback, as soon as the application's next call polls it."""
    consumer.during = hook
    consumer._direct_deliveries._serve_at = 0.0


def position(consumer: Consumer) -> int:
    return consumer.position([TopicPartition(TOPIC, 0)])[0].offset


def test_what_was_gathered_before_a_seek_in_a_callback_is_not_handed_out(consumer: SeamedConsumer, expected: list[Row]) -> None:
    gather(consumer)
    in_next_call(consumer, lambda: consumer.seek(at(100)))
    assert rows_of(consumer.consume(5, PATIENCE_SECONDS)) == expected[100:105]


@pytest.mark.parametrize("call", ["poll", "consume"])
def test_records_gathered_before_a_pause_in_a_callback_come_after_resume(
    consumer: SeamedConsumer, expected: list[Row], call: str
) -> None:
    gather(consumer)
    before = position(consumer)
    in_next_call(consumer, lambda: consumer.pause([at(0)]))
    assert (consumer.consume(COUNT, 0.2) if call == "consume" else consumer.poll(0.2)) in ([], None)
    assert position(consumer) == before
    consumer.resume([at(0)])
    assert take(consumer, 5) == expected[before : before + 5]


def test_a_slow_application_still_polls_the_inner_consumer(consumer: SeamedConsumer, expected: list[Row]) -> None:
    served: list[int] = []
    rows = take(consumer, 3, by_poll)
    for number in range(3):
        consumer.during = lambda number=number: served.append(number)
        wait_until(lambda: consumer._direct_delivery_queue.due, "the inner consumer to be due")
        rows += take(consumer, 1, by_poll)
    assert served == [0, 1, 2]
    assert rows == expected[:6]


def test_poll_never_sleeps_in_the_inner_consumer_during_a_direct_read(
    cluster: EmbeddedCluster, expected: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data of the store ends the wait at once. Any other wait lasts at most 10 ms."""
    consumer = SeamedConsumer(direct_settings(cluster))
    cluster.faults.slow_store(600)
    try:
        consumer.assign([at(0)])
        waited: list[float] = []
        wait = consumer._direct_engine.wait
        monkeypatch.setattr(consumer._direct_engine, "wait", lambda seconds: (waited.append(seconds), wait(seconds))[1])
        consumer.timeouts = []
        assert consumer.poll(0.3) is None
        assert set(consumer.timeouts) == {0}
        assert waited
        assert all(seconds <= 0.01 for seconds in waited)
    finally:
        cluster.faults.clear()
        consumer.close()


def test_inner_poll_sleeps_as_long_as_it_may_without_a_direct_read(
    consumer: SeamedConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide(consumer)
    consumer.seek(at(COUNT))
    monkeypatch.setattr(consumer._direct_engine, "wait", lambda seconds: pytest.fail("there is nothing to wait for"))
    while (message := consumer.poll(PATIENCE_SECONDS)) is None or message.error() is None:
        pass
    consumer.timeouts = []
    assert consumer.poll(0.35) is None
    # After a first look it sleeps there, but not in one piece: a callback that runs in it may bring a partition to the tier.
    assert all(seconds > 0 for seconds in consumer.timeouts[1:-1])
    assert len(consumer.timeouts) <= 6


@pytest.mark.fault("F66")
def test_what_was_gathered_before_a_revocation_is_not_handed_out(consumer: SeamedConsumer) -> None:
    gather(consumer)
    in_next_call(consumer, lambda: consumer.incremental_unassign([at(0)]))
    assert consumer.consume(COUNT, 0.3) == []


def test_records_of_the_broker_that_were_gathered_come_again_after_a_pause(
    consumer: SeamedConsumer, expected: list[Row], local_start: int
) -> None:
    consumer.seek(at(local_start))
    arrived = take(consumer, 1)
    batch = confluent_kafka.Consumer.consume(consumer, 3, PATIENCE_SECONDS)
    consumer._direct_deliveries.gathered.add(list(batch))  # as a call leaves it in which a callback raised
    consumer.pause([at(0)])
    assert consumer._direct_deliveries.gathered.pieces == []
    assert position(consumer) == local_start + 1
    assert consumer.consume(5, 0.2) == []
    consumer.resume([at(0)])
    assert arrived + take(consumer, 5) == expected[local_start : local_start + 6]


def test_nothing_is_lost_when_a_callback_raises(consumer: SeamedConsumer, expected: list[Row]) -> None:
    def fail() -> None:
        raise LookupError("the application's own")

    ahead = gather(consumer)
    in_next_call(consumer, fail)
    with pytest.raises(LookupError):
        consumer.consume(ahead + 10, PATIENCE_SECONDS)
    assert rows_of(consumer.consume(ahead + 10, PATIENCE_SECONDS)) == expected[1 : ahead + 11]


def test_nothing_is_lost_when_a_callback_raises_in_consume_arrow(consumer: SeamedConsumer, expected: list[Row]) -> None:
    def fail() -> None:
        raise LookupError("the application's own")

    for then in (by_poll, by_consume, by_arrow):
        consumer.assign([at(0)])
        take(consumer, 20, by_arrow)
        in_next_call(consumer, fail)
        with pytest.raises(LookupError):
            consumer.consume_arrow(50, PATIENCE_SECONDS)
        assert take(consumer, 60, then) == expected[20:80]


def test_a_callback_of_consume_arrow_may_seek(consumer: SeamedConsumer, expected: list[Row]) -> None:
    gather(consumer)
    in_next_call(consumer, lambda: consumer.seek(at(100)))
    assert take(consumer, 20, by_arrow) == expected[100:120]


@pytest.mark.parametrize("inner", [by_consume, by_arrow, by_poll])
@pytest.mark.parametrize("outer", [by_consume, by_arrow, by_poll])
def test_a_callback_may_take_records_itself(consumer: SeamedConsumer, expected: list[Row], inner: Take, outer: Take) -> None:
    rows = take(consumer, 5, outer)
    in_next_call(consumer, lambda: rows.extend(take(consumer, 3, inner)))
    if outer is by_poll:
        consumer._direct_deliveries.serve_first()  # otherwise nearly all calls only take the next message
    then = take(consumer, 20, outer)
    assert rows + then == expected[:28]
    assert position(consumer) == 28


def test_a_refused_seek_changes_nothing(consumer: SeamedConsumer, expected: list[Row], local_start: int) -> None:
    for start in (10, local_start + 1):
        consumer.seek(at(start))
        take(consumer, 3)
        consumer.refused_seeks = 1
        with pytest.raises(KafkaException):
            consumer.seek(at(60))
        assert take(consumer, 3) == expected[start + 3 : start + 6]


@pytest.mark.parametrize("by_user", [False, True])
def test_a_hand_over_that_librdkafka_refuses_is_tried_again(
    consumer: SeamedConsumer, expected: list[Row], by_user: bool
) -> None:
    consumer.refused_seeks = 1
    rows = take(consumer, COUNT - 20)
    flow = consumer._direct_flows.get(TOPIC, 0)
    assert flow is not None
    if by_user and flow.moved and flow.route is Route.BROKER:
        consumer.pause([at(0)])
        consumer.resume([at(0)])
    rows += take(consumer, 20)
    assert rows == expected
    assert fallbacks(consumer) == {}


def test_another_error_of_the_hand_over_surfaces(consumer: SeamedConsumer) -> None:
    consumer.refused_seeks, consumer.refusal = 1, KafkaError._FATAL
    with pytest.raises(KafkaException) as failure:
        take(consumer, COUNT)
    assert failure.value.args[0].code() == KafkaError._FATAL


def test_the_inner_consumer_is_polled_even_when_enough_waits(
    consumer: SeamedConsumer, expected: list[Row], local_start: int
) -> None:
    gather(consumer, 10)
    consumer.incremental_assign([at(local_start, 1)])
    polled: list[bool] = []
    in_next_call(consumer, lambda: polled.append(True))
    rows = rows_of(consumer.consume(2, PATIENCE_SECONDS))
    assert polled == [True]
    rows += take(consumer, COUNT - 3 + COUNT - local_start)
    places = {tp.partition: tp.offset for tp in consumer.position([at(0), at(0, 1)])}
    assert places == {0: COUNT, 1: COUNT}
    assert [r for r in rows if r[1] == 0] == expected[1:]


def test_a_broker_record_that_waits_is_not_in_the_position(consumer: SeamedConsumer, local_start: int) -> None:
    consumer.seek(at(local_start))
    take(consumer, 1)
    batch = confluent_kafka.Consumer.consume(consumer, 3, PATIENCE_SECONDS)
    consumer._direct_deliveries.gathered.add(list(batch))
    assert position(consumer) == local_start + 1
    take(consumer, 4)
    assert position(consumer) == local_start + 5


@pytest.mark.fault("F67")
def test_lost_partitions_are_gone_after_the_callback_and_not_stored(consumer: SeamedConsumer) -> None:
    seen: list[tuple[str, int]] = []
    consumer.unassign()
    consumer.subscribe(
        [TOPIC],
        on_assign=lambda who, parts: who.assign([at(0)]),
        on_revoke=lambda who, parts: seen.append(("revoke", who.position(parts)[0].offset)),
        on_lost=lambda who, parts: seen.append(("lost", who.position(parts)[0].offset)),
    )
    take(consumer, 5)
    assert consumer.callbacks is not None
    consumer.callbacks["on_lost"](consumer, [at(0)])
    assert seen == [("lost", 5)]
    assert len(consumer._direct_flows) == 0
    assert consumer._direct_deliveries.gathered.pieces == []


def test_a_lost_callback_defaults_to_that_of_revocation(consumer: SeamedConsumer) -> None:
    seen: list[int] = []
    consumer.subscribe([TOPIC], on_revoke=lambda who, parts: seen.append(len(parts)))
    assert consumer.callbacks is not None
    consumer.callbacks["on_lost"](consumer, [at(0)])
    assert seen == [1]


def test_a_callback_that_unassigns_is_not_overruled(consumer: SeamedConsumer) -> None:
    consumer.subscribe([TOPIC], on_assign=lambda who, parts: who.unassign())
    assert consumer.callbacks is not None
    consumer.callbacks["on_assign"](consumer, [at(0)])
    assert consumer.assignment() == []
    consumer.callbacks["on_revoke"](consumer, [])


def test_librdkafka_looks_for_leaders_before_the_tiers_are_asked(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[object] = []

    class Noting(confluent_kafka.Consumer):
        def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
            order.append((topic, timeout))
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # nobody waits for the answer

    class Noted(Consumer, Noting):
        pass

    made: Any = Noted(direct_settings(cluster))
    ask = made._direct_engine.watch.ask
    monkeypatch.setattr(made._direct_engine.watch, "ask", lambda timeouts: order.append("tiers") or ask(timeouts))
    made.assign([at(0), at(0, 1)])
    assert order == [(TOPIC, 0), "tiers"]
    made.close()


@pytest.mark.parametrize("by_group", [False, True], ids=["by-hand", "by-group"])
def test_next_callback_has_its_caller_after_an_assign_in_a_callback(cluster: EmbeddedCluster, by_group: bool) -> None:
    """confluent_kafka aborts the process if a callback calls its ``list_topics`` and another callback follows."""
    elsewhere = fill_topic(cluster, f"elsewhere-{by_group}", 10)
    received: list[str] = []
    assigned: list[int] = []

    def on_statistics(statistics: str) -> None:
        received.append(statistics)
        if not by_group and not assigned:
            consumer.assign([TopicPartition(elsewhere, 0, 10)])
            assigned.append(len(received))

    settings = direct_settings(cluster, statistics_interval_ms=20, auto_offset_reset="latest")
    consumer = Consumer({**settings, "stats_cb": on_statistics})
    if by_group:
        consumer.subscribe([elsewhere], on_assign=lambda who, parts: assigned.append(len(received)))
    wait_until(
        lambda: consumer.poll(0.2) is None and bool(assigned) and len(received) > assigned[0] + 20,
        "callbacks after the assignment",
        seconds=PATIENCE_SECONDS,
        pause=0,
    )
    consumer.close()


@pytest.mark.parametrize(("call", "nothing"), [("poll", None), ("consume", []), ("consume_arrow", 0)])
def test_close_in_a_callback_closes_after_the_inner_call(consumer: SeamedConsumer, call: str, nothing: object) -> None:
    alive: list[bool] = []

    def close() -> None:
        consumer.close()
        alive.append(bool(consumer.assignment()))  # the inner call still needs the handle
        with pytest.raises(RuntimeError, match="Consumer closed"):
            consumer.poll(0)

    in_next_call(consumer, close)
    deliver = {"poll": consumer.poll, "consume": consumer.consume, "consume_arrow": consumer.consume_arrow}[call]
    came = deliver(timeout=PATIENCE_SECONDS)
    assert (len(came) if call == "consume_arrow" else came) == nothing
    assert alive == [True]
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.assignment()


def test_close_in_a_callback_raises_what_the_callback_raises(consumer: SeamedConsumer) -> None:
    def close() -> None:
        consumer.close()
        raise LookupError("after close")

    in_next_call(consumer, consumer._direct_deliveries.held.wrapped(close))
    with pytest.raises(LookupError, match="after close"):
        consumer.consume(1, PATIENCE_SECONDS)
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.assignment()
