"""Stored and committed offsets are exactly those of the delivered records, on both tiers."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, OFFSET_STORED, KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.arrow_reading import by_arrow
from tests.support.embedded_topics import (
    COUNT,
    PATIENCE_SECONDS,
    TOPIC,
    Row,
    by_consume,
    by_poll,
    direct_settings,
    from_store,
    plain_settings,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

WHOLE = TopicPartition(TOPIC, 0)


@pytest.fixture
def group() -> str:
    return f"group-{uuid4()}"


def committed(cluster: EmbeddedCluster, group: str, partition: int = 0) -> int:
    """The committed offset that a consumer without an assignment reads."""
    other = confluent_kafka.Consumer(plain_settings(cluster, group_id=group))
    try:
        (answer,) = other.committed([TopicPartition(TOPIC, partition)], PATIENCE_SECONDS)
        assert answer.error is None
        return answer.offset
    finally:
        other.close()


@pytest.mark.parametrize("one", [by_poll, by_consume, by_arrow])
@pytest.mark.parametrize("taken", [10, COUNT - 5])
def test_a_commit_without_arguments_commits_what_was_handed_out(
    cluster: EmbeddedCluster, group: str, taken: int, one: Callable[[confluent_kafka.Consumer], list[Message]]
) -> None:
    with Consumer(direct_settings(cluster, group_id=group)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        with pytest.raises(KafkaException) as nothing:
            consumer.commit(asynchronous=False)
        assert nothing.value.args[0].code() == KafkaError._NO_OFFSET
        take(consumer, taken, one)
        (committed_offsets,) = consumer.commit(asynchronous=False)
        assert (committed_offsets.offset, committed_offsets.leader_epoch) == (taken, 0)
    assert committed(cluster, group) == taken


@pytest.mark.parametrize("taken", [10, COUNT - 5])
def test_a_message_and_offsets_can_be_committed_at_once_and_later(cluster: EmbeddedCluster, group: str, taken: int) -> None:
    with Consumer(direct_settings(cluster, group_id=group)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, taken - 1)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        committed_offsets = consumer.commit(message=message, asynchronous=False)
        assert committed_offsets is not None
        assert [tp.offset for tp in committed_offsets] == [taken]
        assert committed(cluster, group) == taken
        assert consumer.commit(message=message) is None
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 3)], asynchronous=False)
        assert committed(cluster, group) == 3
        assert [tp.offset for tp in consumer.committed([WHOLE, TopicPartition(TOPIC, 1)], PATIENCE_SECONDS)] == [3, -1001]


def test_auto_commit_at_close_commits_only_what_was_handed_out(cluster: EmbeddedCluster, group: str) -> None:
    with Consumer(direct_settings(cluster, group_id=group, enable_auto_commit=True)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 7, by_poll)
        assert len(consumer._direct_delivery_queue.waiting) > 0
    assert committed(cluster, group) == 7


@pytest.mark.parametrize("plain", [False, True])
def test_a_refused_subscription_leaves_the_commit_at_close(cluster: EmbeddedCluster, group: str, plain: bool) -> None:
    """The consumer has gone back before its committed offset, which only its end commits."""
    settings = (plain_settings if plain else direct_settings)(cluster, group_id=group, enable_auto_commit=True)
    consumer = confluent_kafka.Consumer(settings) if plain else Consumer(settings)
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 50)], asynchronous=False)
        consumer.assign([WHOLE])
        take(consumer, 1, by_poll)
        consumer.seek(TopicPartition(TOPIC, 0, 0))
        take(consumer, 7, by_poll)
        with pytest.raises(KafkaException):
            consumer.subscribe([""])
    finally:
        consumer.close()
    assert committed(cluster, group) == 7


def test_auto_commit_commits_while_a_partition_is_read_directly(cluster: EmbeddedCluster, group: str) -> None:
    settings = direct_settings(cluster, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=50)
    with Consumer(settings) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 20)
        wait_until(lambda: consumer.committed([WHOLE], PATIENCE_SECONDS)[0].offset == 20, "the commit")


def test_auto_commit_commits_a_record_that_takes_long_to_process(cluster: EmbeddedCluster, group: str) -> None:
    settings = direct_settings(cluster, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=50)
    with Consumer(settings) as consumer, Consumer(direct_settings(cluster, group_id=group)) as other:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 7, by_poll)
        wait_until(lambda: other.committed([WHOLE], PATIENCE_SECONDS)[0].offset == 7, "the commit")


def test_storing_is_refused_while_it_is_automatic(cluster: EmbeddedCluster) -> None:
    errors = []
    for made in (confluent_kafka.Consumer(plain_settings(cluster)), Consumer(direct_settings(cluster))):
        made.assign([TopicPartition(TOPIC, 0, 0)])
        with pytest.raises(KafkaException) as refused:
            made.store_offsets(offsets=[TopicPartition(TOPIC, 0, 5)])
        error = refused.value.args[0]
        errors.append((error.code(), error.str()))
        made.close()
    assert errors[0] == errors[1]
    assert errors[0][0] == KafkaError._INVALID_ARG


@pytest.mark.parametrize("off", [False, "false", "F", 0])
def test_an_application_may_store_for_itself(cluster: EmbeddedCluster, group: str, off: object) -> None:
    with Consumer(direct_settings(cluster, group_id=group, enable_auto_offset_store=off)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        rows = take(consumer, 10)
        with pytest.raises(KafkaException) as nothing:
            consumer.commit(asynchronous=False)
        assert nothing.value.args[0].code() == KafkaError._NO_OFFSET
        consumer.store_offsets(offsets=[TopicPartition(TOPIC, 0, rows[3][2] + 1)])
        consumer.commit(asynchronous=False)
        assert committed(cluster, group) == 4
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        consumer.store_offsets(message=message)
        consumer.commit(asynchronous=False)
    assert committed(cluster, group) == 11


def test_records_of_a_partition_lost_meanwhile_are_not_stored(
    cluster: EmbeddedCluster,
) -> None:
    """A fenced static member has no assignment any more, and learns it only from the error that comes next."""
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert len(take(consumer, 10)) == 10
        confluent_kafka.Consumer.unassign(consumer)
        assert [message.offset() for message in consumer.consume(5, PATIENCE_SECONDS)] == [*range(10, 15)]
        confluent_kafka.Consumer.assign(consumer, [])


def test_a_value_that_librdkafka_refuses_is_refused_by_it(cluster: EmbeddedCluster) -> None:
    with pytest.raises(KafkaException, match=r"enable\.auto\.offset\.store"):
        Consumer(direct_settings(cluster, enable_auto_offset_store="perhaps"))


@pytest.mark.parametrize("place", ["tier", "local"])
def test_continues_at_the_committed_offset(cluster: EmbeddedCluster, group: str, expected: list[Row], place: str) -> None:
    offset = 25 if place == "tier" else tiers(cluster, TOPIC).earliest_local + 1
    with Consumer(direct_settings(cluster, group_id=group)) as consumer:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    with Consumer(direct_settings(cluster, group_id=group, auto_offset_reset="latest")) as consumer:
        consumer.assign([WHOLE])
        assert take(consumer, 3) == expected[offset : offset + 3]
        assert (from_store(consumer) > 0) == (place == "tier")


def test_a_committed_offset_that_is_gone_gives_what_confluent_kafka_gives(cluster: EmbeddedCluster, group: str) -> None:
    errors = []
    for made in (
        confluent_kafka.Consumer(plain_settings(cluster, group_id=group)),
        Consumer(direct_settings(cluster, group_id=group)),
    ):
        made.commit(offsets=[TopicPartition(TOPIC, 0, COUNT + 1000)], asynchronous=False)
        made.assign([WHOLE])
        (first,) = made.consume(1, PATIENCE_SECONDS)
        error = first.error()
        errors.append((first.offset(), None if error is None else error.code()))
        made.close()
    assert errors[0] == errors[1]


@pytest.mark.parametrize("start", [OFFSET_INVALID, OFFSET_STORED])
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("taken", [10, COUNT - 5])
def test_partition_taken_again_begins_as_with_confluent_kafka(
    cluster: EmbeddedCluster, group: str, taken: int, commits: bool, start: int
) -> None:
    """With auto commit librdkafka commits stored offsets when it revokes a partition, and then requests the committed ones."""
    begun = []
    for number, (make, settings) in enumerate(((confluent_kafka.Consumer, plain_settings), (Consumer, direct_settings))):
        made = make(settings(cluster, group_id=f"{group}-{number}", enable_auto_commit=commits))
        made.assign([TopicPartition(TOPIC, 0, taken - 3)])
        take(made, 3, by_poll)
        made.assign([TopicPartition(TOPIC, 0, start)])
        begun.append(take(made, 1, by_poll)[0][2])
        made.close()
    assert begun == [taken if commits else 0] * 2


def test_a_partition_is_taken_again_though_nothing_was_stored_of_it(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    with Consumer(direct_settings(cluster, enable_auto_commit=True)) as consumer:
        for _ in range(2):
            consumer.assign([WHOLE])
        assert take(consumer, 3) == expected[:3]


def test_several_partitions_are_stored_each_at_its_own_place(cluster: EmbeddedCluster, group: str) -> None:
    with Consumer(direct_settings(cluster, group_id=group)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 10), TopicPartition(TOPIC, 1, COUNT - 20)])
        counts = [10, COUNT - 20]
        while counts[0] == 10 or counts[1] == COUNT - 20:
            for row in take(consumer, 4):
                counts[row[1]] += 1
        committed_offsets = consumer.commit(asynchronous=False)
        assert committed_offsets is not None
        assert sorted((tp.partition, tp.offset) for tp in committed_offsets) == list(enumerate(counts))


def test_a_small_call_after_poll_stores_only_what_it_gave(cluster: EmbeddedCluster, group: str) -> None:
    with Consumer(direct_settings(cluster, group_id=group)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 1, by_poll)
        assert len(consumer.consume(2, PATIENCE_SECONDS)) == 2
        assert consumer.position([WHOLE])[0].offset == 3
        committed_offsets = consumer.commit(asynchronous=False)
        assert committed_offsets is not None
        assert committed_offsets[0].offset == 3


@pytest.mark.parametrize("kind", ["plain", "direct"])
def test_former_group_member_takes_a_partition_again_as_ever(cluster: EmbeddedCluster, group: str, kind: str) -> None:
    settings = (plain_settings if kind == "plain" else direct_settings)(cluster, group_id=group, enable_auto_commit=True)
    with (confluent_kafka.Consumer if kind == "plain" else Consumer)(settings) as made:
        made.subscribe([TOPIC])
        made.unsubscribe()
        made.assign([TopicPartition(TOPIC, 0, 7)])
        take(made, 3, by_poll)
        made.assign([WHOLE])
        assert take(made, 1, by_poll)[0][2] == 10


@pytest.mark.parametrize("one", [by_poll, by_consume])
def test_cached_watermarks_are_known_at_every_record_of_both_tiers(
    cluster: EmbeddedCluster, one: Callable[[confluent_kafka.Consumer], list[Message]]
) -> None:
    with Consumer(direct_settings(cluster, enable_partition_eof=False)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        seen = set()
        for _ in range(COUNT):
            take(consumer, 1, one)
            seen.add(consumer.get_watermark_offsets(WHOLE, cached=True)[1])
            seen.add(consumer.get_watermark_offsets(WHOLE, PATIENCE_SECONDS, True)[1])
        assert seen == {COUNT}
