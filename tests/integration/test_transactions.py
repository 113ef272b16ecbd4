"""Consume, transform, produce, exactly once: records come from the tier, their offsets go with the producer's transaction.

The consumer is in a group of each protocol, subscribed by a regular expression. Aborted transactions are read and
written again.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.server import Shim
from tests.support.group_topic import COUNT, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, plain, settings, total
from tests.support.transactions import NEVER_ABORTED

pytestmark = pytest.mark.broker

PARTITIONS = range(2)
BATCH = 100
PROTOCOLS: dict[str, dict[str, Any]] = {
    "range": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    name = f"transformed-{uuid4().hex[:8]}"
    write_group_topic(running_broker, name, len(PARTITIONS))
    return name


def take_back(consumer: Consumer, first: dict[int, TopicPartition]) -> None:
    """Seeks back to the group's commit, or without one to the first record taken."""
    for tp in consumer.committed(list(first.values()), PATIENCE_SECONDS):
        consumer.seek(TopicPartition(tp.topic, tp.partition, max(tp.offset, 0)))


def transform(consumer: Consumer, producer: Producer, written: str) -> int:
    """Transforms until all records are in a committed transaction; every third one aborts. Returns the number of aborts."""
    first: dict[int, TopicPartition] = {}
    done = turns = aborted = 0
    deadline = Deadline(SystemClock(), 4 * PATIENCE_SECONDS)
    while done < COUNT * len(PARTITIONS):
        assert not deadline.expired(), f"{done} records were transformed"
        messages = consumer.consume(BATCH, 0.3)
        if not messages:
            continue
        reached: dict[int, TopicPartition] = {}
        producer.begin_transaction()
        for message in messages:
            assert message.error() is None
            topic, partition, offset = str(message.topic()), message.partition() or 0, message.offset() or 0
            first.setdefault(partition, TopicPartition(topic, partition))
            reached[partition] = TopicPartition(topic, partition, offset + 1)
            producer.produce(written, b"%d-%d" % (partition, offset), message.key(), partition=0)
        producer.send_offsets_to_transaction(list(reached.values()), consumer.consumer_group_metadata(), PATIENCE_SECONDS)
        turns += 1
        if turns % 3 == 1:
            producer.abort_transaction(PATIENCE_SECONDS)
            aborted += 1
            take_back(consumer, first)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
            done += len(messages)
    return aborted


def consume_transform_produce(broker: KafkaBroker, shim: Shim, topic: str, protocol: str) -> None:
    written, group = f"{topic}-{protocol}", f"{topic}-{protocol}-group"
    broker.create_topic(written, segment_bytes=1 << 20)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": written, "log_level": 0, **NEVER_ABORTED}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    own = {"group.id": group, "enable.partition.eof": False, "fetch.wait.max.ms": 50, **PROTOCOLS[protocol]}
    with Consumer(direct(shim, "read_committed", **own)) as consumer:
        consumer.subscribe([f"^{topic}$"])
        assert transform(consumer, producer, written) >= 2
        assert total(consumer.metrics(), "remote-fetch-records-total") > COUNT
        assert consumer.metrics()["remote-fetch-fallbacks-total"] == {}
    values = sorted(value for _, _, _, _, value, _ in plain(broker, written, "read_committed"))
    assert values == sorted(b"%d-%d" % (partition, offset) for partition in PARTITIONS for offset in range(COUNT))
    judge = confluent_kafka.Consumer(settings(broker.bootstrap_servers, "read_committed", **{"group.id": group}))
    try:
        committed = judge.committed([TopicPartition(topic, partition) for partition in PARTITIONS], PATIENCE_SECONDS)
    finally:
        judge.close()
    assert [tp.offset for tp in committed] == [COUNT for _ in PARTITIONS]


def test_consume_transform_produce_is_exactly_once(kafka_broker: KafkaBroker, shim: Shim, topic: str) -> None:
    """The protocols run in parallel: they mostly wait for each other's groups."""
    with ThreadPoolExecutor(len(PROTOCOLS)) as pool:
        runs = [pool.submit(consume_transform_produce, kafka_broker, shim, topic, protocol) for protocol in PROTOCOLS]
        for run in runs:
            run.result()
