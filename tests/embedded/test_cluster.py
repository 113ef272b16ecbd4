"""The embedded cluster behaves as one broker with tiered storage, for ordinary clients and for clients with direct fetch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.model import (
    IsolationLevel,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
    SegmentLocation,
)
from kafka_remote_client.model import RemoteLogSegmentState as State
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.testing import FixedLatency, StoreModel
from tests.support.granted import asked, fetched, granted_rows, signed_url
from tests.support.kafka_client import RawClient
from tests.support.live_store import LiveStoreModel
from tests.support.locations import ManualClock

pytestmark = pytest.mark.embedded

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Topic "orders": 200 records per codec and partition; segments of 8 KB, removed from the broker once archived."""
    with EmbeddedCluster(tmp_path_factory.mktemp("tier"), segment_bytes=8_000, range_bytes=64 << 10, expire_local=True) as made:
        for codec in CODECS:
            for partition in range(4):
                made.produce("orders", records(codec, partition), partition=partition, codec=codec)
            made.archive()
        yield made


def records(codec: str, partition: int) -> list[tuple[bytes | None, bytes | None]]:
    return [
        (b"%d" % (number % 10), None if number % 50 == 0 else f"{codec}-{partition}-{number} ".encode() * (number % 20))
        for number in range(RECORDS)
    ]


def expected(partition: int) -> list[tuple[bytes | None, bytes | None]]:
    return [record for codec in CODECS for record in records(codec, partition)]


def offsets(cluster: EmbeddedCluster, partition: int = 0) -> PartitionOffsets:
    clock = SystemClock()
    source = BrokerLocationSource(cluster.bootstrap_servers, client_id="tests", clock=clock)
    try:
        return source.offsets("orders", partition, Deadline(clock, 20))
    finally:
        source.close()


def test_a_group_consumer_reads_both_tiers_from_the_beginning(cluster: EmbeddedCluster) -> None:
    before = cluster.metrics().get("broker_tier_reads", 0)
    config = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "plain",
        "auto.offset.reset": "earliest",
        "log_level": 0,
    }
    consumer = Consumer(config)
    got: dict[int, list[tuple[int, Any, Any]]] = {partition: [] for partition in range(4)}
    try:
        consumer.subscribe(["orders"])
        while sum(map(len, got.values())) < 4 * len(CODECS) * RECORDS:
            for message in consumer.consume(500, 1.0):
                assert message.error() is None
                got[message.partition()].append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()
    for partition, rows in got.items():
        assert rows == [(offset, *record) for offset, record in enumerate(expected(partition))]
    assert cluster.metrics()["broker_tier_reads"] > before
    assert cluster.metrics()["origin_requests"] == cluster.metrics().get("origin_status.206", 0) + cluster.metrics().get(
        "origin_status.403", 0
    ), "the broker's own reads do not go through the store"


def test_granted_records_are_the_produced_ones(cluster: EmbeddedCluster) -> None:
    for partition in range(4):
        rows = list(granted_rows(cluster.bootstrap_servers, "orders", 0, IsolationLevel.READ_COMMITTED, partition=partition))
        tiered = offsets(cluster, partition).latest_tiered + 1
        assert [(row[4], row[5]) for row in rows] == expected(partition)[:tiered]
        assert tiered > 500


def test_a_url_opens_its_range_only(cluster: EmbeddedCluster) -> None:
    location = asked(cluster.bootstrap_servers, "orders", 100)
    assert isinstance(location, SegmentLocation)
    assert location.range_signed
    granted = location.ranges[0]
    assert fetched(granted).status_code == 206
    url = signed_url(granted)
    tampered = url[:-1] + ("0" if url[-1] != "0" else "1")
    assert fetched(granted, tampered).status_code == 403
    assert requests.get(url, headers={"Range": "bytes=0-1"}, timeout=20).status_code == 403
    assert requests.get(url, timeout=20).status_code == 403
    assert url.startswith(cluster.origin_url)


