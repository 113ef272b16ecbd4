"""Without a shim the client follows the metadata topic or lists the store, and gives the plain consumer's records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, Message, Producer, TopicPartition
from kafka_remote_fetchers.directory_store import DirectoryStore

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.metadata_topic import MetadataTopicTier
from kafka_remote_client.location.source import locate_one
from kafka_remote_client.location.tier_source import TierLocationSource
from kafka_remote_client.model import NotRemote
from kafka_remote_client.remote_log.follower import ClientConfig
from kafka_remote_client.remote_log.local_tiered_storage import LocalTieredStorageLayout
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from tests.support.kafka_broker import KafkaBroker
from tests.support.questions import question
from tests.support.reading import PATIENCE_SECONDS, PATIENT, by_consume, by_poll, plain, read_to_end, settings, total
from tests.support.scenario import TransactionalTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

SOURCES = ("metadata-topic", "listing")
ISOLATION = ("read_committed", "read_uncommitted")
"""Nothing falls back to the broker because the machine is busy, or the metadata topic has not been read yet."""


def reading(broker: KafkaBroker, source: str, isolation: str, store: str | None = None, **more: object) -> dict[str, Any]:
    """Returns a consumer of a plain broker that resolves locations itself."""
    own = {
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": source,
        "remote.storage.store.url": store or broker.store_url,
    }
    return settings(broker.bootstrap_servers, isolation, **own, **{**PATIENT, **more})


@pytest.mark.parametrize("take", [by_poll, by_consume])
@pytest.mark.parametrize("isolation", ISOLATION)
@pytest.mark.parametrize("source", SOURCES)
def test_records_equal_the_plain_consumers_and_come_from_the_store(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    source: str,
    isolation: str,
    take: Callable[[confluent_kafka.Consumer], list[Message]],
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, isolation)
    local = kafka_broker.offsets(topic).earliest_local
    with Consumer(reading(kafka_broker, source, isolation)) as consumer:
        consumer.subscribe([topic])
        rows = read_to_end(consumer, take)
        metrics = consumer.metrics()
    assert rows == expected
    below = sum(1 for offset, *_ in expected if offset < local)
    assert below > 1000
    assert total(metrics, "remote-fetch-records-total") >= below
    assert metrics["remote-fetch-fallbacks-total"] == {}
    assert total(metrics, "remote-fetch-handovers-total") == 1


@pytest.mark.parametrize("source", SOURCES)
def test_a_configured_fetcher_reads_the_located_ranges(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, source: str
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, "read_committed")
    fetcher: dict[str, Any] = {"remote.storage.fetcher.class": "local"}
    with Consumer(reading(kafka_broker, source, "read_committed", **fetcher)) as consumer:
        for start in (OFFSET_BEGINNING, transactional_topic.deleted_before + 111, transactional_topic.local_abort_first):
            consumer.assign([TopicPartition(topic, 0, start)])
            assert read_to_end(consumer) == [one for one in expected if one[0] >= start]
        assert consumer.metrics()["remote-fetch-fallbacks-total"] == {}


@pytest.mark.parametrize("isolation", ISOLATION)
def test_a_listing_alone_gives_decided_records_and_the_broker_the_rest(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, isolation: str
) -> None:
    topic, start = transactional_topic.topic, transactional_topic.deleted_before
    expected = plain(kafka_broker, topic, isolation, start)
    no_broker: dict[str, Any] = {"fetch.remote.listing.broker": False}
    alone = reading(kafka_broker, "listing", isolation, **no_broker)
    with Consumer(alone) as consumer:
        consumer.assign([TopicPartition(topic, 0, start)])
        assert read_to_end(consumer) == expected
        metrics = consumer.metrics()
    # The transaction with a local marker counts as open: no broker was asked.
    end = transactional_topic.local_abort_first if isolation == "read_committed" else transactional_topic.offsets.latest_tiered
    assert total(metrics, "remote-fetch-records-total") >= sum(1 for offset, *_ in expected if offset < end)
    fallbacks = metrics["remote-fetch-fallbacks-total"]
    assert isinstance(fallbacks, dict)
    assert set(fallbacks) == ({"undecided"} if isolation == "read_committed" else set())


def test_partitions_that_are_not_ready_are_served_by_the_broker(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic
) -> None:
    topic = transactional_topic.topic
    lagging: dict[str, Any] = {"fetch.remote.metadata.topic": f"nothing-{uuid4()}", "fetch.remote.location.timeout.ms": 1000}
    with Consumer(reading(kafka_broker, "metadata-topic", "read_committed", **lagging)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_to_end(consumer) == plain(kafka_broker, topic, "read_committed")
        assert total(consumer.metrics(), "remote-fetch-records-total") == 0


def test_a_partition_that_is_not_ready_has_that_reason(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic
) -> None:
    clock = SystemClock()
    facts = transactional_topic
    store, layout = DirectoryStore(kafka_broker.store_url), LocalTieredStorageLayout()
    leaders = PartitionLeaders(kafka_broker.bootstrap_servers, client_id="tests", clock=clock)
    config: ClientConfig = {"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0}
    resolver = RemoteSegmentResolver(store, layout)
    nothing = MetadataTopicTier(config, resolver, clock=clock, topic=f"nothing-{uuid4()}")
    with closing(TierLocationSource(leaders, nothing, store, layout, clock=clock)) as source:
        answer = locate_one(source, question(facts.topic, 0, facts.offsets.log_start), Deadline(clock, 60))
    assert isinstance(answer, NotRemote)
    assert (answer.reason, answer.offsets.log_start) == ("metadata-not-ready", facts.offsets.log_start)


@pytest.mark.parametrize(("source", "reason"), [("metadata-topic", "object-not-found"), ("listing", "nothing-tiered")])
def test_a_store_without_the_tier_costs_speed_only(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, tmp_path: Path, source: str, reason: str
) -> None:
    topic = transactional_topic.topic
    expected = plain(kafka_broker, topic, "read_committed")
    with Consumer(reading(kafka_broker, source, "read_committed", tmp_path.as_uri())) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_to_end(consumer) == expected
        metrics = consumer.metrics()
    assert total(metrics, "remote-fetch-records-total") == 0
    assert set(metrics["remote-fetch-fallbacks-total"]) == {reason}


def write(broker: KafkaBroker, topic: str, what: str) -> None:
    """Writes some segments of records with ``what``, and waits until they are tiered."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 20, "log_level": 0})
    for number in range(600):
        producer.produce(topic, f"{what} {number}".ljust(200, "."), partition=0)
    assert producer.flush(60) == 0
    broker.wait_until_tiered(topic)


