"""Faults of indexes and metadata events cost only speed: direct fetch over a damaged copy of a real broker's tier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.doctored_tier import DoctoredTier, Event
from tests.support.history import History
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, Row, by_consume, direct, plain, read_to_end, row, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.scenario import TransactionalTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

COMMITTED = "read_committed"
Index = list[tuple[int, int]]
Doctor = Callable[[DoctoredTier], list[Event]]


@pytest.fixture
def doctored(kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, tmp_path: Path) -> DoctoredTier:
    return DoctoredTier(kafka_broker, transactional_topic.topic, tmp_path)


@pytest.fixture(scope="module")
def expected(running_broker: KafkaBroker, transactional_topic: TransactionalTopic) -> list[Row]:
    return plain(running_broker, transactional_topic.topic, COMMITTED)


@contextmanager
def shim_over(broker: KafkaBroker, tier: DoctoredTier) -> Iterator[Shim]:
    config = ShimConfig(
        broker.bootstrap_servers,
        store=tier.store_url,
        metadata_topic=tier.metadata_topic,
        range_bytes=64 << 10,
        max_grant_bytes=64 << 10,
        metadata_consumer={"log_level": 0},
    )
    with Shim(config) as shim:
        shim.wait_ready(PATIENCE_SECONDS)
        yield shim


def judge(history: History, topic: str, expected: list[Row]) -> None:
    """Compares a recorded consumer with the plain one's rows, by all invariants."""
    check(history, Oracle.of_rows(topic, 0, expected, end=expected[-1][0] + 1))


def fresh(shim: Shim) -> dict[str, object]:
    """Settings of a consumer that returns to the store soon after a fallback."""
    return direct(shim, COMMITTED, **{"fetch.remote.fallback.backoff.ms": 1, "fetch.remote.recheck.interval.ms": 100})


def refusals(shim: Shim) -> dict[str, int]:
    return {name.partition(".")[2]: count for name, count in shim.metrics().items() if name.startswith("locations_refused.")}


def late(entries: Index) -> Index:
    return [(offset, entries[min(n + 1, len(entries) - 1)][1]) for n, (offset, _) in enumerate(entries)]


def early(entries: Index) -> Index:
    return [(offset, entries[max(0, n - 1)][1] if n else 0) for n, (offset, _) in enumerate(entries)]


def inside_batches(entries: Index) -> Index:
    return [(offset, position + 7) for offset, position in entries]