def test_offsets_are_the_ends_of_both_tiers(cluster: EmbeddedCluster) -> None:
    known = offsets(cluster)
    assert (known.log_start, known.high_watermark) == (0, len(CODECS) * RECORDS)
    assert known.earliest_local == known.latest_tiered + 1
    assert 500 < known.earliest_local <= known.high_watermark


def test_clients_have_the_address_and_client_id_of_each_connection(cluster: EmbeddedCluster) -> None:
    before = len(cluster.clients())
    with RawClient(cluster.bootstrap_servers) as one, RawClient(cluster.bootstrap_servers) as other:
        expected = []
        for client, name in ((one, "one"), (other, "other")):
            client.send(client.request(ApiKey.API_VERSIONS, 3, 1, b"\x02a\x02b\x00", client_id=name))
            assert client.read()
            host, port = client.socket.getsockname()
            expected.append(f"{host}:{port} {name}")
        assert cluster.clients()[before:] == expected


def test_offsets_outside_the_tier_are_not_granted(cluster: EmbeddedCluster) -> None:
    local = asked(cluster.bootstrap_servers, "orders", offsets(cluster).earliest_local)
    beyond = asked(cluster.bootstrap_servers, "orders", 10**6)
    assert isinstance(local, NotRemote)
    assert isinstance(beyond, NotRemote)
    assert (local.out_of_range, beyond.out_of_range) == (False, True)


def test_offsets_by_time_are_found_in_both_tiers(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, segment_bytes=2_000, expire_local=True) as cluster:
        producer = cluster.producer(batch_num_messages=10)
        for number in range(100):
            producer.produce("times", b"%d" % number * 10, partition=0, timestamp=1_700_000_000_000 + 10 * number)
        assert producer.flush(20) == 0
        assert cluster.archive() > 0
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "t", "log_level": 0})
        try:
            for number in range(0, 100, 7):
                wanted = TopicPartition("times", 0, 1_700_000_000_000 + 10 * number - 5)
                assert consumer.offsets_for_times([wanted], 20)[0].offset == number
            assert consumer.get_watermark_offsets(TopicPartition("times", 0), 20) == (0, 100)
            after = consumer.offsets_for_times([TopicPartition("times", 0, 1_800_000_000_000)], 20)
            assert after[0].offset == -1
            elsewhere = consumer.offsets_for_times([TopicPartition("times", 1, 1_700_000_000_000)], 20)
            assert elsewhere[0].offset == -1
        finally:
            consumer.close()


