"""Transactions and groups of librdkafka work as on a broker, also when their records are in the tier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_kafka import TieredCluster
from kafka_remote_client.tiered_kafka.coordinators import Coordinators
from tests.support.reading import PATIENCE_SECONDS, direct, read_to_end, settings, total
from tests.support.waiting import wait_until
from tests.tiered_kafka.clients import plain, produce, values
from tests.tiered_kafka.test_fetches import Broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=2, segment_bytes=2048) as running:
        yield running


def transactional(cluster: TieredCluster, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def send(producer: Producer, topic: str, numbers: range) -> None:
    for number in numbers:
        producer.produce(topic, b"%060d" % number, partition=0)


def test_outcomes_are_the_same_in_both_tiers(cluster: TieredCluster) -> None:
    producer = transactional(cluster, "outcomes")
    for first in range(0, 200, 20):
        producer.begin_transaction()
        send(producer, "outcomes", range(first, first + 20))
        if first % 40:
            producer.abort_transaction(PATIENCE_SECONDS)
        else:
            producer.commit_transaction(PATIENCE_SECONDS)
    committed = [number for number in range(200) if number // 20 % 2 == 0]
    assert values(plain(cluster, "outcomes")) == committed
    cluster.tier_now("outcomes", roll=True)
    producer.begin_transaction()
    send(producer, "outcomes", range(500, 510))
    producer.flush(PATIENCE_SECONDS)
    rows = plain(cluster, "outcomes")
    assert values(rows) == committed
    assert values(plain(cluster, "outcomes", "read_uncommitted"))[-10:] == list(range(500, 510))
    with Shim(ShimConfig(cluster.bootstrap_servers, store=cluster.store.url)) as shim:
        assert shim.wait_ready(PATIENCE_SECONDS)
        with Consumer(direct(shim, "read_committed")) as consumer:
            consumer.assign([TopicPartition("outcomes", 0, OFFSET_BEGINNING)])
            assert read_to_end(consumer) == rows
            assert total(consumer.metrics(), "remote-fetch-records-total") == len(committed)
    producer.abort_transaction(PATIENCE_SECONDS)


def test_open_transaction_is_not_copied(cluster: TieredCluster) -> None:
    producer = transactional(cluster, "open")
    producer.begin_transaction()
    send(producer, "open", range(20))
    producer.flush(PATIENCE_SECONDS)
    assert cluster.tier_now("open", roll=True) == 0
    producer.commit_transaction(PATIENCE_SECONDS)
    assert cluster.tier_now("open", roll=True) > 0


def test_new_producer_aborts_and_fences_the_one_before(cluster: TieredCluster) -> None:
    before = transactional(cluster, "fenced")
    before.begin_transaction()
    send(before, "fenced", range(10))
    before.flush(PATIENCE_SECONDS)
    after = transactional(cluster, "fenced")
    after.begin_transaction()
    send(after, "fenced", range(10, 20))
    after.commit_transaction(PATIENCE_SECONDS)
    with pytest.raises(KafkaException):
        before.commit_transaction(PATIENCE_SECONDS)
    assert values(plain(cluster, "fenced")) == list(range(10, 20))


def test_offsets_of_a_transaction_are_committed_with_it(cluster: TieredCluster) -> None:
    produce(cluster, "input", 40)
    member = confluent_kafka.Consumer(settings(cluster.bootstrap_servers, "read_committed", **{"group.id": "transformer"}))
    member.subscribe(["input"])
    got: list[Message] = []
    wait_until(
        lambda: got.extend(one for one in member.consume(40, 0.2) if one.error() is None) or len(got) == 40, "40 records"
    )
    producer = transactional(cluster, "transform")
    committed = []
    for offset, ends in ((10, producer.abort_transaction), (20, producer.commit_transaction)):
        producer.begin_transaction()
        producer.send_offsets_to_transaction(
            [TopicPartition("input", 0, offset)], member.consumer_group_metadata(), PATIENCE_SECONDS
        )
        ends(PATIENCE_SECONDS)
        committed += [one.offset for one in member.committed([TopicPartition("input", 0)], PATIENCE_SECONDS)]
    member.close()
    assert committed == [confluent_kafka.OFFSET_INVALID, 20]


def test_group_shares_partitions_and_resumes_from_commits(cluster: TieredCluster) -> None:
    cluster.create_topic("shared", 2)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce("shared", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    cluster.tier_now("shared", roll=True)
    own = settings(cluster.bootstrap_servers, "read_committed", **{"group.id": "shared", "enable.partition.eof": False})
    members = [confluent_kafka.Consumer(own) for _ in range(2)]
    for member in members:
        member.subscribe(["shared"])
    got: dict[int, list[Message]] = {0: [], 1: []}

    def both() -> bool:
        for at, member in enumerate(members):
            got[at] += member.consume(50, 0.1)
        return all(len(member.assignment()) == 1 for member in members) and read_all(got)

    wait_until(both, "two members with a partition each")
    for member in members:
        member.commit(offsets=[TopicPartition("shared", one.partition, 50) for one in member.assignment()], asynchronous=False)
        member.close()
    late = confluent_kafka.Consumer({**own, "enable.partition.eof": True})
    try:
        committed = late.committed([TopicPartition("shared", 0), TopicPartition("shared", 1)], PATIENCE_SECONDS)
        assert [one.offset for one in committed] == [50, 50]
    finally:
        late.close()


def read_all(got: dict[int, list[Message]]) -> bool:
    return {int(message.value()) for messages in got.values() for message in messages} == set(range(100))


def test_requests_of_unknown_producers_are_refused(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    ask = Coordinators(broker.topics, {1: ("localhost", 1)}, SystemClock()).handlers()
    partitions = [{"name": "orders", "partitions": [0, 9]}]
    offsets = [{"name": "orders", "partitions": [{"partition": 0, "offset": 3, "leader_epoch": 0, "metadata": None}]}]
    who = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    member = {"group_id": "g", "member_id": "stranger", "generation_id": 4}
    asked = {
        "AddPartitionsToTxn": who | {"topics": partitions},
        "AddOffsetsToTxn": who | {"group_id": "g"},
        "TxnOffsetCommit": who | member | {"topics": offsets},
        "EndTxn": who | {"committed": True},
    }
    answers = [ask[name](1, 3, request) for name, request in asked.items()]
    assert all(str(int(ErrorCode.INVALID_PRODUCER_ID_MAPPING)) in re.findall(r"\b\d+\b", repr(one)) for one in answers)
    ask["InitProducerId"](1, 1, {"transactional_id": "t"})
    added = ask["AddPartitionsToTxn"](1, 2, asked["AddPartitionsToTxn"])
    codes = [one["error_code"] for one in added["topics"][0]["partitions"]]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    refused = ask["TxnOffsetCommit"](1, 3, asked["TxnOffsetCommit"])
    assert refused["topics"][0]["partitions"][0]["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID


def test_all_offsets_of_a_group_are_fetched_without_topics(tmp_path: Path) -> None:
    ask = Coordinators(Broker(tmp_path).topics, {1: ("localhost", 1)}, SystemClock()).handlers()
    offsets = [{"name": "orders", "partitions": [{"partition": 1, "offset": 3, "leader_epoch": 0, "metadata": "m"}]}]
    outside = {"group_id": "g", "member_id": "", "generation_id": -1, "topics": offsets}
    ask["OffsetCommit"](1, 7, outside)
    ask["OffsetCommit"](1, 7, outside | {"group_id": "other"})
    found = ask["OffsetFetch"](1, 5, {"group_id": "g", "topics": None})
    (topic,) = found["topics"]
    assert topic["partitions"] == [{"partition": 1, "offset": 3, "leader_epoch": 0, "metadata": "m"}]