@pytest.mark.fault("F50", "F51")
@pytest.mark.parametrize(
    ("change", "found"),
    [(late, True), (early, True), (inside_batches, True), (lambda _: None, True), (lambda _: [], False)],
    ids=["late", "early", "inside-batches", "absent", "empty"],
)
def test_a_wrong_offset_index_costs_speed_only(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    doctored: DoctoredTier,
    expected: list[Row],
    change: Callable[[Index], Index | None],
    found: bool,
) -> None:
    assert doctored.change_offset_indexes(change) > 10
    doctored.publish(doctored.events)
    topic, tiered = transactional_topic.topic, [r for r in expected if r[0] <= transactional_topic.offsets.latest_tiered]
    with shim_over(kafka_broker, doctored) as shim, Consumer(fresh(shim)) as consumer:
        for place in range(0, len(tiered), len(tiered) // 12):
            consumer.assign([TopicPartition(topic, 0, tiered[place][0])])
            assert [row(message) for message in consumer.consume(3, PATIENCE_SECONDS)] == expected[place : place + 3]
        fell_back = consumer.metrics()["remote-fetch-fallbacks-total"]
        assert isinstance(fell_back, dict)
        assert bool(sum(fell_back.values())) == found, (fell_back, refusals(shim))
        if not found:
            assert total(consumer.metrics(), "remote-fetch-records-total") > 0


def with_a_lag(tier: DoctoredTier) -> list[Event]:
    return tier.events[: len(tier.events) // 2]


def with_a_gap(tier: DoctoredTier) -> list[Event]:
    return [event for n, event in enumerate(tier.events) if n % 8 not in (4, 5)]


def without_beginnings(tier: DoctoredTier) -> list[Event]:
    return [event for event in tier.events if tier.finishes(event)]


def of_a_later_version(tier: DoctoredTier) -> list[Event]:
    return [*tier.events[:6], Event(tier.partition, b"\x63\x07" + b"\0" * 40), *tier.events[6:]]


def of_garbage(tier: DoctoredTier) -> list[Event]:
    return [*tier.events[:6], Event(tier.partition, b"\xff" * 9), *tier.events[6:]]


def with_tombstones(tier: DoctoredTier) -> list[Event]:
    return [one for event in tier.events for one in (event, Event(tier.partition, None))]


def never_finished(tier: DoctoredTier) -> list[Event]:
    return [event for n, event in enumerate(tier.events) if not (tier.finishes(event) and n % 3)]


@pytest.mark.fault("F54", "F55", "F56")
@pytest.mark.parametrize(
    "doctor",
    [with_a_lag, with_a_gap, without_beginnings, of_a_later_version, of_garbage, with_tombstones, never_finished],
    ids=lambda doctor: doctor.__name__.replace("_", "-"),
)
def test_incomplete_metadata_never_give_a_false_segment(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    doctored: DoctoredTier,
    expected: list[Row],
    doctor: Doctor,
) -> None:
    doctored.publish(doctor(doctored))
    topic, history = transactional_topic.topic, History()
    with shim_over(kafka_broker, doctored) as shim:
        with recorded(Consumer, fresh(shim), history) as consumer:
            consumer.assign([TopicPartition(topic, 0, transactional_topic.offsets.log_start)])
            assert read_to_end(consumer, by_consume) == expected
        assert refusals(shim), "the fault is met"
    judge(history, topic, expected)


def read_some(consumer: RecordedConsumer, count: int) -> list[Row]:
    rows = [row(message) for message in consumer.consume(count, PATIENCE_SECONDS)]
    assert len(rows) == count
    return rows


def comes_from_the_store(shim: Shim, topic: str, expected: list[Row]) -> bool:
    """Reads everything with a new consumer. Returns whether its tiered part needed no broker."""
    with Consumer(fresh(shim)) as consumer:
        consumer.assign([TopicPartition(topic, 0, expected[0][0])])
        assert read_to_end(consumer, by_consume) == expected
        metrics = consumer.metrics()
    return metrics["remote-fetch-fallbacks-total"] == {} and total(metrics, "remote-fetch-records-total") > 0


@pytest.mark.fault("F52", "F53", "F56")
@pytest.mark.parametrize("again", [True, False], ids=["uploaded-again", "deleted"])
def test_a_segment_changed_during_a_read_is_located_again_or_left(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    doctored: DoctoredTier,
    expected: list[Row],
    again: bool,
) -> None:
    doctored.publish(doctored.events)
    topic, history = transactional_topic.topic, History()
    with shim_over(kafka_broker, doctored) as shim:
        settings = fresh(shim) | {"fetch.remote.range.bytes": 64 << 10, "fetch.remote.max.in.flight": 1}
        with recorded(Consumer, settings, history) as consumer:
            consumer.assign([TopicPartition(topic, 0, transactional_topic.offsets.log_start)])
            rows = read_some(consumer, 20)
            consumer.pause([TopicPartition(topic, 0)])  # drops records that were read ahead
            events: list[Event] = []
            for old in doctored.segments():
                new = old.renamed(uuid4())
                started, gone = RemoteLogSegmentState.DELETE_SEGMENT_STARTED, RemoteLogSegmentState.DELETE_SEGMENT_FINISHED
                finished = new.ended(RemoteLogSegmentState.COPY_SEGMENT_FINISHED)
                events += [*([new.begun, finished] if again else []), old.ended(started), old.ended(gone)]
                doctored.rename(old, new)
            if not again:
                doctored.publish(events)
            consumer.resume([TopicPartition(topic, 0)])
            if again:  # the shim gets this event while locations of the old segments are in use
                doctored.publish(events)
            rows += read_to_end(consumer, by_consume)
            metrics = consumer.metrics()
        assert rows == expected
        if again:  # whether the first read needed the broker depends on when the shim got the events
            read_again = partial(comes_from_the_store, shim, topic, expected)
            wait_until(read_again, "the segments under their new names", seconds=PATIENCE_SECONDS)
        else:
            fell_back = metrics["remote-fetch-fallbacks-total"]
            assert isinstance(fell_back, dict)
            assert sum(fell_back.values()) > 0
    judge(history, topic, expected)
