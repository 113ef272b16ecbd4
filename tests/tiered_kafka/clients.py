"""What tests do with a tiered cluster: produce numbered records, and read a partition whole."""

from __future__ import annotations

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from kafka_remote_client.tiered_kafka import TieredCluster
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import Row, read_to_end, settings

__all__ = ["plain", "produce", "values", "watermarks"]


def produce(cluster: TieredCluster | KafkaBroker, topic: str, count: int, **more: object) -> None:
    """Records to partition 0 in batches of 20, and waits for them."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, **more})
    for number in range(count):
        headers = {"n": b"%d" % number}
        producer.produce(topic, b"%060d" % number, b"%d" % number, partition=0, timestamp=1000 + number, headers=headers)
        if number % 20 == 19:
            assert producer.flush(30) == 0
    assert producer.flush(30) == 0


def plain(cluster: TieredCluster | KafkaBroker, topic: str, isolation: str = "read_committed") -> list[Row]:
    """The whole of partition 0, as a plain consumer reads it."""
    consumer = confluent_kafka.Consumer(settings(cluster.bootstrap_servers, isolation, **{"fetch.wait.max.ms": 20}))
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        return read_to_end(consumer)
    finally:
        consumer.close()


def watermarks(cluster: TieredCluster, topic: str) -> tuple[int, int]:
    """Log start and high watermark of partition 0."""
    consumer = confluent_kafka.Consumer(settings(cluster.bootstrap_servers, "read_uncommitted"))
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
    finally:
        consumer.close()


def values(rows: list[Row]) -> list[int]:
    """The numbers of records, by their values."""
    return [int(row[4]) for row in rows]
