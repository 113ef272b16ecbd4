"""Positions and commits pass markers and aborted records in the tier, as the plain consumer's do on the broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.consumer.delivery_queue import DeliveryQueue
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.passed_markers import PassedMarkers
from kafka_remote_client.consumer.route_state import RouteEvent
from kafka_remote_client.consumer.subscription_state import SubscriptionState
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.faults.streams import Segment, Transactions, write_stream
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    direct_settings,
    from_store,
    is_end,
    plain_settings,
    small_cluster,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COMMITTED, END = 40, 561
KINDS = {"plain": confluent_kafka.Consumer, "ours": Consumer}
WAYS = ("poll", "consume")


def committed_then_aborted() -> list[Segment]:
    """Twenty transactions of two records that commit, then one of 500 records that aborts, in two segments."""
    log = Transactions()
    for _ in range(COMMITTED // 2):
        log.records(2, producer=100)
        log.commit(100)
    log.records(100, producer=200)
    log.roll()
    for _ in range(4):
        log.records(100, producer=200)
    log.abort(200)
    log.roll()
    return log.segments


def nothing_but_aborted() -> list[Segment]:
    log = Transactions()
    for _ in range(3):
        log.records(50, producer=200, size=200)
        log.abort(200)
        log.roll()
    return log.segments


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier"), range_bytes=2_000, max_grant_bytes=8_000) as made:
        assert write_stream(made, "aborted-end", committed_then_aborted(), local=0).tiered_end == END
        assert write_stream(made, "aborted", nothing_but_aborted(), local=0).tiered_end == 153
        yield made


@pytest.fixture
def group() -> str:
    return f"group-{uuid4()}"


def opened(kind: str, cluster: EmbeddedCluster, group: str, topic: str = "aborted-end", **more: Any) -> Any:
    settings = direct_settings if kind == "ours" else plain_settings
    consumer: Any = KINDS[kind](settings(cluster, group_id=group, **{"enable_auto_commit": True, **more}))
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def delivered(consumer: Any, way: str, limit: int = 100) -> list[Message]:
    """Makes one delivering call."""
    if way == "consume":
        return list(consumer.consume(limit, 0.1))
    message = consumer.poll(0.1)
    return [] if message is None else [message]


def read(consumer: Any, way: str, *, to_end: bool, count: int = 0) -> int:
    """Reads up to the end of the partition, or ``count`` records."""
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    records = 0
    while not deadline.expired():
        messages = delivered(consumer, way, 100 if to_end else count - records)
        records += sum(message.error() is None for message in messages)
        if any(map(is_end, messages)) if to_end else records == count:
            return records
    raise AssertionError(f"only {records} records came")


def position(consumer: Any, topic: str = "aborted-end") -> int:
    return int(consumer.position([TopicPartition(topic, 0)])[0].offset)


def committed(cluster: EmbeddedCluster, group: str, topic: str = "aborted-end") -> int:
    """The committed offset that a consumer without an assignment reads."""
    other = confluent_kafka.Consumer(plain_settings(cluster, group_id=group))
    try:
        return int(other.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)[0].offset)
    finally:
        other.close()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_position_and_commit_at_the_end_pass_aborted_records(kind: str, way: str, cluster: EmbeddedCluster, group: str) -> None:
    consumer = opened(kind, cluster, group)
    assert read(consumer, way, to_end=True) == COMMITTED
    assert position(consumer) == END
    consumer.commit(asynchronous=False)
    assert committed(cluster, group) == END
    assert kind == "plain" or from_store(consumer) == COMMITTED
    consumer.close()
    assert committed(cluster, group) == END


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_close_commits_the_end_when_the_end_is_not_announced(kind: str, way: str, cluster: EmbeddedCluster, group: str) -> None:
    consumer = opened(kind, cluster, group, enable_partition_eof=False)
    assert read(consumer, way, to_end=False, count=COMMITTED) == COMMITTED
    wait_until(lambda: delivered(consumer, way) == [] and position(consumer) == END, "the end")
    consumer.close()
    assert committed(cluster, group) == END


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_of_aborted_records_alone_is_committed(kind: str, way: str, cluster: EmbeddedCluster, group: str) -> None:
    consumer = opened(kind, cluster, group, "aborted")
    assert read(consumer, way, to_end=True) == 0
    assert position(consumer, "aborted") == 153
    consumer.close()
    assert committed(cluster, group, "aborted") == 153


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_stored_where_the_application_stores(kind: str, way: str, cluster: EmbeddedCluster, group: str) -> None:
    consumer = opened(kind, cluster, group, enable_auto_offset_store=False)
    assert read(consumer, way, to_end=True) == COMMITTED
    assert position(consumer) == END
    with pytest.raises(KafkaException, match="_NO_OFFSET"):
        consumer.commit(asynchronous=False)
    consumer.close()
    assert committed(cluster, group) == OFFSET_INVALID


@pytest.mark.parametrize("kind", KINDS)
def test_a_marker_is_passed_by_the_next_call_that_delivers(kind: str, cluster: EmbeddedCluster, group: str) -> None:
    consumer = opened(kind, cluster, group)
    assert read(consumer, "poll", to_end=False, count=2) == 2
    assert position(consumer) == 2
    consumer.commit(asynchronous=False)
    assert committed(cluster, group) == 2
    consumer.poll(PATIENCE_SECONDS)
    assert position(consumer) == 4
    consumer.seek(TopicPartition("aborted-end", 0, 0))
    assert position(consumer) == OFFSET_INVALID
    consumer.close()


class Inner:
    """An inner consumer with a given position; it counts the requests for positions."""

    def __init__(self) -> None:
        self.offset = OFFSET_INVALID
        self.delivered: list[TopicPartition] = []

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        self.delivered = partitions
        return [TopicPartition(tp.topic, tp.partition, self.offset) for tp in partitions]


def flows_of(count: int) -> SubscriptionState:
    flows = SubscriptionState()
    for partition in range(count):
        flow = PartitionFlow("t", partition, 0)
        flow.change_route(RouteEvent.BROKER_CHOSEN)
        flows.add(flow)
    return flows


def markers(flows: SubscriptionState, inner: Inner, stored: list[PartitionFlow]) -> PassedMarkers:
    return PassedMarkers(flows, DeliveryQueue(None), inner.position, stored.extend)


def record(partition: int) -> Message:
    return Message(topic="t", partition=partition, offset=3)


def test_a_partition_of_which_a_record_waits_stays() -> None:
    flows, inner, stored = flows_of(2), Inner(), list[PartitionFlow]()
    inner.offset = 7
    markers(flows, inner, stored).look([record(0)])
    assert [(flow.partition, flow.position) for flow in flows] == [(0, OFFSET_INVALID), (1, 7)]
    assert [flow.partition for flow in stored] == [1]


def test_next_call_passes_markers_that_no_waiting_record_precedes() -> None:
    """The call before delivered the last record of both partitions; another record of the second one waits."""
    flows, inner, stored = flows_of(3), Inner(), list[PartitionFlow]()
    looking = markers(flows, inner, stored)
    looking._delivery_queue.unfollowed = {("t", 0), ("t", 1)}
    inner.offset = 7
    looking.delivery_begins([record(1)])
    assert [flow.position for flow in flows] == [7, OFFSET_INVALID, OFFSET_INVALID]
    assert [flow.partition for flow in stored] == [0]


def test_partitions_past_a_thousand_take_turns() -> None:
    flows, inner = flows_of(2_500), Inner()
    looking = markers(flows, inner, [])
    seen = []
    for _ in range(5):
        looking.look([])
        assert len(inner.delivered) == 1_000
        seen += [tp.partition for tp in inner.delivered]
    assert set(seen[:3_000]) == set(range(2_500))


def test_a_commit_looks_once_after_the_inner_consumer_was_polled() -> None:
    flows, inner, stored = flows_of(1), Inner(), list[PartitionFlow]()
    looking = markers(flows, inner, stored)
    inner.offset = 7
    looking.before_commit([])
    assert not stored
    looking.unseen = True
    looking.before_commit([])
    assert [flow.position for flow in stored] == [7]
    inner.offset = 8
    looking.before_commit([])
    assert [flow.position for flow in stored] == [7]


def test_nothing_is_looked_at_while_the_inner_consumer_closes() -> None:
    """While it closes, librdkafka serves markers after records that no application gets."""
    flows, inner, stored = flows_of(1), Inner(), list[PartitionFlow]()
    looking = markers(flows, inner, stored)
    looking.before_close([])
    inner.offset = 7
    looking.before_loss(flows, [])
    assert not stored


class Reader:
    """A reader that counts the requests for its position, each of which takes the engine's lock."""

    def __init__(self) -> None:
        self.delivered = 0
        self.stands_at = 0
        self.has_ready = False

    def passed(self) -> tuple[int, int]:
        self.delivered += 1
        return self.stands_at, 3

    def stop(self) -> None:
        """Does nothing."""


