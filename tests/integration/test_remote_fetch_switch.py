"""Direct fetch is turned off and on while a consumer reads a real broker: no record is lost, none is read twice."""

from __future__ import annotations

from collections.abc import Callable

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.server import Shim
from tests.support.history import History
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import (
    PATIENCE_SECONDS,
    Row,
    by_consume,
    by_poll,
    direct,
    plain,
    read_to_end,
    row,
    settings,
    total,
)
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.scenario import TransactionalTopic

pytestmark = [
    pytest.mark.broker,
    pytest.mark.timeout(900),
]  # the first test that requests the topics waits until they are written

Take = Callable[[confluent_kafka.Consumer], list[Message]]


def _read(consumer: RecordedConsumer, topics: list[str], take: Take, after: Callable[[int], None] = lambda _: None) -> None:
    """Returns all of partition 0 of each topic; ``after`` gets the number of records after each call."""
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
    count, ended = 0, set()
    left = Deadline(SystemClock(), 3 * PATIENCE_SECONDS)
    while len(ended) < len(topics):
        assert not left.expired(), f"only {ended} ended after {count} records"
        for message in take(consumer):  # type: ignore[arg-type] # it has a consumer's methods
            error = message.error()
            if error is None:
                count += 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.topic())
        after(count)


@pytest.mark.parametrize(("take", "isolation"), [(by_poll, "read_committed"), (by_consume, "read_uncommitted")])
def test_each_record_is_read_once_and_in_order_after_any_switch(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    wide_topic: str,
    shim: Shim,
    isolation: str,
    take: Take,
) -> None:
    topics = [transactional_topic.topic, wide_topic]
    history, truth = History(), History()
    with recorded(confluent_kafka.Consumer, settings(kafka_broker.bootstrap_servers, isolation), truth) as oracle:
        _read(oracle, topics, take)
    with recorded(Consumer, direct(shim, isolation, **{"fetch.remote.recheck.interval.ms": 100}), history) as consumer:
        switched = paused_for = 0
        first = [TopicPartition(topics[0], 0)]

        def switch(count: int) -> None:
            nonlocal switched, paused_for
            if paused_for:
                paused_for -= 1
                if not paused_for:
                    consumer.resume(first)
            elif count >= 150 * (switched + 1):
                switched += 1
                consumer.set_remote_fetch(switched % 2 == 0)
                if switched % 3 == 1:
                    consumer.pause(first)
                    paused_for = 3

        _read(consumer, topics, take, switch)
        metrics = consumer.metrics()
    check(history, Oracle.of(truth))
    assert switched >= 4
    assert set(metrics["remote-fetch-fallbacks-total"]) == {"turned-off"}
    assert total(metrics, "remote-fetch-records-total") > 0
    assert total(metrics, "broker-fetch-records-total") > 0


def test_a_restart_without_direct_fetch_continues_at_the_groups_commit(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, shim: Shim
) -> None:
    topic, isolation = transactional_topic.topic, "read_committed"
    rows: list[Row] = []
    configured = direct(shim, isolation)
    with Consumer(configured) as consumer:
        consumer.subscribe([topic])
        while len(rows) < 100:
            rows += [row(message) for message in consumer.consume(100 - len(rows), PATIENCE_SECONDS)]
        assert total(consumer.metrics(), "remote-fetch-records-total") == 100
        consumer.commit(asynchronous=False)
    with Consumer({**configured, "fetch.remote.enabled": False}) as consumer:
        consumer.subscribe([topic])
        rows += read_to_end(consumer)
    assert rows == plain(kafka_broker, topic, isolation)
