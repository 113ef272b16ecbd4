"""Administrative clients manage topics, and other client libraries produce and consume unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import attrs
import kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.tiered_cluster.batches import Producer, Record, new_batch
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_kafka import TieredCluster
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.wire import Reader, Writer
from tests.tiered_kafka.clients import produce, watermarks
from tests.tiered_kafka.test_fetches import Broker

TIMEOUT = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, segment_bytes=4096) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: TieredCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


def test_topics_are_created_described_and_deleted(cluster: TieredCluster, admin: AdminClient) -> None:
    made = admin.create_topics([NewTopic("made", 3, config={"cleanup.policy": "compact", "segment.bytes": "99"})])
    made["made"].result(TIMEOUT)
    assert len(admin.list_topics("made", timeout=TIMEOUT).topics["made"].partitions) == 3
    resource = ConfigResource(ConfigResource.Type.TOPIC, "made")
    described = admin.describe_configs([resource])[resource].result(TIMEOUT)
    assert (described["cleanup.policy"].value, described["segment.bytes"].value) == ("compact", "99")
    assert described["remote.storage.enable"].value == "true"
    admin.delete_topics(["made"])["made"].result(TIMEOUT)
    assert "made" not in admin.list_topics(timeout=TIMEOUT).topics


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("__remote_log_metadata", 1), "TOPIC_ALREADY_EXISTS"),
        (NewTopic("a/b", 1), "TOPIC_EXCEPTION"),
        (NewTopic("none", 0), "INVALID_PARTITIONS"),
        (NewTopic("red", 1, config={"color": "red"}), "INVALID_CONFIG"),
        (NewTopic("red", 1, config={"retention.ms": "long"}), "INVALID_CONFIG"),
    ],
)
def test_invalid_topics_are_refused(admin: AdminClient, topic: NewTopic, error: str) -> None:
    with pytest.raises(KafkaException, match=error):
        admin.create_topics([topic])[topic.topic].result(TIMEOUT)


def test_missing_topics_are_unknown(admin: AdminClient) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, "missing")
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.describe_configs([resource])[resource].result(TIMEOUT)
    with pytest.raises(KafkaException, match="UNKNOWN_TOPIC_OR_PART"):
        admin.delete_topics(["missing"])["missing"].result(TIMEOUT)


def test_records_are_deleted_by_an_admin_client(cluster: TieredCluster, admin: AdminClient) -> None:
    produce(cluster, "cut", 40)
    (future,) = admin.delete_records([TopicPartition("cut", 0, 10)]).values()
    assert future.result(TIMEOUT).low_watermark == 10
    assert watermarks(cluster, "cut") == (10, 40)
    (future,) = admin.delete_records([TopicPartition("cut", 0, 41)]).values()
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        future.result(TIMEOUT)


def test_kafka_python_produces_and_consumes(cluster: TieredCluster) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for number in range(100):
        producer.send("kafka-python", b"%d" % number, partition=0)
    producer.flush(TIMEOUT)
    producer.close()
    cluster.tier_now("kafka-python", roll=True)
    consumer = kafka.KafkaConsumer(
        "kafka-python",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT * 1000,
    )
    got = [int(next(consumer).value) for _ in range(100)]
    consumer.close()
    assert got == list(range(100))


def test_aiokafka_produces_and_consumes(cluster: TieredCluster) -> None:
    async def body() -> list[int]:
        async with (
            aiokafka.AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="aiokafka") as producer,
            producer.transaction(),
        ):
            for number in range(100):
                await producer.send("aiokafka", b"%d" % number, partition=0)
        cluster.tier_now("aiokafka", roll=True)
        async with aiokafka.AIOKafkaConsumer(
            "aiokafka",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="aiokafka",
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer:
            return [int((await consumer.getone()).value) for _ in range(100)]

    assert asyncio.run(asyncio.wait_for(body(), TIMEOUT)) == list(range(100))


def test_leader_refuses_what_it_cannot_append_or_does_not_lead(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    requests = Requests(broker.topics, {1: ("localhost", 1)}, SystemClock(), broker.fetches)

    def produce_to(partition: int, records: bytes) -> ErrorCode:
        writer = Writer()
        writer.nullable_string(None)
        writer.int16(1)
        writer.int32(1000)
        writer.int32(1)  # topics
        writer.string("orders")
        writer.int32(1)  # partitions
        writer.int32(partition)
        writer.bytes_(records)
        body = asyncio.run(requests.answer(1, 0, 3, writer.getvalue()))
        assert body is not None
        reader = Reader(body)
        reader.int32()
        reader.string()
        reader.int32()
        reader.int32()
        return ErrorCode(reader.int16())

    producer = Producer(7, 0, 0)
    first = new_batch([Record(0, 1)], producer=producer)
    assert produce_to(0, first.data) is ErrorCode.NONE
    assert produce_to(0, first.data) is ErrorCode.NONE
    assert broker.orders.partitions[0].log.end_offset == 1
    later = new_batch([Record(0, 1)], producer=attrs.evolve(producer, sequence=5))
    assert produce_to(0, later.data) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce_to(0, first.data[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert produce_to(1, first.data) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert produce_to(9, first.data) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