@pytest.mark.parametrize("source", SOURCES)
def test_a_recreated_topic_is_not_read_from_the_old_ones_tier(kafka_broker: KafkaBroker, source: str) -> None:
    topic = f"again-{uuid4().hex}"
    kafka_broker.create_topic(topic, segment_bytes=20_000)
    write(kafka_broker, topic, "old")
    with Consumer(reading(kafka_broker, source, "read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        old = read_to_end(consumer)
        assert {value.split()[0] for _, _, _, _, value, _ in old} == {b"old"}
        assert total(consumer.metrics(), "remote-fetch-records-total") > 0
    kafka_broker.delete_topic(topic)
    recreate(kafka_broker, topic)
    write(kafka_broker, topic, "new")
    with Consumer(reading(kafka_broker, source, "read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        new = read_to_end(consumer)
        metrics = consumer.metrics()
    assert new == plain(kafka_broker, topic, "read_committed")
    assert {value.split()[0] for _, _, _, _, value, _ in new} == {b"new"}
    assert total(metrics, "remote-fetch-records-total") > 0
    assert metrics["remote-fetch-fallbacks-total"] == {}


def recreate(broker: KafkaBroker, topic: str) -> None:
    """Creates the topic when the broker has finished its deletion."""

    def created() -> bool:
        try:
            broker.create_topic(topic, segment_bytes=20_000)
        except confluent_kafka.KafkaException:
            return False
        return True

    wait_until(created, f"{topic} to be gone")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.fault("F65")
def test_a_topic_that_is_recreated_during_a_read_is_read_from_its_start(kafka_broker: KafkaBroker, source: str) -> None:
    """The new log is shorter than the position, so that a plain consumer's fetch is out of range."""
    topic = f"again-{uuid4().hex}"
    kafka_broker.create_topic(topic, segment_bytes=20_000)
    write(kafka_broker, topic, "old")
    new: list[int | None] = []
    with Consumer(reading(kafka_broker, source, "read_committed")) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert len(consumer.consume(30, PATIENCE_SECONDS)) == 30
        assert total(consumer.metrics(), "remote-fetch-records-total") >= 30
        kafka_broker.delete_topic(topic)
        recreate(kafka_broker, topic)
        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
        deadline = Deadline(SystemClock(), 2 * PATIENCE_SECONDS)
        while len(new) < 20 and not deadline.expired():
            producer.produce(topic, b"new", partition=0)
            producer.flush(60)
            new += [one.offset() for one in consumer.consume(20, 0.2) if one.error() is None and one.value() == b"new"]
    assert new[:20] == [*range(20)]
