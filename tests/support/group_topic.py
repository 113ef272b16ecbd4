"""A tiered topic of many partitions, for groups: each has most of its records in the tier and its last ones on the broker."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.support.kafka_broker import KafkaBroker

__all__ = ["COUNT", "FIRST_TIMESTAMP", "PARTITIONS", "STEP_MS", "write_group_topic"]

PARTITIONS = 24
COUNT = 400
"""Records of each partition."""
FIRST_TIMESTAMP, STEP_MS = 1_700_000_000_000, 1_000
"""Record ``n`` of each partition has the timestamp ``FIRST_TIMESTAMP + n * STEP_MS``."""
_BATCH = 20
_PATIENCE_SECONDS = 270


def write_group_topic(broker: KafkaBroker, topic: str, partitions: int = PARTITIONS) -> None:
    """Creates ``topic`` and waits until all full segments are in the tier and nowhere else."""
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
            value = b"%d of partition %d " % (number, partition) * 3
            producer.produce(topic, value, b"%d" % number, partition, timestamp=FIRST_TIMESTAMP + number * STEP_MS)
    assert producer.flush(_PATIENCE_SECONDS) == 0, "the broker did not take all records"
    broker.wait_until_tiered(topic, *range(partitions), seconds=_PATIENCE_SECONDS)
