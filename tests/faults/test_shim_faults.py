"""A shim is killed, paused or restarted, or shims disagree: the broker continues, and direct fetch resumes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.faults.observed import Observed
from tests.faults.peers import Look, look_at
from tests.support import old_client
from tests.support.doctored_tier import DoctoredTier
from tests.support.history import Fired, History
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.killable_shim import KillableShim
from tests.support.reading import PATIENCE_SECONDS, Row, by_consume, direct, plain, read_to_end, row, settings, total
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.scenario import TransactionalTopic
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

COMMITTED = "read_committed"


@pytest.fixture(scope="module")
def expected(running_broker: KafkaBroker, transactional_topic: TransactionalTopic) -> list[Row]:
    return plain(running_broker, transactional_topic.topic, COMMITTED)


@pytest.fixture
def shim(kafka_broker: KafkaBroker, tmp_path: Path) -> Iterator[KillableShim]:
    with KillableShim(kafka_broker, tmp_path / "shim.log") as running:
        yield running


def beside(broker: KafkaBroker, shim: KillableShim, **more: object) -> dict[str, Any]:
    """Settings of a consumer that reads from the broker directly and requests only locations from the shim."""
    return settings(
        broker.bootstrap_servers,
        COMMITTED,
        **{
            "fetch.remote.enabled": True,
            "fetch.remote.bootstrap.servers": shim.bootstrap_servers,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allowed.hosts": shim.origin,
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            "fetch.remote.range.bytes": 64 << 10,
            "fetch.remote.buffer.memory": 4 << 20,
            "fetch.remote.max.in.flight": 1,
            "fetch.remote.fallback.backoff.ms": 1,
            "fetch.remote.recheck.interval.ms": 100,
            "fetch.remote.breaker.reset.ms": 100,
            **more,
        },
    )


def from_store(consumer: RecordedConsumer) -> int:
    return total(consumer.metrics(), "remote-fetch-records-total")


def wait_for_grants(broker: KafkaBroker, shim: KillableShim, topic: str, offset: int) -> None:
    """Waits until the shim grants locations."""
    with Consumer(beside(broker, shim, **{"fetch.remote.location.timeout.ms": 20_000})) as consumer:

        def granted() -> bool:
            consumer.assign([TopicPartition(topic, 0, offset)])
            return bool(consumer.consume(1, PATIENCE_SECONDS)) and total(consumer.metrics(), "remote-fetch-records-total") > 0

        wait_until(granted, "the shim to give locations")


def take(consumer: RecordedConsumer, count: int) -> list[Row]:
    rows = [row(message) for message in consumer.consume(count, PATIENCE_SECONDS)]
    assert len(rows) == count
    return rows


def judge(history: History, topic: str, expected: list[Row]) -> None:
    check(history, Oracle.of_rows(topic, 0, expected, end=expected[-1][0] + 1))


@pytest.mark.fault("F57")
def test_an_unreachable_shim_leaves_all_partitions_to_the_broker(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, expected: list[Row], tmp_path: Path
) -> None:
    absent, history, observed = KillableShim(kafka_broker, tmp_path / "log"), History(), Observed()
    port = int(absent.bootstrap_servers.rpartition(":")[2])
    with observed.connects(port), recorded(Consumer, beside(kafka_broker, absent), history) as consumer:
        consumer.assign([TopicPartition(transactional_topic.topic, 0, transactional_topic.offsets.log_start)])
        assert read_to_end(consumer, by_consume) == expected
        errors = consumer.metrics()["remote-fetch-errors-total"]
        assert errors.get("peer-unreachable", 0) >= 1
        assert consumer.metrics()["remote-fetch-fallbacks-total"].get("peer-unreachable", 0) >= 1
        assert from_store(consumer) == 0
    assert {one.given for one in observed.changes()} == {"ConnectionRefusedError"}
    history.add(Fired, fault="F57", times=len(observed.changes()))
    judge(history, transactional_topic.topic, expected)


def kill(shim: KillableShim) -> None:
    shim.kill()


def pause(shim: KillableShim) -> None:
    shim.pause()


@pytest.mark.fault("F57", "F58")
@pytest.mark.parametrize(
    ("strike", "fault", "look"), [(kill, "F57", Look.REFUSED), (pause, "F58", Look.SILENT)], ids=["killed", "paused"]
)
def test_a_shim_that_dies_during_a_read_costs_speed_only(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    expected: list[Row],
    shim: KillableShim,
    strike: Callable[[KillableShim], None],
    fault: str,
    look: Look,
) -> None:
    topic, start, history = transactional_topic.topic, transactional_topic.offsets.log_start, History()
    wait_for_grants(kafka_broker, shim, topic, start)
    short = {f"fetch.remote.{what}.timeout.ms": 500 for what in ("location", "read", "connect")}
    with recorded(Consumer, beside(kafka_broker, shim, **short), history) as consumer:
        rows: list[Row] = []
        while not from_store(consumer):  # the short time-outs may have expired at first on a loaded machine
            consumer.assign([TopicPartition(topic, 0, start)])
            rows = take(consumer, 20)
        assert look_at(shim.bootstrap_servers, seconds=PATIENCE_SECONDS) is Look.ANSWERED
        strike(shim)
        assert look_at(shim.bootstrap_servers) is look
        history.add(Fired, fault=fault)
        rows += read_to_end(consumer, by_consume)
        assert rows == expected
        assert total(consumer.metrics(), "broker-fetch-records-total") > 0
    judge(history, topic, expected)


@pytest.mark.fault("F58")
def test_a_repeatedly_restarted_shim_is_used_again_each_time(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, expected: list[Row], shim: KillableShim
) -> None:
    topic, start, history = transactional_topic.topic, transactional_topic.offsets.log_start, History()
    patient = {"fetch.remote.location.timeout.ms": 20_000, "fetch.remote.read.timeout.ms": 20_000}
    with recorded(Consumer, beside(kafka_broker, shim, **patient), history) as consumer:
        for _ in range(3):
            wait_for_grants(kafka_broker, shim, topic, start)
            consumer.assign([TopicPartition(topic, 0, start)])
            before = from_store(consumer)
            rows = take(consumer, 30)
            while from_store(consumer) == before:  # a back-off after its last stop may still be in progress
                consumer.seek(TopicPartition(topic, 0, start))
                rows = take(consumer, 30)
            shim.kill()
            assert look_at(shim.bootstrap_servers) is Look.REFUSED
            history.add(Fired, fault="F58")
            shim.start()
            assert rows + read_to_end(consumer, by_consume) == expected
    assert shim.lives == 4
    judge(history, topic, expected)


@pytest.mark.fault("F61")
def test_two_shims_with_different_tiers_give_one_log(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, expected: list[Row], tmp_path: Path
) -> None:
    """The second shim has only half of the tier, and takes over while URLs of the first are in use."""
    topic, history = transactional_topic.topic, History()
    behind = DoctoredTier(kafka_broker, topic, tmp_path)
    behind.publish(behind.events[: len(behind.events) // 2])
    quiet = {"metadata_consumer": {"log_level": 0}, "range_bytes": 64 << 10, "max_grant_bytes": 64 << 10}
    whole = ShimConfig(kafka_broker.bootstrap_servers, store=kafka_broker.store_url, **quiet)
    half = ShimConfig(kafka_broker.bootstrap_servers, store=behind.store_url, metadata_topic=behind.metadata_topic, **quiet)
    with Shim(half) as second, Shim(whole) as first:
        assert first.wait_ready(PATIENCE_SECONDS)
        assert second.wait_ready(PATIENCE_SECONDS)
        origins = [str(shim.origin_url).partition("//")[2] for shim in (first, second)]
        both = {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "fetch.remote.bootstrap.servers": f"{first.bootstrap_servers},{second.bootstrap_servers}",
            "remote.storage.fetcher.allowed.hosts": ",".join(origins),
            "fetch.remote.range.bytes": 64 << 10,
            "fetch.remote.max.in.flight": 1,
            "fetch.remote.fallback.backoff.ms": 1,
            "fetch.remote.recheck.interval.ms": 100,
        }
        with recorded(Consumer, direct(first, COMMITTED, **both), history) as consumer:
            start = transactional_topic.offsets.log_start
            consumer.assign([TopicPartition(topic, 0, start)])
            take(consumer, 20)
            assert first.metrics()["locations_granted"] > 0
            first.stop()
            before, rows = second.metrics().get("locations_granted", 0), []
            while second.metrics().get("locations_granted", 0) == before:
                consumer.seek(TopicPartition(topic, 0, start))
                rows = take(consumer, 20)
            rows += read_to_end(consumer, by_consume)
            assert rows == expected
        assert [name for name in second.metrics() if name.startswith("locations_refused")], "the second knows less"
    judge(history, topic, expected)


@pytest.mark.fault("F61")
def test_an_old_client_reads_directly_through_a_new_shim(
    kafka_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    expected: list[Row],
    shim: KillableShim,
    tmp_path: Path,
) -> None:
    topic, start, journal = transactional_topic.topic, transactional_topic.offsets.log_start, tmp_path / "old.journal"
    wait_for_grants(kafka_broker, shim, topic, start)
    result = old_client.read(
        {
            "bootstrap.servers": shim.bootstrap_servers,
            "group.id": "old",
            "isolation.level": COMMITTED,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.remote.enabled": True,
            "fetch.remote.location.timeout.ms": 20_000,
            "fetch.remote.read.timeout.ms": 20_000,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allowed.hosts": shim.origin,
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
        },
        topic,
        start,
        journal,
    )
    assert result["package"].startswith(str(old_client.OLD_CLIENT))
    assert total(result["metrics"], "remote-fetch-records-total") > 0
    assert result["metrics"]["remote-fetch-fallbacks-total"] == {}
    judge(History.merged(journal), topic, expected)


@pytest.mark.fault("F61")
def test_a_new_client_reads_directly_through_an_old_shim(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, expected: list[Row], tmp_path: Path
) -> None:
    topic, start, history = transactional_topic.topic, transactional_topic.offsets.log_start, History()
    with KillableShim(kafka_broker, tmp_path / "shim.log", environment=old_client.environment()) as old:
        assert old.log.read_text().startswith(str(old_client.OLD_CLIENT))
        wait_for_grants(kafka_broker, old, topic, start)
        patient = {"fetch.remote.location.timeout.ms": 20_000, "fetch.remote.read.timeout.ms": 20_000}
        with recorded(Consumer, beside(kafka_broker, old, **patient), history) as consumer:
            consumer.assign([TopicPartition(topic, 0, start)])
            assert read_to_end(consumer, by_consume) == expected
            assert from_store(consumer) > 0
            assert consumer.metrics()["remote-fetch-fallbacks-total"] == {}
    judge(history, topic, expected)
