"""Records that a follower serves (``client.rack``, KIP-392), with three real brokers: after the tier, and new ones."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.server import Shim
from tests.support.group_member import KINDS
from tests.support.kafka_cluster import KafkaCluster
from tests.support.reading import PATIENCE_SECONDS, settings_of, shim_before, total
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

TOPIC = "followed"
LEADER, FOLLOWER = 1, 2


@pytest.fixture(scope="module")
def produced(kafka_cluster: KafkaCluster) -> list[int]:
    """Returns the offsets of all records, most of them in the tier."""
    kafka_cluster.create_topic(TOPIC, (LEADER, FOLLOWER))
    written = write(kafka_cluster, 600)
    kafka_cluster.wait_until_tiered(TOPIC)
    kafka_cluster.wait_until_in_sync(TOPIC, LEADER, FOLLOWER)
    return written + write(kafka_cluster, 40)


@pytest.fixture(scope="module")
def shim(kafka_cluster: KafkaCluster) -> Iterator[Shim]:
    with shim_before(kafka_cluster) as running:
        yield running


def write(kafka_cluster: KafkaCluster, count: int) -> list[int]:
    """Writes that many more records, a few per batch, and returns their offsets."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    batches = {"batch.num.messages": 10, "linger.ms": 2}
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "log_level": 0, **batches})
    for number in range(count):
        producer.produce(TOPIC, b"%d " % number * 20, partition=0, callback=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return offsets


def read(consumer: confluent_kafka.Consumer, count: int) -> list[int]:
    """Returns the offsets of the next records, at least so many; for none, whatever arrives in a moment."""
    offsets: list[int] = []
    deadline = Deadline(SystemClock(), 2 * PATIENCE_SECONDS)
    while True:
        for message in consumer.consume(500, 0.05):
            error = message.error()
            assert error is None or error.code() == KafkaError._PARTITION_EOF, error
            if error is None:
                offsets.append(message.offset() or 0)
        if len(offsets) >= count:
            return offsets
        assert not deadline.expired(), f"{len(offsets)} of {count} records came"


class Served:
    """The node that the partition is fetched from, by librdkafka's own statistics."""

    def __init__(self) -> None:
        self.node = -1
        self.fetches: Counter[int] = Counter()

    def hear(self, told: str) -> None:
        seen = json.loads(told)
        self.node = seen["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {}).get("broker", -1)
        self.fetches = Counter({node["nodeid"]: node["req"].get("Fetch", 0) for node in seen["brokers"].values()})


@pytest.mark.parametrize(("rack", "node"), [(f"rack-{FOLLOWER}", FOLLOWER), (f"rack-{LEADER}", LEADER), (None, LEADER)])
@pytest.mark.parametrize("kind", ["plain", "off", "direct"])
def test_all_records_outside_the_store_come_from_the_racks_replica(
    kafka_cluster: KafkaCluster, shim: Shim, produced: list[int], kind: str, rack: str | None, node: int
) -> None:
    served = Served()
    more: dict[str, Any] = {"statistics.interval.ms": 50, "stats_cb": served.hear}
    more |= {} if rack is None else {"client.rack": rack}

    with KINDS[kind](settings_of(kind, kafka_cluster, shim, **more)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        assert read(consumer, len(produced)) == produced
        if isinstance(consumer, Consumer):
            from_store = total(consumer.metrics(), "remote-fetch-records-total")
            assert (from_store > 0) == (kind == "direct")
            assert from_store < len(produced)  # records of the active segment are local

        def hears_of_it() -> bool:
            assert read(consumer, 0) == []
            return served.node == node and served.fetches[node] > 0

        wait_until(hears_of_it, f"fetches from node {node}", seconds=2 * PATIENCE_SECONDS, pause=0)
        before = served.fetches[node]
        newest = write(kafka_cluster, 5)
        assert read(consumer, len(newest)) == newest
        produced += newest
        wait_until(lambda: hears_of_it() and served.fetches[node] > before, "the fetches since", pause=0)
