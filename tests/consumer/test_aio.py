"""The asyncio classes on both tiers: their inner consumer is this project's; other classes do not change."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message, TopicPartition, aio
from confluent_kafka.serialization import StringDeserializer

from kafka_remote_client import AIOConsumer, AsyncDeserializingConsumer, Consumer
from kafka_remote_client.consumer import aio as ours_of_aio
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    filled_cluster,
    is_end,
    plain_rows,
    row,
)

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 200


cluster = filled_cluster(TOPIC, COUNT)


async def by_poll(consumer: aio.AIOConsumer) -> list[Message]:
    message = await consumer.poll(PATIENCE_SECONDS)
    return [] if message is None else [message]


async def by_consume(consumer: aio.AIOConsumer) -> list[Message]:
    return await consumer.consume(50, 1.0)


async def read(consumer: aio.AIOConsumer, take: Any) -> list[tuple[Any, ...]]:
    rows = []
    while True:
        for message in await take(consumer):
            if is_end(message) and message.partition() == 0:  # the others are empty
                return rows
            if not is_end(message):
                assert message.error() is None
                rows.append(row(message))


def records_from_store(metrics: dict[str, Any]) -> int:
    return int(metrics["remote-fetch-records-total"])


@pytest.mark.parametrize("take", [by_poll, by_consume])
def test_the_same_records_of_both_tiers_come_to_a_coroutine(cluster: EmbeddedCluster, take: Any) -> None:
    async def scenario() -> tuple[list[tuple[Any, ...]], int]:
        assigned: list[TopicPartition] = []

        async def on_assign(consumer: AIOConsumer, partitions: list[TopicPartition]) -> None:
            assert isinstance(consumer, AIOConsumer)
            assigned.extend(partitions)
            await consumer.assign(partitions)

        async with AIOConsumer(direct_settings(cluster)) as consumer:
            assert isinstance(consumer._consumer, DirectConsumer)
            await consumer.subscribe([TOPIC], on_assign=on_assign)
            rows = await read(consumer, take)
            assert {partition.topic for partition in assigned} == {TOPIC}
            return rows, records_from_store(await consumer.metrics())

    rows, direct = asyncio.run(scenario())
    assert rows == plain_rows(cluster, TOPIC)
    assert direct > 0


def test_each_class_wraps_our_consumer_and_leaves_upstreams_alone(cluster: EmbeddedCluster) -> None:
    async def scenario() -> None:
        ours = AIOConsumer(direct_settings(cluster), max_workers=2)
        ours_deserializing = await AsyncDeserializingConsumer(direct_settings(cluster))
        theirs = aio.AIOConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
        assert isinstance(ours._consumer, Consumer)
        assert isinstance(ours_deserializing._consumer, Consumer)
        assert type(theirs._consumer) is confluent_kafka.Consumer
        for consumer in (ours, ours_deserializing, theirs):
            await consumer.close()

    stock = confluent_kafka.Consumer
    asyncio.run(scenario())
    assert confluent_kafka.Consumer is stock


def test_keys_and_values_are_deserialised(cluster: EmbeddedCluster) -> None:
    async def scenario() -> list[tuple[Any, ...]]:
        text = StringDeserializer("utf_8")
        settings = {**direct_settings(cluster), "key.deserializer": text, "value.deserializer": text}
        consumer = await AsyncDeserializingConsumer[str, str](settings)
        try:
            await consumer.assign([TopicPartition(TOPIC, 0, 0)])
            messages = []
            while len(messages) < COUNT:
                messages += [message for message in await consumer.consume(COUNT - len(messages), 1.0) if not message.error()]
            assert records_from_store(await consumer.metrics()) > 0
            return [(message.key(), message.deserialized_value()) for message in messages]
        finally:
            await consumer.close()

    expected = [(key and key.decode(), value and value.decode()) for *_, key, value, _ in plain_rows(cluster, TOPIC)]
    assert asyncio.run(scenario()) == expected


def test_the_constructors_of_upstream_keep_their_arguments_and_refusals(cluster: EmbeddedCluster) -> None:
    async def scenario() -> None:
        with ThreadPoolExecutor(2) as executor:
            consumer = AIOConsumer(direct_settings(cluster), executor=executor)
            assert consumer.executor is executor
            await consumer.close()
        with pytest.raises(ValueError, match="max_workers"):
            AIOConsumer({}, max_workers=0)
        with pytest.raises(confluent_kafka.KafkaException) as failure:
            AIOConsumer({"group.id": "g", "no.such.setting": 1})
        assert failure.value.args[0].code() == KafkaError._INVALID_ARG
        with pytest.raises(ValueError, match="deserializer"):
            await AsyncDeserializingConsumer({"key.deserializer": str, "key.deserializer.builder": object()})

    asyncio.run(scenario())


def test_a_stock_consumer_answers_as_one_with_direct_fetch_off(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Upstream's constructor cannot build our consumer, or an option forbids it."""
    for name in ("_begin", "_begin_deserializing"):
        monkeypatch.setattr(ours_of_aio, name, None)

    async def scenario() -> None:
        for consumer in (AIOConsumer(direct_settings(cluster)), await AsyncDeserializingConsumer(direct_settings(cluster))):
            assert type(consumer._consumer) is confluent_kafka.Consumer
            await consumer.assign([TopicPartition(TOPIC, 0, 0)])
            (first,) = await consumer.consume(1, PATIENCE_SECONDS)
            assert (await consumer.tier(first), records_from_store(await consumer.metrics())) == ("broker", 0)
            await consumer.set_remote_fetch(False)
            with pytest.raises(ConfigurationError, match="was off"):
                await consumer.set_remote_fetch(True)
            await consumer.close()

    asyncio.run(scenario())
    assert caplog.text.count("direct fetch is off: confluent_kafka.aio cannot build") == 2


def test_the_constructor_has_the_arguments_and_defaults_of_upstream() -> None:
    ours, upstream = (inspect.signature(one.__init__).parameters.values() for one in (AIOConsumer, aio.AIOConsumer))
    assert [(one.name, one.default) for one in ours] == [(one.name, one.default) for one in upstream]


def test_a_coroutine_receives_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    class BegunError(Exception):
        pass

    given: dict[str, Any] = {}
    told: list[str] = []

    def begin(_: object, settings: dict[str, Any], *_more: object) -> None:
        given.update(settings)
        raise BegunError

    async def progress(report: str) -> None:
        told.append(report)

    async def make_and_report() -> None:
        with pytest.raises(BegunError):
            AIOConsumer({"fetch.remote.progress.cb": progress})
        await asyncio.get_running_loop().run_in_executor(None, given["fetch.remote.progress.cb"], "half")

    monkeypatch.setattr(ours_of_aio, "_begin", begin)
    asyncio.run(make_and_report())
    assert told == ["half"]
