"""Clients produce to a tiered cluster and read it back, through the brokers and directly from its tier."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentState
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.tiered_kafka import TieredCluster
from tests.support.locations import ManualClock
from tests.support.reading import direct, read_to_end, settings, total
from tests.tiered_kafka.clients import plain, produce, values

ISOLATION = ("read_committed", "read_uncommitted")


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, segment_bytes=4096) as running:
        yield running


@pytest.mark.parametrize("more", [{}, {"enable.idempotence": True, "compression.type": "zstd"}], ids=["plain", "idempotent"])
def test_plain_consumer_reads_both_tiers(cluster: TieredCluster, more: dict[str, object]) -> None:
    topic = f"both-{len(more)}"
    produce(cluster, topic, 300, **more)
    assert cluster.tier_now(topic, roll=True) > 1
    produce(cluster, topic, 50, **more)
    rows = plain(cluster, topic)
    assert values(rows) == [*range(300), *range(50)]
    assert [row[0] for row in rows] == list(range(350))
    assert rows[7][1:] == ((1, 1007), 0, b"7", b"%060d" % 7, [("n", b"7")])


@pytest.mark.parametrize("isolation", ISOLATION)
def test_consumer_reads_directly_through_a_shim(cluster: TieredCluster, isolation: str) -> None:
    topic = f"direct-{isolation}"
    produce(cluster, topic, 300)
    cluster.tier_now(topic, roll=True)
    produce(cluster, topic, 50)
    with Shim(ShimConfig(cluster.bootstrap_servers, store=cluster.store.url)) as shim:
        assert shim.wait_ready(60)
        with Consumer(direct(shim, isolation)) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            rows = read_to_end(consumer)
            metrics = consumer.metrics()
    assert rows == plain(cluster, topic, isolation)
    assert total(metrics, "remote-fetch-records-total") == 300
    assert metrics["remote-fetch-fallbacks-total"] == {}


def test_consumer_follows_the_metadata_topic_itself(cluster: TieredCluster) -> None:
    produce(cluster, "followed", 100)
    cluster.tier_now("followed", roll=True)
    own = {
        "fetch.remote.enabled": True,
        "fetch.remote.location.source": "metadata-topic",
        "remote.storage.store.url": cluster.store.url,
        "fetch.remote.location.timeout.ms": 60_000,
    }
    with Consumer(settings(cluster.bootstrap_servers, "read_committed", **own)) as consumer:
        consumer.assign([TopicPartition("followed", 0, OFFSET_BEGINNING)])
        rows = read_to_end(consumer)
        metrics = consumer.metrics()
    assert rows == plain(cluster, "followed")
    assert total(metrics, "remote-fetch-records-total") == 100


def test_sealed_segments_alone_are_copied(cluster: TieredCluster) -> None:
    cluster.create_topic("sealed", 1, {"local.retention.bytes": "-1"})
    produce(cluster, "sealed", 20)
    assert cluster.tier_now("sealed") == 0
    assert cluster.tier_now("sealed", roll=True) == 1
    assert cluster.tier_now("sealed", roll=True) == 0


def test_active_segments_stay_where_they_are_to_be_kept(cluster: TieredCluster) -> None:
    cluster.create_topic("kept", 1)
    produce(cluster, "kept", 20)
    assert cluster.tier_now("kept", keep_active=True) == 0
    assert cluster.tier_now("kept") == 1


def test_metadata_records_are_observed_and_reads_are_counted(tmp_path: Path) -> None:
    records: list[bytes] = []
    with TieredCluster(tmp_path, partitions=1, observe=records.append) as observed:
        produce(observed, "orders", 20)
        observed.tier_now(roll=True)
        states = [RemoteLogMetadataSerde().deserialize(record).state for record in records]
        assert states == [RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED]
        assert observed.tier_reads() == {"broker_tier_reads": 0, "broker_tier_bytes": 0}
        assert values(plain(observed, "orders")) == [*range(20)]
        assert min(observed.tier_reads().values()) > 0


def test_special_answers_cost_a_plain_consumer_nothing(cluster: TieredCluster) -> None:
    produce(cluster, "throttled", 100)
    cluster.tier_now("throttled", roll=True)
    for answer in ("quota-exceeded", "timed-out"):
        cluster.answer_reads(answer, 2)
    assert values(plain(cluster, "throttled")) == [*range(100)]
    with pytest.raises(ValueError, match="never"):
        cluster.answer_reads("never")


def test_copy_quota_leaves_segments_to_the_next_call() -> None:
    clock = ManualClock()
    with TieredCluster(partitions=1, segment_bytes=4096, copy_bytes_per_second=5000, clock=clock) as cluster:
        produce(cluster, "slow", 300)
        copied = []
        for _ in range(4):
            copied.append(cluster.tier_now("slow"))
            clock.now += 1
        assert copied == [2, 0, 2, 1]  # each of about 3,100 bytes
        assert values(plain(cluster, "slow")) == [*range(300)]


def test_clients_follow_the_leader_to_another_broker(tmp_path: Path) -> None:
    with TieredCluster(tmp_path / "tier", partitions=1, brokers=2) as two:
        produce(two, "moved", 20)
        two.elect("moved")
        produce(two, "moved", 20)
        with pytest.raises(KeyError, match="broker 7"):
            two.elect("moved", broker=7)
        rows = plain(two, "moved")
        assert [row[2] for row in rows] == [0] * 20 + [1] * 20
        two.tier_now(roll=True)
    assert (tmp_path / "tier").is_dir()
    assert two.store.objects()


def test_temporary_tier_goes_with_the_cluster() -> None:
    cluster = TieredCluster(partitions=1)
    with pytest.raises(RuntimeError, match="start"):
        _ = cluster.bootstrap_servers
    with cluster:
        assert cluster.directory.is_dir()
    assert not cluster.directory.exists()
    cluster.close()
    with pytest.raises(RuntimeError, match="closed"):
        cluster.tier_now()


def test_taken_port_raises(cluster: TieredCluster) -> None:
    port = int(cluster.bootstrap_servers.rpartition(":")[2])
    second = TieredCluster(port=port)
    with pytest.raises(OSError, match="in use"):
        second.start()
    assert not second.directory.exists()


def test_directory_that_is_a_file_raises(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        TieredCluster(tmp_path / "file").start()


@pytest.mark.parametrize(
    "wrong",
    [
        {"layout": "zip"},
        {"partitions": 0},
        {"brokers": 0},
        {"fetch_bytes_per_second": 0},
        {"topic_settings": {"color": "red"}},
    ],
    ids=lambda one: next(iter(one)),
)
def test_refuses_unknown_settings(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong)) if "color" not in str(wrong) else "color"):
        TieredCluster(**wrong)