def test_kafka_python_produces_and_consumes(cluster: EmbeddedCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    sent = producer.send("by-kafka-python", b"hello", partition=0).get(timeout=20)
    producer.close()
    assert sent.offset == 0
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    partition = PythonTopicPartition("orders", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    got: list[tuple[bytes | None, bytes | None]] = []
    deadline = Deadline(SystemClock(), 60)
    while len(got) < len(CODECS) * RECORDS and not deadline.expired():
        for rows in consumer.poll(timeout_ms=500).values():
            got += [(row.key, row.value) for row in rows]
    consumer.close()
    assert got == expected(0)


def test_aiokafka_produces_and_consumes(cluster: EmbeddedCluster) -> None:
    async def body() -> list[tuple[bytes | None, bytes | None]]:
        producer = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
        await producer.start()
        try:
            assert (await producer.send_and_wait("by-aiokafka", b"hello", partition=0)).offset == 0
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
        await consumer.start()
        try:
            partition = AioTopicPartition("orders", 1)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            got: list[tuple[bytes | None, bytes | None]] = []
            while len(got) < len(CODECS) * RECORDS:
                rows = (await consumer.getmany(timeout_ms=500)).get(partition, [])
                got += [(row.key, row.value) for row in rows]
            return got
        finally:
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(body(), 90)) == expected(1)


def test_a_producer_may_use_the_shim(cluster: EmbeddedCluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    for number in range(100):
        producer.produce("through", b"%d" % number, partition=0)
    assert producer.flush(20) == 0
    cluster.archive(keep_open=False)
    rows = list(granted_rows(cluster.bootstrap_servers, "through", 0, IsolationLevel.READ_UNCOMMITTED))
    assert [row[5] for row in rows] == [b"%d" % number for number in range(100)]


def test_without_local_expiry_the_broker_keeps_what_is_in_the_tier(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, partitions=1, segment_bytes=2_000) as cluster:
        for _ in range(8):
            cluster.produce("kept", [(None, bytes(100))] * 10)
        assert cluster.archive() > 0
        source = BrokerLocationSource(cluster.bootstrap_servers, client_id="tests", clock=SystemClock())
        known = source.offsets("kept", 0, Deadline(SystemClock(), 20))
        source.close()
        assert known.earliest_local == 0
        assert known.latest_tiered > 0


def test_events_of_the_tier_are_observed_and_followed_by_the_shim(tmp_path: Path) -> None:
    events: list[RemoteLogMetadata] = []
    with EmbeddedCluster(tmp_path, segment_bytes=2_000, expire_local=True, observe=events.append) as cluster:
        cluster.produce("orders", records("none", 0))
        assert cluster.archive(keep_open=False) == 1
        assert isinstance(asked(cluster.bootstrap_servers, "orders", 0), SegmentLocation)
        cluster.kafka.delete_records("orders", 0, RECORDS)
        assert cluster.kafka.expire_now() == 1
        assert isinstance(asked(cluster.bootstrap_servers, "orders", 0), NotRemote)
    started, *updates = events
    assert isinstance(started, RemoteLogSegmentMetadata)
    assert [event.state for event in updates] == list(State)[1:]


def test_faults_affect_the_store_and_not_the_broker(tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path, segment_bytes=2_000, expire_local=True) as cluster:
        cluster.produce("orders", records("none", 0), codec="none")
        cluster.archive(keep_open=False)
        location = asked(cluster.bootstrap_servers, "orders", 0)
        assert isinstance(location, SegmentLocation)
        granted = location.ranges[0]
        cluster.faults.expired_urls()
        assert fetched(granted).status_code == 403
        cluster.faults.store_down()
        with pytest.raises(requests.ConnectionError):
            fetched(granted)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "t", "log_level": 0})
        try:
            consumer.assign([TopicPartition("orders", 0, 0)])
            got = 0
            while got < RECORDS:
                got += len(consumer.consume(100, 1.0))
        finally:
            consumer.close()
        cluster.faults.clear()
        assert fetched(granted).status_code == 206
        model = StoreModel(FixedLatency(0.0), requests_per_second=1)
        cluster.faults.behave_like(LiveStoreModel(model, 0, ManualClock(0.0)))
        assert [fetched(granted).status_code for _ in range(2)] == [206, 503]
        cluster.faults.clear()
        assert fetched(granted).status_code == 206
        cluster.faults.slow_store(30)
        url, headers = signed_url(granted), {"Range": f"bytes={granted.range.start}-{granted.range.end - 1}"}
        with pytest.raises(requests.Timeout):
            requests.get(url, headers=headers, timeout=0.3)


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"segment_bytes": 0}, {"segment_bytes": 1 << 31}])
def test_settings_outside_of_their_bounds_are_refused(tmp_path: Path, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        EmbeddedCluster(tmp_path, **wrong)


def test_an_unstarted_cluster_raises_and_close_is_idempotent(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path)
    for use in (
        lambda: cluster.bootstrap_servers,
        lambda: cluster.broker_bootstrap_servers,
        lambda: cluster.origin_url,
        cluster.archive,
    ):
        with pytest.raises(RuntimeError, match="is not started"):
            use()
    assert not any(cluster.metrics().values())
    assert cluster.clients() == []
    cluster.close()
    cluster.start()
    cluster.close()
    cluster.close()


def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        EmbeddedCluster(tmp_path / "file").start()
