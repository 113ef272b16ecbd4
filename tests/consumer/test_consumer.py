"""Which class a consumer becomes. With direct fetch off, none of our code is in its calls."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import BuiltinMethodType
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import DeserializingConsumer, KafkaError, Message, TopicPartition

import kafka_remote_client.consumer.direct_consumer as module
from kafka_remote_client import Consumer
from kafka_remote_client.config import FETCHER_PREFIX, SETTINGS
from kafka_remote_client.consumer.direct_consumer import DirectConsumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.exporters.readings import readings
from kafka_remote_client.metrics import METRICS
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    decide,
    direct_settings,
    fill_topic,
    filled_cluster,
    from_store,
    plain_rows,
    plain_settings,
    records,
    row,
    small_cluster,
    take,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
PUBLIC = sorted(name for name in dir(confluent_kafka.Consumer) if not name.startswith("_"))
OFF: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


cluster = filled_cluster(TOPIC, 200)


class Counting(Consumer):
    """An application's subclass."""

    polled = 0

    def poll(self, timeout: float = -1) -> Message | None:
        self.polled += 1
        return super().poll(timeout)


class OfTopic(Consumer):
    """A subclass whose constructor does not take a configuration."""

    def __init__(self, cluster: EmbeddedCluster, *, offset: int) -> None:
        super().__init__(direct_settings(cluster))
        self.assign([TopicPartition(TOPIC, 0, offset)])


class Deserializing(DeserializingConsumer, Consumer):
    """confluent_kafka's deserializing consumer, with our Consumer as its base."""


@pytest.mark.parametrize("off", [{}, {"fetch.remote.enabled": False}, {"fetch.remote.enabled": "false"}])
def test_off_there_is_no_override_of_ours(off: dict[str, object]) -> None:
    consumer = Consumer({**OFF, **off, "remote.storage.fetcher.class": "presigned"})
    assert type(consumer) is Consumer
    for name in [*PUBLIC, "__exit__"]:
        method = getattr(consumer, name)
        assert (type(method), method.__self__) == (BuiltinMethodType, consumer), name
    consumer.close()


def test_off_no_engine_is_built_and_no_connection_of_ours_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("a connection from Python")

    monkeypatch.setattr(socket, "create_connection", never)
    monkeypatch.setattr("kafka_remote_client.fetch.assemble.FetchEngine", never)
    monkeypatch.setattr("kafka_remote_client.fetch.assemble.load_fetcher", never)
    consumer = Consumer(OFF)
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.poll(0.05) is None
    consumer.close()


