"""A topic that is deleted and created again while it is assigned by hand: no record of the new one is left out.

The position lies behind the end of the new log. confluent_kafka's fetch is out of range, and ``auto.offset.reset`` applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Take,
    by_consume,
    by_poll,
    direct_settings,
    fallbacks,
    fill_topic,
    plain_settings,
    small_cluster,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COUNT, NEW, TOPIC = 400, 20, "orders"
OLD_TAKEN = 50
_RECHECK_MS = 100
LIMIT = 10
"""Of one call, so that an application lags behind what its consumer has gathered."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier"), max_grant_bytes=2_000) as made:
        fill_topic(made, TOPIC, COUNT)
        yield made


def ours(cluster: EmbeddedCluster, **settings: object) -> Consumer:
    return Consumer(
        direct_settings(
            cluster,
            enable_partition_eof=False,
            **{"fetch_remote_recheck_interval_ms": _RECHECK_MS, **settings},
        )
    )


def begin_again(cluster: EmbeddedCluster) -> None:
    cluster.kafka.create_topic(TOPIC, 1)
    cluster.produce(TOPIC, [(b"key", b"new-%d" % n) for n in range(NEW)])


def new_records(consumer: confluent_kafka.Consumer, meanwhile: Callable[[], object] = lambda: None) -> list[int | None]:
    """The offsets of the first records of the new topic, after records of the old one. ``meanwhile`` runs between calls."""
    offsets: list[int | None] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while len(offsets) < NEW:
        assert not deadline.expired(), f"of {NEW} new records only these came: {offsets}"
        for message in consumer.consume(LIMIT, 0.1):
            assert message.error() is None, message.error()
            if (message.value() or b"").startswith(b"new-"):
                offsets.append(message.offset())
        meanwhile()
    return offsets


def test_a_plain_consumer_starts_at_the_beginning(cluster: EmbeddedCluster) -> None:
    consumer = confluent_kafka.Consumer(plain_settings(cluster, enable_partition_eof=False))
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    take(consumer, OLD_TAKEN)
    cluster.kafka.delete_topic(TOPIC)
    begin_again(cluster)
    assert new_records(consumer) == [*range(NEW)]
    consumer.close()


@pytest.mark.fault("F65")
def test_a_topic_that_is_gone_for_a_while_is_read_from_its_start(cluster: EmbeddedCluster) -> None:
    with ours(cluster) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, OLD_TAKEN)
        cluster.kafka.delete_topic(TOPIC)
        wait_until(lambda: consumer.consume(LIMIT, 0.1) is not None and fallbacks(consumer), "a fallback")
        begin_again(cluster)
        assert new_records(consumer) == [*range(NEW)]


def test_a_topic_that_is_there_again_at_once_is_read_from_its_start(cluster: EmbeddedCluster) -> None:
    with ours(cluster) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, OLD_TAKEN)
        cluster.kafka.delete_topic(TOPIC)
        begin_again(cluster)
        assert new_records(consumer) == [*range(NEW)]


def test_a_paused_partition_of_a_recreated_topic_is_read_from_its_start(cluster: EmbeddedCluster) -> None:
    with ours(cluster) as consumer:
        partition = TopicPartition(TOPIC, 0, 0)
        consumer.assign([partition])
        take(consumer, OLD_TAKEN)
        consumer.pause([partition])
        cluster.kafka.delete_topic(TOPIC)
        begin_again(cluster)
        consumer.resume([partition])
        assert new_records(consumer) == [*range(NEW)]


@pytest.mark.parametrize(("recheck_ms", "more"), [(100, 0), (600_000, 1)], ids=["seen-by-bounds", "seen-by-a-record"])
def test_a_recreation_after_the_read_ended_loses_no_record(cluster: EmbeddedCluster, recheck_ms: int, more: int) -> None:
    end = tiers(cluster, TOPIC).earliest_local
    with ours(cluster, fetch_remote_recheck_interval_ms=recheck_ms) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, end - 40)])
        take(consumer, 5)
        (flow,) = consumer._direct_flows
        wait_until(lambda: flow.reader._read._end is not None, "the reader to reach the local log", seconds=PATIENCE_SECONDS)
        cluster.kafka.delete_topic(TOPIC)
        begin_again(cluster)
        rest = take(consumer, 35)
        assert [rest[0][2], rest[-1][2]] == [end - 35, end - 1]
        assert new_records(consumer, lambda: cluster.produce(TOPIC, [(b"key", b"more")] * more)) == [*range(NEW)]


