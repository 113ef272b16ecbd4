"""Behaviour that the state machine excludes, or accepts in two forms: here the plain consumer alone shows both.

Each test names the place in the machine that it is the reason for. What is a race in librdkafka is tried until it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_INVALID, OFFSET_STORED, KafkaException, Message, Producer, TopicPartition

from tests.state_machine.pair import OFFSET_TAIL
from tests.support.kafka_broker import KafkaBroker
from tests.support.once import once_per_run
from tests.support.reading import settings
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 60.0
START, END = 25, 60
MARKED = (0, 1, 3, 4)
"""Offsets of records; behind each two of them is a marker."""


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    """A topic of sixty records; the first 25 are deleted."""
    name = "plain-consumer"

    def write() -> None:
        kafka_broker.create_topic(name, tiered=False, retention_ms="-1")
        _write(Producer(_producing(kafka_broker)), name, END)
        kafka_broker.delete_records(name, START)

    once_per_run(kafka_broker, name, write)
    return name


@pytest.fixture
def marked(kafka_broker: KafkaBroker) -> str:
    """A topic with two transactions of two records."""
    name = "plain-consumer-marked"

    def write() -> None:
        kafka_broker.create_topic(name, tiered=False, retention_ms="-1")
        producer = Producer({**_producing(kafka_broker), "transactional.id": name})
        producer.init_transactions(PATIENCE_SECONDS)
        for _ in range(2):
            producer.begin_transaction()
            _write(producer, name, 2)
            producer.commit_transaction(PATIENCE_SECONDS)
        wait_until(lambda: kafka_broker.offsets(name).last_stable == 6, "the markers", seconds=PATIENCE_SECONDS)

    once_per_run(kafka_broker, name, write)
    return name


def _producing(broker: KafkaBroker) -> dict[str, Any]:
    return {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 2}


def _write(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


@contextmanager
def plain(broker: KafkaBroker, **more: object) -> Iterator[confluent_kafka.Consumer]:
    named = {name.replace("_", "."): value for name, value in more.items()}
    consumer = confluent_kafka.Consumer(settings(broker.bootstrap_servers, "read_committed", **named))
    try:
        yield consumer
    finally:
        consumer.close()


def _next(consumer: confluent_kafka.Consumer) -> Message:
    message = wait_until(lambda: consumer.poll(0.1), "a message", seconds=PATIENCE_SECONDS)
    assert isinstance(message, Message)
    return message


def _place(message: Message) -> tuple[int | None, str | None]:
    error = message.error()
    return message.offset(), None if error is None else error.name()


def _position(consumer: confluent_kafka.Consumer, topic: str) -> int:
    (at,) = consumer.position([TopicPartition(topic, 0)])
    return int(at.offset)


def _committed_by_close(broker: KafkaBroker, topic: str, *, gives_up: bool) -> int:
    """The offset that closing commits after the first record. ``gives_up``: the partition is given up before."""
    group = f"closes-{uuid4()}"
    with plain(broker, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=3_600_000) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert _next(consumer).offset() == 0
        if gives_up:
            consumer.unassign()
    with plain(broker, group_id=group) as asked:
        (at,) = asked.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)
    return int(at.offset)


@pytest.mark.parametrize(
    ("reset", "found"),
    [("error", (START - 10, "_AUTO_OFFSET_RESET")), ("latest", (END, "_PARTITION_EOF")), ("earliest", (START, None))],
)
def test_offset_beginning_after_a_tail_is_moved_back(kafka_broker: KafkaBroker, topic: str, reset: str, found: object) -> None:
    """``Pair._numeric_start``: a log start that is known from a fetch is moved back by the count of the last tail."""
    with plain(kafka_broker, auto_offset_reset=reset) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _place(_next(consumer)) == (START, None)
        consumer.assign([TopicPartition(topic, 0, OFFSET_TAIL - 10)])
        assert _place(_next(consumer)) == (END - 10, None)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _place(_next(consumer)) == found


def test_cached_watermarks_are_the_last_answers(kafka_broker: KafkaBroker, topic: str) -> None:
    """``ConsumerMachine.watermarks``: of no fetch, of one, and of one that was refused."""

    def cached() -> Any:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True)

    with plain(kafka_broker, auto_offset_reset="error") as consumer:
        consumer.assign([TopicPartition(topic, 0, START)])
        assert cached() == (OFFSET_INVALID, OFFSET_INVALID)
        _next(consumer)
        assert cached() == (START, END)
        consumer.assign([TopicPartition(topic, 0, END + 40)])
        assert _next(consumer).error() is not None
        assert cached() == (-1, -1)


def test_cached_high_watermark_is_above_the_last_stable_offset(kafka_broker: KafkaBroker) -> None:
    """``ConsumerMachine.watermarks``: asked for, it is that of the isolation level, and cached it is not."""
    name = f"open-transaction-{uuid4()}"
    kafka_broker.create_topic(name, tiered=False, retention_ms="-1")
    producer = Producer({**_producing(kafka_broker), "transactional.id": name})
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    _write(producer, name, 2)
    producer.commit_transaction(PATIENCE_SECONDS)
    producer.begin_transaction()
    _write(producer, name, 2)
    place = TopicPartition(name, 0, 0)
    with plain(kafka_broker) as consumer:
        consumer.assign([place])
        assert [_next(consumer).offset() for _ in range(2)] == [0, 1]
        assert consumer.get_watermark_offsets(place, timeout=PATIENCE_SECONDS) == (0, 3)
        assert consumer.get_watermark_offsets(place, cached=True) == (0, 5)
    producer.abort_transaction(PATIENCE_SECONDS)
    kafka_broker.delete_topic(name)


def test_partitions_are_delivered_in_any_order(kafka_broker: KafkaBroker) -> None:
    """``tests/parity/stage.py``, ``in_order``: each fetch begins with a different partition."""
    name, count = f"either-order-{uuid4()}", 8
    kafka_broker.create_topic(name, tiered=False, retention_ms="-1", partitions=2)
    producer = Producer(_producing(kafka_broker))
    for _ in range(count):
        for partition in (0, 1):
            producer.produce(name, b"x" * 50, partition=partition)
        assert producer.flush(PATIENCE_SECONDS) == 0
    with plain(kafka_broker, enable_partition_eof=False, fetch_message_max_bytes=150) as consumer:
        consumer.assign([TopicPartition(name, partition, 0) for partition in (0, 1)])
        came = [_next(consumer).partition() for _ in range(2 * count)]
    zero, one = ([at for at, number in enumerate(came) if number == partition] for partition in (0, 1))
    assert {at < other for at, other in zip(zero, one, strict=True)} == {True, False}, came
    kafka_broker.delete_topic(name)


def test_the_call_that_reads_a_marker_moves_the_position(kafka_broker: KafkaBroker, marked: str) -> None:
    """``Pair.is_possible_position``: behind the same record the position is before the marker, and then behind it."""
    with plain(kafka_broker) as consumer:
        consumer.assign([TopicPartition(marked, 0, 0)])
        assert [_next(consumer).offset() for _ in MARKED] == [*MARKED]
        assert _position(consumer, marked) == MARKED[-1] + 1
        assert _place(_next(consumer)) == (6, "_PARTITION_EOF")
        assert _position(consumer, marked) == 6


def test_close_may_commit_markers_behind_unread_records(kafka_broker: KafkaBroker, marked: str) -> None:
    """``Pair.close``: one record of four is read, and most often closing commits the offset behind the last marker."""
    seen: list[int] = []

    def is_behind() -> bool:
        seen.append(_committed_by_close(kafka_broker, marked, gives_up=False))
        return seen[-1] == 6

    wait_until(is_behind, "a commit behind the last marker", seconds=PATIENCE_SECONDS, pause=0)
    assert set(seen) <= {1, 6}, "otherwise it is before the first marker"


def test_close_after_an_unassign_commits_no_unread_marker(kafka_broker: KafkaBroker, marked: str) -> None:
    """``Pair.close`` gives up partitions before it closes both consumers."""
    assert _committed_by_close(kafka_broker, marked, gives_up=True) == 1


def test_a_commit_is_repeated_until_the_last_is_answered(kafka_broker: KafkaBroker, topic: str) -> None:
    """``ConsumerMachine._see_committed``: the same commit once more has something to commit, and later nothing."""
    with plain(kafka_broker) as consumer:
        consumer.assign([TopicPartition(topic, 0, START)])
        _next(consumer)
        consumer.commit(asynchronous=True)
        consumer.commit(asynchronous=False)
        with pytest.raises(KafkaException, match="_NO_OFFSET"):
            consumer.commit(asynchronous=False)


def test_a_seek_is_refused_until_its_partition_has_started(kafka_broker: KafkaBroker, topic: str) -> None:
    """``ConsumerMachine._seek`` tries again."""
    with plain(kafka_broker) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])  # the group's coordinator is looked for first
        with pytest.raises(KafkaException, match="_STATE"):
            consumer.seek(TopicPartition(topic, 0, START))
        _next(consumer)
        consumer.seek(TopicPartition(topic, 0, START))


def test_a_refused_seek_to_offset_stored_ends_deliveries(kafka_broker: KafkaBroker, topic: str) -> None:
    """The machine seeks to no ``OFFSET_STORED``: fetched records are dropped, and the next seek starts again."""
    with plain(kafka_broker) as consumer:
        consumer.assign([TopicPartition(topic, 0, START)])
        assert _place(_next(consumer)) == (START, None)
        with pytest.raises(KafkaException, match="_INVALID_ARG"):
            consumer.seek(TopicPartition(topic, 0, OFFSET_STORED))
        assert consumer.poll(2.0) is None
        assert _position(consumer, topic) == START + 1
        consumer.seek(TopicPartition(topic, 0, START + 1))
        assert _place(_next(consumer)) == (START + 1, None)


def test_a_seek_while_a_start_is_looked_up_may_be_undone(kafka_broker: KafkaBroker, topic: str) -> None:
    """``Pair.find``: the look-up that was overtaken is made once more, half a second later. It is not once something came."""
    with plain(kafka_broker) as consumer:

        def attempt(*, found: bool) -> bool:
            """Whether records came of the place that was looked up, after those of the seek."""
            consumer.assign([TopicPartition(topic, 0, OFFSET_TAIL - 20)])
            if found:
                _next(consumer)
            wait_until(lambda: _seeks(consumer, topic, END - 1), "a seek", pause=0)
            offsets = [_next(consumer).offset()]
            while (message := consumer.poll(1.0)) is not None:
                offsets.append(message.offset())
            consumer.unassign()
            return offsets[0] == END - 1 and END - 20 in offsets

        wait_until(lambda: attempt(found=False), "a seek that is undone", seconds=PATIENCE_SECONDS, pause=0)
        assert not attempt(found=True)


def _seeks(consumer: confluent_kafka.Consumer, topic: str, offset: int) -> bool:
    with suppress(KafkaException):
        consumer.seek(TopicPartition(topic, 0, offset))
        return True
    return False


@pytest.mark.parametrize("known", [False, True])
def test_pausing_an_unassigned_partition_needs_a_known_topic(kafka_broker: KafkaBroker, topic: str, known: bool) -> None:
    """``ConsumerMachine.pause``: librdkafka keeps it of a topic that it knows, be it by a question for cached watermarks."""
    with plain(kafka_broker) as consumer:
        if known:
            consumer.get_watermark_offsets(TopicPartition(topic, 0), cached=True)
        consumer.pause([TopicPartition(topic, 0)])
        consumer.assign([TopicPartition(topic, 0, START)])
        if known:
            assert consumer.poll(2.0) is None
            consumer.resume([TopicPartition(topic, 0)])
        assert _next(consumer).offset() == START
