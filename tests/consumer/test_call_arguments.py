"""Invalid and unusual arguments: results and errors equal those of confluent_kafka's own consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.call_arguments import are_partitions, both, invalid, may_be_assigned, number, seconds
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    by_consume,
    by_poll,
    direct_settings,
    filled_cluster,
    plain_rows,
    plain_settings,
    take,
    tiers,
)

TOPIC = "orders"
_GIVEN: dict[str, Any] = {
    "text": "5",
    "bytes": b"5",
    "none": None,
    "list": [],
    "float": 0.5,
    "integer": 0,
    "truth": False,
    "decimal": Decimal("0.01"),
}
GIVEN = pytest.mark.parametrize("given", list(_GIVEN.values()), ids=list(_GIVEN))


@pytest.fixture
def plain() -> Iterator[confluent_kafka.Consumer]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    yield consumer
    consumer.close()


def refusal(call: Callable[[Any], object], given: object) -> str | None:
    try:
        call(given)
    except TypeError as error:
        return str(error)
    return None


@GIVEN
def test_a_time_is_what_confluent_kafka_takes_for_one(plain: confluent_kafka.Consumer, given: Any) -> None:
    assert refusal(seconds, given) == refusal(plain.poll, given)


@GIVEN
def test_a_number_is_what_confluent_kafka_takes_for_one(plain: confluent_kafka.Consumer, given: Any) -> None:
    assert refusal(number, given) == refusal(lambda count: plain.consume(count, 0), given)


def test_what_is_taken_keeps_its_value() -> None:
    assert (seconds(-1), seconds(0.25), seconds(Decimal("0.5")), number(7)) == (-1, 0.25, 0.5, 7)


def test_two_arguments_come_in_their_order_or_by_name() -> None:
    assert both("a", "b", (), {}) == (None, None)
    assert both("a", "b", (1,), {"b": 2}) == (1, 2)
    assert both("a", "b", (1, 2), {}) == (1, 2)


def test_partitions_are_a_list_of_them() -> None:
    tp = TopicPartition("t", 0)
    assert [are_partitions(given) for given in ([], [tp], (tp,), [tp, "t"], None)] == [True, True, False, False, False]


def test_what_is_refused_is_refused_as_librdkafka_does() -> None:
    (error,) = invalid("no").args
    assert (error.code(), error.str()) == (KafkaError._INVALID_ARG, "no")


cluster = filled_cluster(TOPIC, 300)


@pytest.mark.embedded
@pytest.mark.parametrize("place", ["tier", "local"])
@pytest.mark.parametrize("one", [by_poll, by_consume])
def test_a_seek_that_is_refused_leaves_the_partition_where_it_is(
    cluster: EmbeddedCluster, one: Callable[[confluent_kafka.Consumer], list[Message]], place: str
) -> None:
    """The plain consumer drops the records it has fetched, so only the errors are compared."""
    expected = plain_rows(cluster, TOPIC)
    first = tiers(cluster, TOPIC).earliest_local if place == "local" else 0
    plain, ours = confluent_kafka.Consumer(plain_settings(cluster)), Consumer(direct_settings(cluster))
    errors = []
    for consumer in (plain, ours):
        consumer.assign([TopicPartition(TOPIC, 0, first)])
        rows = take(consumer, 1, by_poll)
        with pytest.raises(KafkaException) as refused:
            consumer.seek(TopicPartition(TOPIC, 0, OFFSET_STORED))
        errors.append((refused.value.args[0].code(), refused.value.args[0].str()))
    plain.close()
    assert errors[0] == errors[1]
    while rows[-1] != expected[-1]:
        rows += take(ours, 1, one)
    ours.close()
    assert rows == expected[first:]


@pytest.mark.embedded
def test_a_time_or_a_number_that_is_none_is_refused_while_records_wait(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        rows = take(consumer, 1, by_poll)
        calls: list[Callable[[Any], object]] = [consumer.poll, consumer.consume, lambda given: consumer.consume(1, given)]
        for call in calls:
            with pytest.raises(TypeError):
                call("5")
        with pytest.raises(TypeError):
            consumer.consume(1.5)  # type: ignore[arg-type]  # what is refused
        assert rows + take(consumer, 2, by_poll) == plain_rows(cluster, TOPIC)[:3]


@pytest.mark.parametrize("offset", [5, 0, -1, -2, -3, -999, -1000, -1001, -1002, -1999, -2000, -2040])
@pytest.mark.parametrize("times", [1, 2])
def test_librdkafka_assigns_what_may_be_assigned(plain: confluent_kafka.Consumer, offset: int, times: int) -> None:
    starts = [TopicPartition(TOPIC, 0, offset)] * times
    try:
        plain.assign(starts)
        assigned = True
    except KafkaException:
        assigned = False
    assert may_be_assigned(starts) is assigned