def test_a_log_that_was_cut_is_read_from_where_the_plain_consumer_reads_it(cluster: EmbeddedCluster) -> None:
    end = tiers(cluster, TOPIC).earliest_local
    plain = confluent_kafka.Consumer(plain_settings(cluster, enable_partition_eof=False))
    with ours(cluster) as consumer, closing(plain):
        for one in (consumer, plain):
            one.assign([TopicPartition(TOPIC, 0, end - 40)])
            assert len(take(one, COUNT + 40 - end)) == COUNT + 40 - end
        cluster.kafka.elect(TOPIC, end_offset=end + 20)
        cluster.produce(TOPIC, [(b"key", b"new-%d" % n) for n in range(NEW)])
        assert new_records(consumer) == new_records(plain) == [*range(end + 20, end + 20 + NEW)]


def has_no_place(consumer: confluent_kafka.Consumer) -> bool:
    assert consumer.consume(LIMIT, 0.1) == []
    return consumer.position([TopicPartition(TOPIC, 0)])[0].offset == OFFSET_INVALID


def test_a_place_in_a_log_that_was_cut_is_the_plain_consumers(cluster: EmbeddedCluster) -> None:
    """librdkafka has no position until the first record after the cut. Meanwhile the old place is not read from the tier."""
    end = tiers(cluster, TOPIC).earliest_local
    plain = confluent_kafka.Consumer(plain_settings(cluster, enable_partition_eof=False))
    with ours(cluster) as consumer, closing(plain):
        for one in (consumer, plain):
            one.assign([TopicPartition(TOPIC, 0, end)])
            take(one, COUNT - end)
        cluster.kafka.elect(TOPIC, end_offset=end + 20)
        for one in (plain, consumer):
            wait_until(partial(has_no_place, one), "the cut to be noticed", seconds=PATIENCE_SECONDS)
        cluster.produce(TOPIC, [(b"key", b"new-%d" % n) for n in range(NEW)])
        cluster.kafka.tier_now(TOPIC, roll=True)
        assert new_records(consumer) == new_records(plain) == [*range(end + 20, end + 20 + NEW)]
        assert [one.position([TopicPartition(TOPIC, 0)])[0].offset for one in (consumer, plain)] == [end + 20 + NEW] * 2


def by_few(consumer: confluent_kafka.Consumer, limit: int = LIMIT) -> list[Message]:
    return by_consume(consumer, min(limit, LIMIT))


def offsets_of(consumer: confluent_kafka.Consumer, count: int, one: Take) -> list[int]:
    return [offset for _, _, offset, *_ in take(consumer, count, one)]


@pytest.mark.parametrize("one", [by_poll, by_few])
@pytest.mark.parametrize("then", ["pause", "recheck", "recheck, then pause"])
def test_no_record_is_skipped_after_the_reset(cluster: EmbeddedCluster, then: str, one: Take) -> None:
    """librdkafka's position stays at the old, higher one (``rd_kafka_q_serve_rkmessages``), and a pause returns there."""
    place = TopicPartition(TOPIC, 0, 0)
    with ours(cluster, enable_auto_commit=False) as consumer:
        consumer.assign([place])
        assert offsets_of(consumer, COUNT, one) == [*range(COUNT)]
        cluster.kafka.delete_topic(TOPIC)
        begin_again(cluster)
        assert offsets_of(consumer, NEW, one) == [*range(NEW)]
        if "recheck" in then:
            deadline = Deadline(SystemClock(), 10 * _RECHECK_MS / 1000)
            while not deadline.expired():
                assert one(consumer) == []
            assert consumer.position([place])[0].offset == NEW
            assert [tp.offset for tp in consumer.commit(asynchronous=False)] == [NEW]
        if "pause" in then:
            consumer.pause([place])
        cluster.produce(TOPIC, [(b"key", b"new-%d" % n) for n in range(NEW, 2 * COUNT)])
        if "pause" in then:
            assert one(consumer) == []
            consumer.resume([place])
        assert offsets_of(consumer, 2 * COUNT - NEW, one) == [*range(NEW, 2 * COUNT)]
