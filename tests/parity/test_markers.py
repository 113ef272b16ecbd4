"""Positions, commits and lag pass transaction markers and aborted records, with and without a tier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_STORED, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from tests.parity.recording import PATIENCE_SECONDS, by_consume, by_poll, is_end
from tests.parity.stage import Run, Stage, play
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import direct, settings, shim_before
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

COMMITTED, END = 40, 561
TIERS = ("local", "tiered")


def producer_of(broker: KafkaBroker, **more: Any) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0, "linger.ms": 2, **more})


def write(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.produce(topic, b"record %d".ljust(150, b".") % number, partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def transaction(producer: Producer, topic: str, count: int, *, commit: bool) -> None:
    producer.begin_transaction()
    write(producer, topic, count)
    (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def marked(running_broker: KafkaBroker) -> Iterator[dict[str, str]]:
    """A topic for each of TIERS: twenty committed transactions of two records, then an aborted one of 500 records."""
    topics = {tier: f"marked-{tier}-{uuid4().hex[:8]}" for tier in TIERS}
    for tier, topic in topics.items():
        running_broker.create_topic(topic, tiered=tier == "tiered", **({} if tier == "tiered" else {"retention_ms": "-1"}))
        producer = producer_of(running_broker, **{"transactional.id": topic, "batch.num.messages": 20})
        producer.init_transactions(PATIENCE_SECONDS)
        for _ in range(COMMITTED // 2):
            transaction(producer, topic, 2, commit=True)
        transaction(producer, topic, 500, commit=False)
        wait_until(lambda topic=topic: running_broker.offsets(topic).last_stable == END, f"the markers of {topic}")
    tiered = running_broker.wait_until_tiered(topics["tiered"])
    assert COMMITTED * 3 // 2 < tiered.earliest_local < END, "the aborted transaction lies on both tiers"
    yield topics
    for topic in topics.values():
        running_broker.delete_topic(topic)


@pytest.fixture
def stage(kafka_broker: KafkaBroker) -> Iterator[Stage]:
    """The real broker with a shim in front, without the topics of other scenarios."""
    with shim_before(kafka_broker) as shim:
        assert shim.origin_url is not None
        yield Stage(shim.bootstrap_servers, kafka_broker.bootstrap_servers, shim.origin_url.partition("//")[2], {})


def lag(run: Run, consumer: Any, place: TopicPartition) -> None:
    """Records the consumer's lag as an event."""
    _, high = consumer.inner.get_watermark_offsets(place, timeout=30)
    (at,) = consumer.inner.position([place])
    run.note("lag", high - at.offset)


@pytest.mark.parametrize("tier", TIERS)
def test_position_commit_and_lag_at_the_end_pass_aborted_records(stage: Stage, marked: dict[str, str], tier: str) -> None:
    place = TopicPartition(marked[tier], 0)

    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_commit=True, auto_commit_interval_ms=600_000)
        consumer.assign([TopicPartition(marked[tier], 0, 0)])
        consumer.read_to_ends()
        consumer.position([place])
        lag(run, consumer, place)
        consumer.commit(asynchronous=False)
        run.committed(place)
        assert run.events[-1][2][0][2] == END
        consumer.close()
        run.committed(place)

    play(stage, scenario, reads_the_tier=tier == "tiered")


@pytest.mark.parametrize("tier", TIERS)
def test_close_commits_past_aborted_records_after_the_last_record(stage: Stage, marked: dict[str, str], tier: str) -> None:
    place = TopicPartition(marked[tier], 0)

    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_commit=True, auto_commit_interval_ms=600_000, enable_partition_eof=False)
        consumer.assign([TopicPartition(marked[tier], 0, 0)])
        consumer.read(COMMITTED)
        consumer.read_until(lambda: consumer.inner.position([place])[0].offset == END)
        consumer.close()
        run.committed(place)
        assert run.events[-1][2][0][2] == END

    play(stage, scenario, reads_the_tier=tier == "tiered")


@pytest.mark.parametrize("tier", TIERS)
def test_no_offset_is_stored_at_a_marker_if_the_application_stores(stage: Stage, marked: dict[str, str], tier: str) -> None:
    place = TopicPartition(marked[tier], 0)

    def scenario(run: Run) -> None:
        consumer = run.open(enable_auto_commit=True, enable_auto_offset_store=False, auto_commit_interval_ms=600_000)
        consumer.assign([TopicPartition(marked[tier], 0, 0)])
        messages = consumer.read_to_ends()
        consumer.position([place])
        consumer.refuses("commit", asynchronous=False)
        run.committed(place)
        consumer.store_offsets(message=messages[5])
        consumer.close()
        run.committed(place)

    play(stage, scenario, reads_the_tier=tier == "tiered")


@pytest.mark.parametrize("take", [by_poll, by_consume])
@pytest.mark.parametrize("kind", ["plain", "ours"])
@pytest.mark.parametrize("tiered", [False, True])
def test_no_record_is_lost_if_retention_deletes_the_records_read(
    kafka_broker: KafkaBroker, kind: str, take: Any, tiered: bool
) -> None:
    """Ten records in one transaction are read and deleted, and five more are written before the application returns."""
    topic = f"expired-{uuid4().hex[:8]}"
    # The ten records fill a segment. The marker begins another one, so the records move to the tier.
    kafka_broker.create_topic(topic, tiered=tiered, **({"segment_bytes": 1_700} if tiered else {"retention_ms": "-1"}))
    transactional = producer_of(kafka_broker, **{"transactional.id": topic, "linger.ms": 500})
    transactional.init_transactions(PATIENCE_SECONDS)
    transaction(transactional, topic, 10, commit=True)
    wait_until(lambda: kafka_broker.offsets(topic).last_stable == 11, "the marker")
    if tiered:
        wait_until(lambda: kafka_broker.offsets(topic).latest_tiered == 9, "the records to be tiered")

    def read(start: int) -> list[int]:
        more = {"group.id": topic, "enable.auto.commit": True, "auto.offset.reset": "latest"}
        make: Any = Consumer if kind == "ours" else confluent_kafka.Consumer
        made = direct(shim, "read_committed") if kind == "ours" else settings(shim.bootstrap_servers, "read_committed")
        consumer = make(made | more)
        consumer.assign([TopicPartition(topic, 0, start)])
        deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
        offsets: list[int] = []
        ended = False
        direct_fetch = tiered and kind == "ours" and start == 0
        while not ended:
            assert not deadline.expired(), f"only {offsets} came"
            for message in take(consumer, 100):
                ended = is_end(message)
                offsets += [] if message.error() is not None else [message.offset()]
        assert not direct_fetch or consumer.metrics()["remote-fetch-records-total"] == 10
        consumer.close()
        return offsets

    def known() -> bool:
        with Consumer(direct(shim, "read_committed")) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert len(consumer.consume(10, PATIENCE_SECONDS)) == 10
            return consumer.metrics()["remote-fetch-records-total"] == 10

    with shim_before(kafka_broker) as shim:
        if tiered:
            wait_until(known, "the shim to know the tier")
        assert read(0) == list(range(10))
        kafka_broker.delete_records(topic, 11)
        write(producer_of(kafka_broker), topic, 5)
        assert read(OFFSET_STORED) == [11, 12, 13, 14, 15]
    kafka_broker.delete_topic(topic)
