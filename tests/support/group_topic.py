"""A tiered topic of many partitions, for groups: each has most of its records in the tier and its last ones on the broker."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import Producer, TopicPartition

from tests.support.history import History, Produced
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, settings
from tests.support.recorder import recorded
from tests.support.waiting import wait_until

__all__ = ["COUNT", "FIRST_TIMESTAMP", "PARTITIONS", "STEP_MS", "note_group_topic", "oracle_of", "write_group_topic"]

PARTITIONS = 24
COUNT = 400
"""Records of each partition."""
FIRST_TIMESTAMP, STEP_MS = 1_700_000_000_000, 1_000
"""Record ``n`` of each partition has the timestamp ``FIRST_TIMESTAMP + n * STEP_MS``."""
_BATCH = 20
_PATIENCE_SECONDS = 270


def write_group_topic(broker: KafkaBroker, topic: str, partitions: int = PARTITIONS) -> None:
    """Creates ``topic`` and waits until all full segments are only in the tier."""
    broker.create_topic(topic, partitions=partitions, segment_bytes=7_000)
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "batch.num.messages": _BATCH,
            "linger.ms": 60_000,  # a batch goes when it is full
            "log_level": 0,
            "enable.idempotence": True,
        }
    )
    for number in range(COUNT):
        for partition in range(partitions):
            key, value = _record(number, partition)
            producer.produce(topic, value, key, partition, timestamp=FIRST_TIMESTAMP + number * STEP_MS)
    assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"
    broker.wait_until_tiered(topic, *range(partitions), seconds=_PATIENCE_SECONDS)


def note_group_topic(history: History, topic: str, partitions: int) -> None:
    """Adds what :func:`write_group_topic` wrote: record ``n`` of each partition lies at offset ``n``."""
    for partition in range(partitions):
        for number in range(COUNT):
            key, value = _record(number, partition)
            history.add(Produced, topic=topic, partition=partition, offset=number, key=key, value=value)


def _record(number: int, partition: int) -> tuple[bytes, bytes]:
    """Key and value."""
    return b"%d" % number, b"%d of partition %d " % (number, partition) * 3


def oracle_of(broker: KafkaBroker, topic: str, partitions: int = PARTITIONS) -> Oracle:
    """Returns the records that a plain consumer gets from all partitions of such a topic."""
    truth = History()
    with recorded(confluent_kafka.Consumer, settings(broker.bootstrap_servers, "read_committed"), truth) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

        def read() -> bool:
            consumer.consume(1_000, 0.2)
            return len(Oracle.of(truth)) == partitions * COUNT

        wait_until(read, "all records", seconds=PATIENCE_SECONDS, pause=0)
    return Oracle.of(truth)
