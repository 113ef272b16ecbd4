"""DeserializingConsumer on both tiers, compared with confluent_kafka's own."""

from __future__ import annotations

from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.error import ConsumeError, KeyDeserializationError
from confluent_kafka.serialization import SerializationContext, StringDeserializer

from kafka_remote_client import Consumer, DeserializingConsumer
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    filled_cluster,
    from_store,
    plain_settings,
    row,
)

pytestmark = pytest.mark.embedded

TOPIC = "orders"


cluster = filled_cluster(TOPIC, 200)


def shouted(value: bytes | None, context: SerializationContext | None) -> str | None:
    assert context is not None
    assert context.topic == TOPIC
    return None if value is None else value.decode().upper()


TEXTS: dict[str, Any] = {"key.deserializer": StringDeserializer("utf_8"), "value.deserializer": shouted}


def read(consumer: confluent_kafka.DeserializingConsumer[str, str]) -> list[tuple[Any, ...]]:
    """Reads all rows with poll() only: the end of a partition is raised."""
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    rows = []
    while True:
        try:
            message = consumer.poll(PATIENCE_SECONDS)
        except ConsumeError as error:
            if error.code != KafkaError._PARTITION_EOF:
                raise
            return rows
        assert message is not None, "nothing more came"
        assert message.deserialized_key() == message.key()
        rows.append(row(message))


def test_keys_and_values_of_both_tiers_are_what_upstreams_class_gives(cluster: EmbeddedCluster) -> None:
    with confluent_kafka.DeserializingConsumer[str, str]({**plain_settings(cluster), **TEXTS}) as plain:
        expected = read(plain)
    with DeserializingConsumer[str, str]({**direct_settings(cluster), **TEXTS}) as consumer:
        assert isinstance(consumer, DirectConsumer)
        assert isinstance(consumer, confluent_kafka.DeserializingConsumer)
        rows = read(consumer)
        assert from_store(consumer) > 0
    assert rows == expected
    assert any(isinstance(value, str) for *_, value, _ in rows)


def test_what_cannot_be_deserialised_is_raised_as_upstream_raises_it(cluster: EmbeddedCluster) -> None:
    def refuses(_: bytes, __: SerializationContext) -> None:
        raise ValueError("no")

    with DeserializingConsumer({**direct_settings(cluster), "key.deserializer": refuses}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        with pytest.raises(KeyDeserializationError) as failure:
            consumer.poll(PATIENCE_SECONDS)
        assert failure.value.kafka_message.offset() == 0
        with pytest.raises(NotImplementedError):
            consumer.consume(1, 0)


def test_without_direct_fetch_it_is_upstreams() -> None:
    consumer = DeserializingConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    assert not isinstance(consumer, DirectConsumer)
    assert isinstance(consumer, Consumer)
    consumer.close()
