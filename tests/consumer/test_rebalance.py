"""Groups: callbacks, the calls they may make, and the records that members read in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    Take,
    by_consume,
    by_poll,
    direct_settings,
    filled_cluster,
    from_store,
    is_end,
    plain_rows,
    plain_settings,
    read_to_ends,
    rows_of,
    take,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COUNT = 300
TOPIC = "orders"


cluster = filled_cluster(TOPIC, COUNT, partitions=range(4))


def plain_consumer(cluster: EmbeddedCluster) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(plain_settings(cluster))


def direct_consumer(cluster: EmbeddedCluster) -> confluent_kafka.Consumer:
    return Consumer(direct_settings(cluster))


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> dict[int, list[Row]]:
    return {partition: plain_rows(cluster, TOPIC, partition) for partition in range(4)}


def test_a_subscribed_consumer_reads_all_partitions(cluster: EmbeddedCluster, expected: dict[int, list[Row]]) -> None:
    seen: list[Any] = []
    with Consumer(direct_settings(cluster, enable_auto_commit=True)) as consumer:
        consumer.subscribe(
            [TOPIC],
            on_assign=lambda who, parts: seen.append(("assign", who is consumer, sorted(tp.partition for tp in parts))),
            on_revoke=lambda who, parts: seen.append(
                ("revoke", who is consumer, sorted((tp.partition, tp.offset) for tp in who.position(parts)))
            ),
        )
        rows = read_to_ends(consumer, by_consume)
        assert {key[1]: value for key, value in rows.items()} == expected
        assert from_store(consumer) > 4 * 100
        group = consumer.consumer_group_metadata()
        assert group is not None
    assert seen == [("assign", True, [0, 1, 2, 3]), ("revoke", True, [(n, COUNT) for n in range(4)])]


@pytest.mark.parametrize(
    "settings", [{}, {"partition_assignment_strategy": "cooperative-sticky"}], ids=["eager", "cooperative"]
)
def test_a_callback_may_assign_with_offsets_of_its_own_and_pause(
    cluster: EmbeddedCluster, expected: dict[int, list[Row]], settings: dict[str, str]
) -> None:
    def on_assign(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            tp.offset = 40 + tp.partition
        if settings:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        consumer.pause([tp for tp in partitions if tp.partition in (0, 1)])

    with Consumer(direct_settings(cluster, **settings)) as consumer:
        consumer.subscribe([TOPIC], on_assign=on_assign)
        rows = take(consumer, 2 * COUNT - 85)
        assert {r[1] for r in rows} == {2, 3}
        assert [r for r in rows if r[1] == 2] == expected[2][42:]
        consumer.resume([TopicPartition(TOPIC, 1)])
        assert take(consumer, COUNT - 41) == expected[1][41:]
        assert from_store(consumer) > 300


def test_assignment_happens_although_a_callback_raises(cluster: EmbeddedCluster, expected: dict[int, list[Row]]) -> None:
    def on_assign(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        raise LookupError("the application's own")

    def on_revoke(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        raise LookupError("at the end")

    consumer = Consumer(direct_settings(cluster))
    consumer.subscribe([TOPIC], on_assign=on_assign, on_revoke=on_revoke)
    with pytest.raises(LookupError, match="the application's own"):
        consumer.consume(10, PATIENCE_SECONDS)
    rows = take(consumer, 4 * COUNT)
    for partition in range(4):
        assert [r for r in rows if r[1] == partition] == expected[partition]
    try:
        consumer.close()
    except LookupError as error:
        assert str(error) == "at the end"  # noqa: PT017 - confluent_kafka may report it or not
    assert len(consumer._direct_flows) == 0


@pytest.mark.parametrize("make", [plain_consumer, direct_consumer], ids=["plain", "direct"])
def test_a_callback_may_empty_the_list_that_it_gets(
    cluster: EmbeddedCluster, expected: dict[int, list[Row]], make: Callable[[EmbeddedCluster], confluent_kafka.Consumer]
) -> None:
    def empties(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        while partitions:
            partitions.pop().offset = COUNT

    consumer = make(cluster)
    try:
        for _ in range(2):  # the partitions are assigned again, after a revocation
            consumer.subscribe([TOPIC], on_assign=empties, on_revoke=empties)
            rows = take(consumer, 4 * COUNT)
            for partition in range(4):
                assert [r for r in rows if r[1] == partition] == expected[partition]
            consumer.unsubscribe()
            assert [m for m in consumer.consume(1, 0.1) if not is_end(m)] == []
            wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment() == [], "the end of the assignment")
    finally:
        consumer.close()


@pytest.mark.parametrize("make", [plain_consumer, direct_consumer], ids=["plain", "direct"])
def test_assignment_happens_where_a_callback_assigns_no_list(
    cluster: EmbeddedCluster, expected: dict[int, list[Row]], make: Callable[[EmbeddedCluster], confluent_kafka.Consumer]
) -> None:
    def on_assign(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        with pytest.raises(TypeError):
            consumer.assign(tuple(partitions))  # type: ignore[arg-type] # a mistake

    consumer = make(cluster)
    try:
        consumer.subscribe([TOPIC], on_assign=on_assign)
        rows = take(consumer, 4 * COUNT)
        for partition in range(4):
            assert [r for r in rows if r[1] == partition] == expected[partition]
        committed = consumer.commit(asynchronous=False)
        assert committed is not None
        assert {(tp.partition, tp.offset) for tp in committed} == {(n, COUNT) for n in range(4)}
    finally:
        consumer.close()


@pytest.mark.parametrize("callback", ["on_assign", "on_revoke", "on_lost"])
def test_a_callback_that_cannot_be_called_is_refused(cluster: EmbeddedCluster, callback: str) -> None:
    with Consumer(direct_settings(cluster)) as consumer, pytest.raises(TypeError, match=f"{callback} expects a callable"):
        consumer.subscribe([TOPIC], **{callback: 5})
    with pytest.raises(RuntimeError, match="Consumer closed"):
        consumer.subscribe([TOPIC], **{callback: 5})


@pytest.mark.parametrize("one", [by_poll, by_consume], ids=["poll", "consume"])
def test_what_was_read_ahead_is_dropped_by_unsubscribe(cluster: EmbeddedCluster, one: Take) -> None:
    revoked: list[TopicPartition] = []
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.subscribe([TOPIC], on_revoke=lambda who, parts: revoked.extend(who.position(parts)))
        taken = take(consumer, 30, one)
        assert from_store(consumer) >= 30
        consumer.unsubscribe()
        assert one(consumer) == []
        assert {(tp.partition, tp.offset) for tp in revoked if tp.offset > 0} == positions_after(taken)
        assert consumer.assignment() == []


def test_consume_after_poll_drops_what_was_read_ahead_from_the_broker(cluster: EmbeddedCluster) -> None:
    with Consumer(direct_settings(cluster, fetch_remote_topics="others")) as consumer:
        consumer.subscribe([TOPIC])
        wait_until(
            lambda: consumer.poll(0.1) is not None and consumer._direct_delivery_queue.waiting != [], "records read ahead"
        )
        consumer.unsubscribe()
        assert consumer.consume(1, 0.1) == []
        assert consumer.assignment() == []


def positions_after(rows: list[Row]) -> set[tuple[int, int]]:
    return {(partition, offset + 1) for partition, offset in {r[1]: r[2] for r in rows}.items()}


@pytest.mark.fault("F66")
def test_two_members_of_a_group_read_everything_in_order(cluster: EmbeddedCluster, expected: dict[int, list[Row]]) -> None:
    sessions = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
    settings = direct_settings(cluster, group_id=f"group-{uuid4()}", partition_assignment_strategy="range", **sessions)
    with Consumer(settings) as first, Consumer(settings) as second:
        members = {first: Member(), second: Member()}
        first.subscribe([TOPIC], on_assign=members[first].assigned, on_revoke=members[first].revoked)
        members[first].took(take(first, 100))
        second.subscribe([TOPIC], on_assign=members[second].assigned, on_revoke=members[second].revoked)
        deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
        with ThreadPoolExecutor(2) as pool:
            while sum(map(len, (seen := union(*members.values())).values())) < 4 * COUNT:
                assert not deadline.expired()
                # The first member is slow, so that it still reads directly when partitions are taken from it.
                slow = not second.assignment()
                futures = [pool.submit(first.consume, 1 if slow else 20, 0.1), pool.submit(second.consume, 20, 0.1)]
                for member, future in zip(members.values(), futures, strict=True):
                    member.took(rows_of([m for m in future.result() if m.error() is None]))
        assert members[first].positions, "partitions moved"
        assert from_store(second) > 0
    for partition in range(4):
        assert [seen[partition][offset] for offset in range(COUNT)] == expected[partition]


class Member:
    """The records of one member: offsets rise between two assignments, and positions are those at the revocation."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.next: dict[int, int] = {}
        self.positions: dict[int, int] = {}

    def assigned(self, _: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        for tp in partitions:
            self.next.pop(tp.partition, None)

    def revoked(self, consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        self.positions |= {tp.partition: tp.offset for tp in consumer.position(partitions)}

    def took(self, rows: list[Row]) -> None:
        for r in rows:
            assert r[2] == self.next.get(r[1], r[2]), "the exact next record"
            self.next[r[1]] = r[2] + 1
        self.rows += rows


def union(*members: Member) -> dict[int, dict[int, Row]]:
    seen: dict[int, dict[int, Row]] = {partition: {} for partition in range(4)}
    for member in members:
        for r in member.rows:
            assert seen[r[1]].setdefault(r[2], r) == r
    return seen


@pytest.mark.parametrize("make", [plain_consumer, direct_consumer])
def test_a_revocation_takes_what_a_callback_added(
    cluster: EmbeddedCluster, make: Callable[[EmbeddedCluster], confluent_kafka.Consumer]
) -> None:
    """Without an assignment by the callback, confluent_kafka gives up all partitions, not only those that librdkafka names."""
    cluster.produce("subscribed", [(b"key", b"value")])
    added = TopicPartition(TOPIC, 0, 0)
    revoked: list[int] = []

    def on_assign(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([*partitions, added])

    def on_revoke(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        revoked.append(len(partitions))

    consumer = make(cluster)
    consumer.subscribe(["subscribed"], on_assign=on_assign, on_revoke=on_revoke)
    read: list[Any] = []
    wait_until(lambda: read.extend(consumer.consume(1, 0.1)) or any(m.topic() == TOPIC for m in read), "a record of the added")
    consumer.unsubscribe()
    wait_until(lambda: consumer.consume(1, 0.1) is not None and revoked, "the revocation")
    later = [message.topic() for _ in range(5) for message in consumer.consume(10, 0.2)]
    assert (later, consumer.assignment()) == ([], [])
    consumer.close()