@pytest.mark.parametrize(
    "name", [*(setting.name for setting in SETTINGS), FETCHER_PREFIX, "fetch.remote.unknown", "remote.unknown"]
)
def test_no_setting_of_ours_reaches_confluent_kafka(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen = []

    def split(config: dict[str, object]) -> None:
        seen.append(config)
        raise ConfigurationError("seen")

    monkeypatch.setattr("kafka_remote_client.config.split_config", split)
    with pytest.raises(ConfigurationError, match="seen"):
        Consumer({**OFF, name: None})
    assert seen == [{**OFF, name: None}]


def test_off_the_metrics_are_there_and_zero() -> None:
    consumer = Consumer(OFF)
    assert consumer.metrics().keys() == METRICS.keys()
    assert not any(one.value for one in readings(consumer.metrics()))
    consumer.close()


def test_on_it_is_a_direct_consumer(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        assert type(consumer) is DirectConsumer
        assert isinstance(consumer, confluent_kafka.Consumer)


def test_a_subclass_keeps_its_methods_and_reaches_ours(cluster: EmbeddedCluster) -> None:
    with Counting(direct_settings(cluster)) as consumer, Counting(direct_settings(cluster)) as other:
        assert isinstance(consumer, Counting)
        assert isinstance(consumer, DirectConsumer)
        assert type(consumer) is type(other)
        assert type(consumer).__name__ == "Counting"
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert consumer.polled == 1
        assert from_store(consumer) > 0
    plain = Counting(OFF)
    assert type(plain) is Counting
    plain.close()


def test_a_subclass_may_take_other_arguments(cluster: EmbeddedCluster) -> None:
    with OfTopic(cluster, offset=7) as consumer:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert message.offset() == 7
        assert from_store(consumer) > 0


OURS = {"consume_arrow", "metrics", "set_remote_fetch", "tier"}
"""The methods that docs/consumer.md adds to confluent_kafka's."""


def test_no_other_name_can_be_one_of_an_applications_subclass(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        added = {*vars(consumer), *dir(DirectConsumer)} - {*dir(confluent_kafka.Consumer), *dir(OfTopic), *OURS}
        assert added
        assert {name for name in added if not name.startswith("_direct_")} == set()


class OldStyle(Consumer):
    """An application's subclass that names its base class, as Python 2 needed it."""

    def poll(self, timeout: float = -1) -> Message | None:
        return Consumer.poll(self, timeout)

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        return Consumer.commit(self, *args, **kwargs)


def test_a_subclass_may_name_its_base_class(cluster: EmbeddedCluster) -> None:
    with OldStyle(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert consumer.tier(message) == "remote"
        assert [tp.offset for tp in consumer.commit(asynchronous=False)] == [1]
    with OldStyle(OFF) as plain:
        plain.assign([TopicPartition(TOPIC, 0, 0)])
        assert plain.poll(0) is None


class Shutting(Consumer):
    """An application's subclass that does something of its own at the end, once."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


def close_by_the_end_of_a_block(consumer: Shutting) -> None:
    with consumer:
        pass


def close_in_a_callback(consumer: Shutting) -> None:
    consumer.subscribe([TOPIC], on_assign=lambda *_: consumer.close())
    wait_until(lambda: consumer.poll(0.1) is None and consumer.closed, "the callback")


@pytest.mark.parametrize(("end", "times"), [(close_by_the_end_of_a_block, 0), (close_in_a_callback, 1)])
def test_the_end_calls_no_method_of_a_subclass(cluster: EmbeddedCluster, end: Callable[[Shutting], None], times: int) -> None:
    """As the end of a block with confluent_kafka's class, whose close() in a callback never returns."""
    consumer = Shutting(direct_settings(cluster))
    end(consumer)
    assert consumer.closed == times
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.poll(0)


@pytest.mark.parametrize("kind", [confluent_kafka.Consumer, Consumer])
def test_a_second_construction_is_refused_and_changes_nothing(
    cluster: EmbeddedCluster, kind: type[confluent_kafka.Consumer]
) -> None:
    settings = direct_settings(cluster) if kind is Consumer else plain_settings(cluster)
    consumer = kind(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    rows = take(consumer, 5)
    with pytest.raises(RuntimeError, match="already initialized"):
        consumer.__init__(settings)  # type: ignore[misc] # as two constructors of an application do
    rows += take(consumer, 5)
    assert [offset for _, _, offset, *_ in rows] == list(range(10))
    consumer.close()
    consumer.__init__(settings)
    consumer.assign([TopicPartition(TOPIC, 0, 7)])
    assert [offset for _, _, offset, *_ in take(consumer, 1)] == [7]
    consumer.close()


def test_deserializers_work_over_both_tiers(cluster: EmbeddedCluster) -> None:
    def upper(value: bytes | None, context: object) -> str | None:
        return None if value is None else value.decode().upper()

    consumer = Deserializing(direct_settings(cluster, enable_partition_eof=False) | {"value.deserializer": upper})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    expected = plain_rows(cluster, TOPIC)
    for wanted in expected:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert row(message)[:6] == wanted[:6]
        assert message.value() == upper(wanted[6], None)
    with pytest.raises(NotImplementedError):
        consumer.consume(1, 0)
    assert from_store(consumer) > 0
    consumer.close()


def test_configuration_comes_as_mapping_keywords_or_with_a_logger(cluster: EmbeddedCluster) -> None:
    settings = direct_settings(cluster)
    logger = logging.getLogger("tests.librdkafka")
    for consumer in (Consumer(**settings), Consumer(settings, **{"client.id": "me"}), Consumer(settings, logger=logger)):
        assert isinstance(consumer, DirectConsumer)
        consumer.close()
    assert settings == {**settings}


@pytest.mark.parametrize("arguments", [(1,), ({}, 3), (None,)])
def test_what_is_no_configuration_is_refused_as_by_confluent_kafka(arguments: tuple[Any, ...]) -> None:
    errors = []
    for kind in (confluent_kafka.Consumer, Consumer):
        with pytest.raises((TypeError, ValueError)) as refused:
            kind(*arguments)
        errors.append((refused.type, str(refused.value)))
    assert errors[0] == errors[1]


def test_the_rest_of_the_surface_answers_as_confluent_kafka_does(cluster: EmbeddedCluster) -> None:
    calls: dict[str, tuple[Any, ...]] = {
        "assignment": (),
        "cluster_id": (PATIENCE_SECONDS,),
        "committed": ([TopicPartition(TOPIC, 0)], PATIENCE_SECONDS),
        "get_watermark_offsets": (TopicPartition(TOPIC, 0), PATIENCE_SECONDS),
        "list_topics": (TOPIC, PATIENCE_SECONDS),
        "memberid": (),
        "offsets_for_times": ([TopicPartition(TOPIC, 0, 0)], PATIENCE_SECONDS),
        "position": ([TopicPartition(TOPIC, 0)],),
        "unassign": (),
        "unsubscribe": (),
    }
    elsewhere = {
        "assign",
        "close",
        "commit",
        "consume",
        "incremental_assign",
        "incremental_unassign",
        "pause",
        "poll",
        "resume",
    }
    elsewhere |= {"seek", "store_offsets", "subscribe", "set_sasl_credentials", "consumer_group_metadata"}
    assert calls.keys() | elsewhere == set(PUBLIC)
    plain = confluent_kafka.Consumer({key: value for key, value in direct_settings(cluster).items() if "remote" not in key})
    with Consumer(direct_settings(cluster)) as consumer:
        for name, arguments in calls.items():
            answers = [getattr(one, name)(*arguments) for one in (plain, consumer)]
            assert type(answers[0]) is type(answers[1]), name
            if name in {"get_watermark_offsets", "cluster_id", "assignment"}:
                assert answers[0] == answers[1], name
        consumer.set_sasl_credentials("user", "password")
        assert consumer._direct_settings["sasl.username"] == "user"
        assert consumer.consumer_group_metadata() is not None
    plain.close()


def test_location_connections_use_new_credentials_too(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, Any]] = []
    build = module.build_engine

    def builds(remote: Any, settings: dict[str, Any], *more: Any) -> Any:
        given.append(settings)
        return build(remote, settings, *more)

    monkeypatch.setattr(module, "build_engine", builds)
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.set_sasl_credentials("user", "word")
    assert (given[0]["sasl.username"], given[0]["sasl.password"]) == ("user", "word")


def test_cached_watermarks_of_a_partition_that_is_read_directly_are_known(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        decide(consumer)
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), cached=True) == (0, 200)
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), PATIENCE_SECONDS, True) == (0, 200)
        with pytest.raises(TypeError):
            consumer.get_watermark_offsets("orders")


def test_cached_watermarks_follow_the_log_during_a_direct_read(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster, Consumer(direct_settings(cluster)) as consumer:
        fill_topic(cluster, TOPIC, 400)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 1)
        cluster.produce(TOPIC, records(30), partition=0)
        consumer.seek(TopicPartition(TOPIC, 0, 0))  # what was granted before may have been enough for the rest of the tier
        take(consumer, 1)
        assert consumer.metrics()["remote-fetch-partition-tier"] == {f"{TOPIC}-0": 1}
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), cached=True) == (0, 430)


def test_without_direct_fetch_records_are_the_brokers_and_errors_nobodys() -> None:
    consumer = Consumer(OFF)
    try:
        assert consumer.tier(Message(topic="t", partition=0, offset=1)) == "broker"
        assert consumer.tier(Message(topic="t", partition=0, error=KafkaError(KafkaError._TRANSPORT))) is None
    finally:
        consumer.close()