def read_flows(count: int) -> tuple[SubscriptionState, list[Reader]]:
    flows, readers = SubscriptionState(), []
    for partition in range(count):
        flow, reader = PartitionFlow("t", partition, 0), Reader()
        given: Any = reader
        flow.change_route(RouteEvent.TIER_CHOSEN)
        flow.reader = given
        flows.add(flow)
        readers.append(reader)
    return flows, readers


def test_only_readers_that_passed_something_are_asked() -> None:
    flows, readers = read_flows(1_000)
    stored: list[PartitionFlow] = []
    looking = markers(flows, Inner(), stored)
    looking.look([])
    assert sum(reader.delivered for reader in readers) == 0
    (moved,) = flows.of([TopicPartition("t", 700)])
    readers[700].stands_at = 9
    for _ in range(3):
        flows.announce_passed(moved)
    looking.look([])
    looking.look([])
    assert [reader.delivered for reader in readers if reader.delivered] == [1]
    assert (moved.position, moved.position_epoch, stored) == (9, 3, [moved])


def test_what_was_passed_behind_waiting_records_counts_later() -> None:
    flows, (reader,) = read_flows(1)
    (flow,) = flows
    looking = markers(flows, Inner(), [])
    reader.stands_at, reader.has_ready = 9, True
    flows.announce_passed(flow)
    looking.look([])
    assert (reader.delivered, flow.position) == (0, OFFSET_INVALID)
    reader.has_ready = False
    looking.look([record(0)])
    assert flow.position == OFFSET_INVALID
    looking.look([])
    assert (reader.delivered, flow.position) == (1, 9)


def test_partitions_whose_inner_position_stays_are_asked_once_each() -> None:
    """One call for all of them; those that moved are asked again."""
    flows, inner, stored = flows_of(500), Inner(), list[PartitionFlow]()
    looking = markers(flows, inner, stored)
    looking.look([])
    assert (len(inner.delivered), stored) == (500, [])
    inner.offset = 7
    looking.look([])
    assert len(stored) == 500
    looking.look([])
    assert len(stored) == 500
    looking.frozen = True
    inner.delivered = []
    looking.look([])
    assert inner.delivered == []


def test_closing_passes_what_readers_told() -> None:
    flows, (reader,) = read_flows(1)
    (flow,) = flows
    reader.stands_at = 5
    flows.announce_passed(flow)
    looking = markers(flows, Inner(), [])
    looking.before_close([])
    assert (flow.position, looking.frozen) == (5, True)
