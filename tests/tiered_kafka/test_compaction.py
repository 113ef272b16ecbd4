"""Compacted topics of a cluster: what produces and cleans, and how our consumer reads what is left from the tier."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.tiered_kafka import TieredCluster
from tests.support.reading import direct, read_to_end, total
from tests.tiered_kafka.clients import plain

TOPIC = "compacted"
LEVELS = ("read_committed", "read_uncommitted")
DAY_MS = 24 * 3_600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    """With a topic of 240 records of 40 keys, half of them in transactions of which each third aborts, compacted and tiered."""
    with TieredCluster(partitions=1, segment_bytes=2500) as running:
        running.create_topic(TOPIC, 1, {"cleanup.policy": "compact"})
        names = {"none": {}, "lz4": {"transactional.id": "t"}, "zstd": {"enable.idempotence": True}}
        producers = {codec: client(running, {"compression.type": codec, **more}) for codec, more in names.items()}
        producers["lz4"].init_transactions(30)
        for turn in range(12):
            producer = producers[("none", "lz4", "zstd", "lz4")[turn % 4]]
            if in_transaction := producer is producers["lz4"]:
                producer.begin_transaction()
            for number in range(20):
                value = None if number % 9 == 8 else b"%d-%040d" % (turn, number)
                key = b"only-%d" % turn if number == 0 else b"%d" % (number * (turn % 5 + 1) % 40)
                producer.produce(TOPIC, value, key, partition=0, timestamp=1000 + turn)
                if number % 5 == 4:
                    assert producer.flush(30) == 0
            if in_transaction:
                (producer.abort_transaction if turn % 3 == 0 else producer.commit_transaction)(30)
        assert running.compact(TOPIC, roll=True) > 100
        assert running.compact(roll=True) == 0, "nothing new"
        running.tier_now(TOPIC)
        yield running


def client(cluster: TieredCluster, more: dict[str, object]) -> Producer:
    """Its batches are those of a flush, so that segments and what the cleaner leaves of them are the same in each run."""
    return Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 10_000, "log_level": 0, **more})


@pytest.fixture(scope="module")
def shim(cluster: TieredCluster) -> Iterator[Shim]:
    with Shim(ShimConfig(cluster.bootstrap_servers, store=cluster.store.url)) as running:
        assert running.wait_ready(60)
        yield running


@pytest.mark.parametrize("isolation", LEVELS)
def test_consumer_reads_a_compacted_log_from_the_tier(cluster: TieredCluster, shim: Shim, isolation: str) -> None:
    expected = plain(cluster, TOPIC, isolation)
    keys = [row[3] for row in expected]
    assert len(keys) == len(set(keys)) > 40
    with Consumer(direct(shim, isolation)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert read_to_end(consumer) == expected
        metrics = consumer.metrics()
    assert total(metrics, "remote-fetch-records-total") == len(expected)


def test_compacted_topic_takes_no_record_without_a_key(cluster: TieredCluster) -> None:
    cluster.create_topic("keyed", 1, {"cleanup.policy": "compact"})
    errors = []
    for key in (None, b"k"):
        producer = client(cluster, {})
        producer.produce("keyed", b"v", key, partition=0, on_delivery=lambda error, _: errors.append(error))
        producer.flush(30)
    assert [error and error.name() for error in errors] == ["INVALID_RECORD", None]
    assert [row[3] for row in plain(cluster, "keyed")] == [b"k"]


def test_tombstones_go_by_the_time_that_is_given(cluster: TieredCluster) -> None:
    cluster.create_topic(
        "gone", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000", "remote.storage.enable": "false"}
    )
    producer = client(cluster, {})

    def round_at(now_ms: int, *records: tuple[bytes, bytes | None]) -> tuple[int, list[bytes]]:
        for key, value in records:
            producer.produce("gone", value, key, partition=0)
        assert producer.flush(30) == 0
        return cluster.compact("gone", roll=True, now_ms=now_ms), [row[3] for row in plain(cluster, "gone")]

    assert round_at(DAY_MS, (b"a", b"1"), (b"b", b"1"), (b"a", None)) == (1, [b"b", b"a"])
    assert round_at(DAY_MS + 999, (b"c", b"1")) == (0, [b"b", b"a", b"c"])
    assert round_at(DAY_MS + 1000, (b"d", b"1")) == (1, [b"b", b"c", b"d"])


def test_topic_that_is_not_compacted_is_refused(cluster: TieredCluster) -> None:
    cluster.create_topic("deleted", 1)
    with pytest.raises(ValueError, match="of deleted does not have compact"):
        cluster.compact("deleted")
    with pytest.raises(KeyError, match="unknown"):
        cluster.compact("unknown")
