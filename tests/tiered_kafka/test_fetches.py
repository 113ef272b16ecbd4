"""Fetch and ListOffsets are answered by the leader, from both tiers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.model import IsolationLevel as Level
from kafka_remote_client.protocol import fetch, list_offsets
from kafka_remote_client.tiered_cluster.batches import Record, new_batch
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.log import TopicConfig
from kafka_remote_client.tiered_cluster.tiered_read import SpecialAnswer
from kafka_remote_client.tiered_kafka import TieredCluster
from kafka_remote_client.tiered_kafka.changes import Changes
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.tier_store import TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings
from kafka_remote_client.tiered_kafka.topics import Topics
from kafka_remote_client.wire import ZERO_UUID
from tests.support.locations import ManualClock
from tests.tiered_kafka.clients import produce

TIMEOUT = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, segment_bytes=4096) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: TieredCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


@pytest.mark.parametrize(("spec", "offset"), [(1000, 0), (1025, 25), (1079, 79), (2000, -1)])
def test_offsets_are_found_by_time_in_both_tiers(cluster: TieredCluster, admin: AdminClient, spec: int, offset: int) -> None:
    if "timed" not in admin.list_topics(timeout=TIMEOUT).topics:
        produce(cluster, "timed", 60)
        cluster.tier_now("timed", roll=True)
        produce(cluster, "timed", 80)
    asked = {TopicPartition("timed", 0): OffsetSpec.for_timestamp(spec)}
    (future,) = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
    found = future.result(TIMEOUT).offset
    assert found == (offset if spec < 1060 or offset < 0 else 60 + 79)


class Broker:
    """The topic ``orders`` with two partitions, led by the brokers 1 and 2, without sockets."""

    def __init__(
        self, directory: Path, settings: TopicConfig | None = None, clock: Clock | None = None, **more: int | None
    ) -> None:
        self.changes = Changes()
        self.topics = Topics(
            TierStore(directory, PlainFiles()),
            SystemClock(),
            TopicSettings(settings or TopicConfig()),
            brokers=(1, 2),
            partitions=2,
            metadata_partitions=1,
            changed=self.changes.notify,
        )
        self.orders = self.topics.create("orders")
        self.fetches = Fetches(self.topics, self.changes, clock or SystemClock(), **more)

    def append(self, partition: int = 0) -> None:
        self.topics.append(self.orders, partition, [new_batch([Record(0, 1, None, b"v" * 100)])])

    def request(self, *partitions: fetch.FetchPartition, **more: int) -> fetch.FetchRequest:
        return fetch.FetchRequest((fetch.FetchTopic(partitions, "orders"),), **{"max_bytes": 1 << 20, **more})

    async def fetch(self, request: fetch.FetchRequest, version: int = 12, node: int = 1) -> tuple[fetch.PartitionData, ...]:
        body = await self.fetches.answer_fetch(node, version, fetch.encode_request(request, version))
        (topic,) = fetch.decode_response(body, version).responses
        return topic.partitions


def test_fetch_waits_for_records(tmp_path: Path) -> None:
    async def body() -> int:
        broker = Broker(tmp_path)
        request = broker.request(fetch.FetchPartition(0, 0, 1000), max_wait_ms=60_000, min_bytes=200)
        waiting = asyncio.ensure_future(broker.fetch(request))
        for _ in range(2):  # one record is too little
            done, _ = await asyncio.wait([waiting], timeout=0.01)
            assert not done
            broker.append()
        (data,) = await waiting
        return len(data.records or b"")

    assert asyncio.run(body()) > 200


def test_fetch_without_records_ends_after_its_wait(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    request = broker.request(fetch.FetchPartition(0, 0, 1000), max_wait_ms=1, min_bytes=1)
    (data,) = asyncio.run(broker.fetch(request))
    assert (data.error_code, bytes(data.records or b"")) == (0, b"")


@pytest.mark.parametrize(
    ("partition", "epoch", "error"),
    [
        (0, 0, ErrorCode.FENCED_LEADER_EPOCH),
        (0, 2, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (1, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (0, 1, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_fetch_is_refused_at_once_with_the_reason(tmp_path: Path, partition: int, epoch: int, error: ErrorCode) -> None:
    broker = Broker(tmp_path)
    broker.topics.elect(broker.orders, 0, 1)
    request = broker.request(fetch.FetchPartition(partition, 5, 1000, epoch), max_wait_ms=60_000, min_bytes=1)
    (data,) = asyncio.run(broker.fetch(request))
    assert data.error_code == error
    assert data.records is not None, "librdkafka does not parse null records of an error"
    assert not data.records


@pytest.mark.parametrize(
    ("offset", "epoch", "told"),
    [
        (2, 0, None),
        (3, 0, (0, 2)),
        (3, 1, None),
        (4, 1, (1, 3)),
        (3, -1, None),
        (4, 2, (1, 3)),
        (0, 1, "error"),
        (3, 9, "error"),
    ],
)
def test_a_client_of_another_log_learns_where_they_diverge(
    tmp_path: Path, offset: int, epoch: int, told: tuple[int, int] | str | None
) -> None:
    """Epoch 0 wrote the offsets 0 and 1, epoch 1 wrote 2, epoch 3 wrote 3. The log starts at 1."""
    broker = Broker(tmp_path)
    for count, elected in ((2, 1), (1, 2), (1, 0)):
        for _ in range(count):
            broker.append()
        for _ in range(elected):
            broker.topics.elect(broker.orders, 0, 1)
    broker.topics.delete_records(broker.orders, 0, 1)
    request = broker.request(fetch.FetchPartition(0, offset, 1000, last_fetched_epoch=epoch))
    (data,) = asyncio.run(broker.fetch(request))
    tag = data.tags.get(fetch.DIVERGING_EPOCH_TAG)
    assert data.error_code == (ErrorCode.OFFSET_OUT_OF_RANGE if told == "error" else ErrorCode.NONE)
    assert tag == (struct.pack(">iqb", *told, 0) if isinstance(told, tuple) else None)
    assert bool(data.records) == (told is None)


def test_unknown_topic_ids_are_named_as_such(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    asked = fetch.FetchTopic((fetch.FetchPartition(0, 0, 1000),), topic_id=broker.orders.id)
    (data,) = asyncio.run(broker.fetch(fetch.FetchRequest((asked,)), 16))
    assert data.error_code == 0
    asked = fetch.FetchTopic((fetch.FetchPartition(0, 0, 1000),), topic_id=ZERO_UUID)
    (data,) = asyncio.run(broker.fetch(fetch.FetchRequest((asked,)), 16))
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_only_the_first_partition_may_exceed_the_limit(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.topics.elect(broker.orders, 1, 1)
    broker.append(0)
    broker.append(1)
    request = broker.request(fetch.FetchPartition(0, 0, 1), fetch.FetchPartition(1, 0, 1), max_bytes=1)
    first, second = asyncio.run(broker.fetch(request))
    assert len(first.records or b"") > 100
    assert not second.records


@pytest.mark.parametrize(("limit", "read"), [(None, [True, True, True]), (1, [True, False, True])])
def test_limit_of_tier_reads_leaves_partitions_empty(tmp_path: Path, limit: int | None, read: list[bool]) -> None:
    broker = Broker(tmp_path, TopicConfig(local_retention_bytes=0), remote_partitions=limit)
    broker.topics.elect(broker.orders, 1, 1)
    broker.append(0)
    broker.append(1)
    assert broker.topics.tier([broker.orders], roll=False) == 2
    broker.append(0)
    parts = [fetch.FetchPartition(number, offset, 1000) for number, offset in ((0, 0), (1, 0), (0, 1))]
    answers = asyncio.run(broker.fetch(broker.request(*parts)))
    assert [bool(answer.records) for answer in answers] == read
    assert {answer.error_code for answer in answers} == {0}


def tiered(directory: Path, clock: Clock | None = None, **more: int | None) -> Broker:
    """Both partitions have one record in the tier and are led by broker 1."""
    broker = Broker(directory, TopicConfig(local_retention_bytes=0), clock, **more)
    broker.topics.elect(broker.orders, 1, 1)
    broker.append(0)
    broker.append(1)
    assert broker.topics.tier([broker.orders], roll=False) == 2
    return broker


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (SpecialAnswer.QUEUE_FULL, ErrorCode.UNKNOWN_SERVER_ERROR),
        (SpecialAnswer.QUOTA_EXCEEDED, ErrorCode.NONE),
        (SpecialAnswer.TIMED_OUT, ErrorCode.NONE),
    ],
)
def test_special_answer_has_neither_records_nor_a_list(tmp_path: Path, answer: SpecialAnswer, error: ErrorCode) -> None:
    broker = tiered(tmp_path)
    broker.fetches.answer_reads(answer, 1)
    request = broker.request(fetch.FetchPartition(0, 0, 1000), isolation_level=Level.READ_COMMITTED)
    (special,), (plain,) = (asyncio.run(broker.fetch(request)) for _ in range(2))
    assert (special.error_code, bytes(special.records or b""), special.aborted_transactions) == (error, b"", None)
    assert (special.high_watermark, special.last_stable_offset, special.log_start_offset) == ((-1,) * 3 if error else (1, 1, 0))
    assert plain.records
    assert plain.aborted_transactions == ()


def test_fetch_quota_empties_answers_until_the_rate_is_low(tmp_path: Path) -> None:
    clock = ManualClock()
    broker = tiered(tmp_path, clock, bytes_per_second=100)
    request = broker.request(fetch.FetchPartition(0, 0, 1000))
    read = []
    for _ in range(4):
        (data,) = asyncio.run(broker.fetch(request))
        read.append(bool(data.records))
        clock.now += 1
    assert read == [True, False, True, False]


def test_fetch_that_reads_the_tier_does_not_wait(tmp_path: Path) -> None:
    broker = tiered(tmp_path)
    broker.fetches.answer_reads(SpecialAnswer.TIMED_OUT, 1)
    request = broker.request(fetch.FetchPartition(0, 0, 1000), max_wait_ms=3_600_000, min_bytes=1 << 20)
    assert [bool(asyncio.run(broker.fetch(request))[0].records) for _ in range(2)] == [False, True]


def test_fetch_that_waited_does_not_read_the_tier(tmp_path: Path) -> None:
    async def body() -> list[bool]:
        broker = tiered(tmp_path)
        broker.fetches.answer_reads(SpecialAnswer.QUOTA_EXCEEDED, 1)
        parts = [fetch.FetchPartition(0, 0, 1000), fetch.FetchPartition(1, 1, 1000)]
        waiting = asyncio.ensure_future(broker.fetch(broker.request(*parts, max_wait_ms=3_600_000, min_bytes=1)))
        done, _ = await asyncio.wait([waiting], timeout=0.01)
        assert not done
        broker.append(1)
        return [bool(data.records) for data in await waiting]

    assert asyncio.run(body()) == [False, True]


def test_tier_read_counts_with_the_size_that_it_may_have(tmp_path: Path) -> None:
    broker = tiered(tmp_path)
    broker.append(0)
    broker.append(1)
    parts = [fetch.FetchPartition(number, offset, 1000) for number, offset in ((0, 0), (1, 0), (0, 1), (1, 1))]
    answers = asyncio.run(broker.fetch(broker.request(*parts, max_bytes=1000)))
    # Nothing is left for the second read, but the first batch of each may exceed that, as that of the first local read.
    assert [bool(answer.records) for answer in answers] == [True, True, True, False]


@pytest.mark.parametrize(
    ("timestamp", "offset", "error"),
    [
        (-1, 2, 0),
        (-2, 0, 0),
        (-3, 0, 0),
        (-4, 0, 0),
        (-5, -1, 0),
        (-6, 0, 0),
        (-7, -1, ErrorCode.UNSUPPORTED_VERSION),
        (1, 0, 0),
    ],
)
def test_special_timestamps_name_the_ends(tmp_path: Path, timestamp: int, offset: int, error: int) -> None:
    broker = Broker(tmp_path)
    broker.append()
    broker.append()
    asked = list_offsets.ListOffsetsPartition(0, timestamp)
    request = list_offsets.ListOffsetsRequest((list_offsets.ListOffsetsTopic("orders", (asked,)),))
    body = broker.fetches.answer_list_offsets(1, 11, list_offsets.encode_request(request, 11))
    ((answer,),) = (topic.partitions for topic in list_offsets.decode_response(body, 11).topics)
    assert (answer.offset, answer.error_code) == (offset, error)
