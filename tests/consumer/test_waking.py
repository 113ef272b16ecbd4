"""Events that wake a waiting call: data of the store does so at once; events that need no check do not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer import deliveries
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    decide,
    direct_settings,
    filled_cluster,
    from_broker,
    from_store,
    is_end,
)

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 300
HERE = TopicPartition(TOPIC, 0, 0)


class Noting(confluent_kafka.Consumer):
    """confluent_kafka's consumer; it records how long each of its calls may wait."""

    waits: list[float]

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self.waits = [*getattr(self, "waits", []), timeout]
        return super().consume(num_messages, timeout)

    def poll(self, timeout: float = -1) -> Message | None:
        self.waits = [*getattr(self, "waits", []), timeout]
        return super().poll(timeout)


class NotedConsumer(Consumer, Noting):
    """An application's subclass; direct fetch comes before Consumer, and Noting after it."""


running = filled_cluster(TOPIC, COUNT)


@pytest.fixture
def consumer(cluster: EmbeddedCluster) -> Iterator[NotedConsumer]:
    made = NotedConsumer(direct_settings(cluster))
    yield made
    made.close()


def by_poll(consumer: confluent_kafka.Consumer, seconds: float) -> list[Message]:
    message = consumer.poll(seconds)
    return [] if message is None else [message]


def by_consume(consumer: confluent_kafka.Consumer, seconds: float) -> list[Message]:
    return consumer.consume(1, seconds)


Take = Callable[[confluent_kafka.Consumer, float], list[Message]]
BOTH_CALLS = pytest.mark.parametrize("one", [by_poll, by_consume])


@BOTH_CALLS
def test_data_of_the_store_ends_the_wait_itself_and_not_the_next_look(
    consumer: NotedConsumer, monkeypatch: pytest.MonkeyPatch, one: Take
) -> None:
    """Usually 10 ms pass between two checks. Here an hour passes, so only the notification of data can end the call."""
    monkeypatch.setattr(deliveries, "_WAKE_SECONDS", 3_600.0)
    monkeypatch.setattr(deliveries, "_INNER_SECONDS", 3_600.0)
    engine = consumer._direct_engine
    wait, locate = engine.wait, engine.source.locate
    asleep, waited = threading.Event(), []

    def sleep(seconds: float) -> bool:
        asleep.set()
        waited.append(wait(seconds))
        return waited[-1]

    def locate_then(*arguments: Any, **more: Any) -> Any:
        assert asleep.wait(PATIENCE_SECONDS)
        return locate(*arguments, **more)

    monkeypatch.setattr(engine, "wait", sleep)
    monkeypatch.setattr(engine.source, "locate", locate_then)
    consumer.assign([HERE])
    decide(consumer)
    (first,) = one(consumer, 10 * PATIENCE_SECONDS)
    assert (first.offset(), from_store(consumer) > 0, from_broker(consumer)) == (0, True, 0)
    assert waited in ([True], [False, True]), "it slept until the data came; bounds of the tiers may come before"


@BOTH_CALLS
def test_looks_at_the_store_often_and_never_sleeps_in_librdkafka(
    cluster: EmbeddedCluster, consumer: NotedConsumer, monkeypatch: pytest.MonkeyPatch, one: Take
) -> None:
    cluster.faults.slow_store(600)
    consumer.assign([HERE])
    waited: list[float] = []
    wait = consumer._direct_engine.wait
    monkeypatch.setattr(consumer._direct_engine, "wait", lambda seconds: (waited.append(seconds), wait(seconds))[1])
    consumer.waits = []
    assert one(consumer, 0.3) == []
    assert set(consumer.waits) == {0}
    assert waited
    assert max(waited) <= 0.01


@BOTH_CALLS
@pytest.mark.parametrize("where", ["local", "paused", "turned-off", "nowhere"])
def test_without_direct_reads_it_waits_only_in_librdkafka(
    consumer: NotedConsumer, monkeypatch: pytest.MonkeyPatch, one: Take, where: str
) -> None:
    if where == "local":
        consumer.assign([TopicPartition(TOPIC, 0, COUNT)])
    elif where == "paused":
        consumer.assign([HERE])
        consumer.pause([HERE])
    elif where == "turned-off":
        consumer.set_remote_fetch(False)
        consumer.assign([TopicPartition(TOPIC, 0, COUNT)])
    if where in {"local", "turned-off"}:
        while not any(map(is_end, one(consumer, PATIENCE_SECONDS))):
            pass
    monkeypatch.setattr(consumer._direct_engine, "wait", lambda _: pytest.fail("there is nothing to wait for"))
    consumer.waits = []
    assert one(consumer, 0.55) == []
    # A first look, then sleeps of a tenth of a second: what a callback brought to the tier meanwhile is read within that.
    slept: list[float] = [seconds for seconds in consumer.waits if seconds]
    assert len(consumer.waits) - len(slept) <= 1
    assert max(slept) <= 0.1
    assert len(slept) <= 7, "each lasted as long as it could"


def test_each_look_serves_the_application_first(cluster: EmbeddedCluster, consumer: NotedConsumer) -> None:
    """A waiting record is delivered although the store is silent for an hour."""
    consumer.assign([HERE])
    (first,) = by_poll(consumer, PATIENCE_SECONDS)
    cluster.faults.slow_store(3_600)
    consumer.waits = []
    rest: list[Any] = [consumer.poll(3_600) for _ in range(3)]
    assert [message.offset() for message in [first, *rest]] == [0, 1, 2, 3]
    assert set(consumer.waits) <= {0}
