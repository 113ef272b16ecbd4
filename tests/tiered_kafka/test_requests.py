"""Administrative clients manage topics, and other client libraries produce and consume unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from kafka_remote_client.tiered_kafka import TieredCluster
from tests.tiered_kafka.clients import produce, watermarks

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
