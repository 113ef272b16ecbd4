"""Direct fetch through the shim gives the records that a plain consumer gets from a real broker, and from the right tier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import (
    PATIENCE_SECONDS,
    by_consume,
    by_poll,
    direct,
    plain,
    read_to_end,
    row,
    settings,
    shim_before,
    total,
)
from tests.support.scenario import TransactionalTopic

pytestmark = pytest.mark.broker


@pytest.mark.parametrize("take", [by_poll, by_consume])
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_direct_fetch_equals_the_broker_and_reads_the_tier_from_the_store(
    restartable_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    isolation: str,
    take: Callable[[confluent_kafka.Consumer], list[Message]],
) -> None:
    broker, topic = restartable_broker, transactional_topic.topic
    expected = plain(broker, topic, isolation)
    local = broker.offsets(topic).earliest_local
    before = broker.remote_fetch_requests(topic)
    with shim_before(broker) as shim:
        with Consumer(direct(shim, isolation)) as consumer:
            consumer.subscribe([topic])
            rows = read_to_end(consumer, take)
            metrics = consumer.metrics()
        probes = shim.metrics().get("remote_probes", 0)
    assert rows == expected
    below = sum(1 for offset, *_ in expected if offset < local)
    assert below > 1000
    assert total(metrics, "remote-fetch-records-total") >= below
    assert total(metrics, "remote-fetch-records-total") + total(metrics, "broker-fetch-records-total") == len(rows)
    assert metrics["remote-fetch-fallbacks-total"] == {}
    assert total(metrics, "remote-fetch-handovers-total") == 1
    assert broker.remote_fetch_requests(topic) - before == probes


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_any_start_offset_gives_the_brokers_suffix(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, shim: Shim, isolation: str
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, isolation)
    start, end = transactional_topic.deleted_before, transactional_topic.offsets.latest_tiered
    with Consumer(direct(shim, isolation)) as consumer:
        for offset in range(start, end, max(1, (end - start) // 12)):
            before = total(consumer.metrics(), "remote-fetch-records-total")
            consumer.assign([TopicPartition(topic, 0, offset)])
            assert read_to_end(consumer, by_consume) == [r for r in expected if r[0] >= offset]
            tiered = sum(1 for r in expected if offset <= r[0] <= end)
            assert total(consumer.metrics(), "remote-fetch-records-total") - before >= tiered
        assert consumer.metrics()["remote-fetch-fallbacks-total"] == {}


@pytest.mark.fault("S10")
def test_an_unmodified_consumer_works_through_the_shim(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, shim: Shim
) -> None:
    topic = transactional_topic.topic
    consumer = confluent_kafka.Consumer(settings(shim.bootstrap_servers, "read_committed"))
    try:
        consumer.subscribe([topic])
        assert read_to_end(consumer, by_consume) == plain(kafka_broker, topic, "read_committed")
    finally:
        consumer.close()


def test_a_store_that_becomes_unreadable_during_a_read_costs_speed_only(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, tmp_path: Path
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, "read_committed")
    # The shim gets its own path to the tier, so that it can vanish for direct reads while the broker keeps it.
    mounted = tmp_path / "mounted"
    kafka_broker.copy_of_tier(topic, mounted)
    config = ShimConfig(
        bootstrap_servers=kafka_broker.bootstrap_servers, store=mounted.as_uri(), range_bytes=64 << 10, max_grant_bytes=64 << 10
    )
    with Shim(config) as shim, Consumer(direct(shim, "read_committed", **{"fetch.remote.range.bytes": 64 << 10})) as consumer:
        assert shim.wait_ready(PATIENCE_SECONDS)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        rows = [row(message) for message in consumer.consume(10, PATIENCE_SECONDS)]
        assert total(consumer.metrics(), "remote-fetch-records-total") >= 10
        mounted.rename(tmp_path / "gone")
        rows += read_to_end(consumer, by_consume)
        metrics = consumer.metrics()
    assert rows == expected
    fallbacks = metrics["remote-fetch-fallbacks-total"]
    assert isinstance(fallbacks, dict)
    assert sum(fallbacks.values()) >= 1
    assert set(fallbacks) <= {"not-found", "not-granted", "unavailable", "breaker-open"}
