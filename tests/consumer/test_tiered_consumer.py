"""Which tier delivered a record, and direct fetch turned off and on again, on both tiers of an embedded cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_END, Message, TopicPartition

from kafka_remote_client import AIOConsumer, AsyncDeserializingConsumer, Consumer, DeserializingConsumer
from kafka_remote_client.consumer.tier_log import Tier
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from tests.support.arrow_reading import by_arrow
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    Row,
    by_consume,
    by_poll,
    direct_settings,
    fallbacks,
    fill_topic,
    filled_cluster,
    from_broker,
    from_store,
    is_end,
    plain_rows,
    plain_settings,
    read_to_ends,
    records,
    small_cluster,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COUNT = 400
TOPIC = "orders"
PARTITIONS = 3
Take = Callable[[confluent_kafka.Consumer], list[Message]]
EACH_CALL = pytest.mark.parametrize("one", [by_poll, by_consume, by_arrow])


cluster = filled_cluster(TOPIC, COUNT, partitions=range(PARTITIONS))


@pytest.fixture(scope="module")
def local_start(cluster: EmbeddedCluster) -> int:
    start = tiers(cluster, TOPIC).earliest_local
    assert 150 < start < COUNT - 5
    return start


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> list[Row]:
    return plain_rows(cluster, TOPIC)


@pytest.fixture
def consumer(cluster: EmbeddedCluster) -> Iterator[Consumer]:
    made = Consumer(direct_settings(cluster, fetch_remote_recheck_interval_ms=100))
    yield made
    made.close()


def at(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def record(offset: int, partition: int = 0, topic: str = TOPIC) -> Message:
    return Message(topic=topic, partition=partition, offset=offset, value=b"")


def tiers_of(consumer: Consumer, *offsets: int, partition: int = 0) -> list[Tier | None]:
    return [consumer.tier(record(offset, partition)) for offset in offsets]


def held_bytes(consumer: Consumer) -> int:
    held = consumer.metrics()["remote-fetch-buffer-bytes"]
    assert isinstance(held, int)
    return held


# -- which tier ------------------------------------------------------------------------------------------------------------


@EACH_CALL
def test_each_record_is_told_from_where_it_came_when_it_comes_and_later(
    consumer: Consumer, local_start: int, one: Take
) -> None:
    consumer.assign([at(0, partition) for partition in range(PARTITIONS)])
    seen: list[tuple[Message, Tier | None]] = []
    ended = 0
    while ended < PARTITIONS:
        for message in one(consumer):
            if is_end(message):
                ended += 1
                assert consumer.tier(message) is None
            else:
                seen.append((message, consumer.tier(message)))
    assert len(seen) == PARTITIONS * COUNT
    for message, then in seen:
        assert then == ("remote" if (message.offset() or 0) < local_start else "broker")
        assert consumer.tier(message) == then
    assert sum(then is Tier.REMOTE for _, then in seen) == from_store(consumer)


@EACH_CALL
def test_undelivered_records_have_no_tier(consumer: Consumer, one: Take) -> None:
    consumer.assign([at(20)])
    rows = take(consumer, 30, one)
    assert len(rows) == 30
    assert tiers_of(consumer, 19, 20, 49, 50, COUNT - 1, COUNT) == [None, Tier.REMOTE, Tier.REMOTE, None, None, None]
    assert consumer.tier(record(20, partition=1)) is None
    assert consumer.tier(record(20, topic="elsewhere")) is None
    assert take(consumer, 5, one)[0][2] == 50, "asking moves nothing"


@EACH_CALL
def test_the_latest_delivery_counts_across_seeks_and_assignments(consumer: Consumer, local_start: int, one: Take) -> None:
    consumer.assign([at(0)])
    take(consumer, 40, one)
    consumer.seek(at(local_start))
    take(consumer, 3, one)
    assert tiers_of(consumer, 0, 39, 40, local_start, local_start + 2) == [*[Tier.REMOTE] * 2, None, *[Tier.BROKER] * 2]
    consumer.set_remote_fetch(False)
    consumer.seek(at(10))
    take(consumer, 5, one)
    assert tiers_of(consumer, 9, 10, 14, 15) == [Tier.REMOTE, Tier.BROKER, Tier.BROKER, Tier.REMOTE]
    consumer.set_remote_fetch(True)
    consumer.assign([at(12, 0), at(0, 1)])
    consumer.pause([at(0, 1)])
    take(consumer, 1, one)
    assert tiers_of(consumer, 10, 11, 12, 13, 15) == [Tier.BROKER, Tier.BROKER, Tier.REMOTE, Tier.BROKER, Tier.REMOTE]
    consumer.unassign()
    assert tiers_of(consumer, 11, 12, 13, local_start) == [Tier.BROKER, Tier.REMOTE, Tier.BROKER, Tier.BROKER]
    consumer.close()
    assert tiers_of(consumer, 11, 12, 13, local_start) == [Tier.BROKER, Tier.REMOTE, Tier.BROKER, Tier.BROKER]


@EACH_CALL
def test_the_first_record_shows_where_the_broker_began(tmp_path: Path, one: Take) -> None:
    with small_cluster(tmp_path) as cluster, Consumer(direct_settings(cluster)) as consumer:
        fill_topic(cluster, TOPIC, 100)
        consumer.assign([at(0)])
        take(consumer, 20, one)
        consumer.seek(at(OFFSET_END))
        while not any(is_end(message) for message in one(consumer)):
            pass
        cluster.produce(TOPIC, records(5), partition=0)
        rows = take(consumer, 5, one)
        assert [r[2] for r in rows] == [*range(100, 105)]
        assert tiers_of(consumer, 0, 19, 20, 99, 100, 104, 105) == [
            *[Tier.REMOTE] * 2,
            *[None] * 2,
            *[Tier.BROKER] * 2,
            None,
        ]
        assert not consumer._direct_deliveries._tiers.unplaced  # type: ignore[attr-defined] # of the class that it became


def test_where_the_log_ends_before_the_start_the_reset_policy_decides(consumer: Consumer, local_start: int) -> None:
    consumer.assign([at(COUNT + 50)])
    take(consumer, 10)
    assert tiers_of(consumer, 0, 9) == [Tier.BROKER] * 2
    assert tiers_of(consumer, 10, COUNT + 50) == [None] * 2


def test_rebalances_forget_nothing_that_was_delivered(cluster: EmbeddedCluster, local_start: int) -> None:
    def revoked(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
        before.append(tiers_of(subscribed, *offsets))

    subscribed = Consumer(direct_settings(cluster))
    before: list[list[Tier | None]] = []
    offsets = (0, local_start - 1, local_start, COUNT - 1, COUNT)
    with subscribed as consumer:
        consumer.subscribe([TOPIC], on_revoke=revoked)
        read_to_ends(consumer)
        expected = [Tier.REMOTE, Tier.REMOTE, Tier.BROKER, Tier.BROKER, None]
        assert tiers_of(consumer, *offsets) == expected
        consumer.unsubscribe()
        wait_until(lambda: consumer.poll(0.1) is None and bool(before), "the revocation", seconds=PATIENCE_SECONDS)
        assert before == [expected]
        assert tiers_of(consumer, *offsets) == expected
    assert tiers_of(subscribed, *offsets) == expected


def test_without_direct_fetch_each_record_is_the_brokers(cluster: EmbeddedCluster) -> None:
    with Consumer(plain_settings(cluster)) as consumer:
        consumer.assign([at(0)])
        messages = consumer.consume(5, PATIENCE_SECONDS)
        assert [consumer.tier(message) for message in messages] == [Tier.BROKER] * 5
        assert consumer.tier(Message(topic=TOPIC, error=confluent_kafka.KafkaError(-191))) is None


def test_a_deserializing_consumer_has_tiers_too(cluster: EmbeddedCluster) -> None:
    with DeserializingConsumer(direct_settings(cluster)) as consumer:
        consumer.assign([at(0)])
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert consumer.tier(message) is Tier.REMOTE
        consumer.set_remote_fetch(False)
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        assert (message.offset(), consumer.tier(message)) == (1, Tier.BROKER)


@pytest.mark.parametrize("deserializing", [False, True])
def test_asyncio_consumers_have_tiers_too(cluster: EmbeddedCluster, deserializing: bool) -> None:
    async def scenario() -> list[Tier | None]:
        settings = direct_settings(cluster)
        made = await AsyncDeserializingConsumer(settings) if deserializing else AIOConsumer(settings)  # type: ignore[misc] # upstream's constructor is awaited
        tiers = []
        async with made as consumer:
            await consumer.assign([at(0)])
            first = await consumer.poll(PATIENCE_SECONDS)
            tiers.append(await consumer.tier(first))
            await consumer.set_remote_fetch(False)
            second = await consumer.poll(PATIENCE_SECONDS)
            tiers.append(await consumer.tier(second))
        tiers.append(await made.tier(first))
        return tiers

    assert asyncio.run(scenario()) == [Tier.REMOTE, Tier.BROKER, Tier.REMOTE]


# -- off and on again ------------------------------------------------------------------------------------------------------


@EACH_CALL
def test_broker_continues_at_the_exact_next_record_after_the_switch_off(
    consumer: Consumer, expected: list[Row], one: Take
) -> None:
    consumer.assign([at(0)])
    rows = take(consumer, 33, one)
    consumer.set_remote_fetch(False)
    rows += take(consumer, 1, one)
    wait_until(lambda: held_bytes(consumer) == 0, "ranges on their way to have come")
    direct = from_store(consumer)
    rows += read_to_ends(consumer, one)[TOPIC, 0]
    assert rows == expected
    assert tiers_of(consumer, 32, 33) == [Tier.REMOTE, Tier.BROKER]
    assert from_store(consumer) == direct
    assert fallbacks(consumer) == {"turned-off": 1}


@EACH_CALL
def test_each_partition_goes_over_and_comes_back_where_it_is(cluster: EmbeddedCluster, consumer: Consumer, one: Take) -> None:
    consumer.assign([at(0, partition) for partition in range(PARTITIONS)])
    rows: dict[int, list[Row]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(6):
        for r in take(consumer, 100, one):
            rows[r[1]].append(r)
        consumer.set_remote_fetch(bool(number % 2))
    for (_, partition), more in read_to_ends(consumer, one).items():
        rows[partition] += more
    for partition in range(PARTITIONS):
        assert rows[partition] == plain_rows(cluster, TOPIC, partition)
    assert from_broker(consumer) > 0
    assert set(fallbacks(consumer)) == {"turned-off"}


def test_later_assignments_and_seeks_stay_with_the_broker(consumer: Consumer, expected: list[Row]) -> None:
    consumer.set_remote_fetch(False)
    consumer.assign([at(0)])
    assert take(consumer, 20) == expected[:20]
    consumer.seek(at(5))
    assert take(consumer, 20) == expected[5:25]
    assert from_store(consumer) == 0
    assert fallbacks(consumer) == {}
    assert consumer.metrics()["remote-fetch-location-request-total"] == 0


@EACH_CALL
def test_turned_on_again_what_lies_in_the_tier_is_read_directly(consumer: Consumer, expected: list[Row], one: Take) -> None:
    consumer.set_remote_fetch(False)
    consumer.assign([at(0)])
    rows = take(consumer, 10, one)
    consumer.set_remote_fetch(True)

    def read_more() -> bool:
        if len(rows) < COUNT:
            rows.extend(take(consumer, 1, by_poll))
        else:
            consumer.seek(at(10))
            del rows[10:]
        return from_store(consumer) > 0

    wait_until(read_more, "records from the store", seconds=PATIENCE_SECONDS)
    rows += read_to_ends(consumer, one)[TOPIC, 0]
    assert rows == expected


@EACH_CALL
def test_a_paused_partition_goes_over_when_it_is_resumed(consumer: Consumer, expected: list[Row], one: Take) -> None:
    consumer.assign([at(0, 0), at(0, 1)])
    consumer.pause([at(0, 1)])
    rows = take(consumer, 30, one)
    consumer.pause([at(0, 0)])
    consumer.resume([at(0, 1)])
    other = take(consumer, 10, one)
    consumer.set_remote_fetch(False)
    other += take(consumer, 10, one)
    assert {r[1] for r in other} == {1}, "what is paused delivers nothing"
    assert [tp.offset for tp in consumer.position([at(0, 0), at(0, 1)])] == [30, 20]
    consumer.pause([at(0, 1)])
    consumer.resume([at(0, 0)])
    rows += take(consumer, 30, one)
    assert rows == expected[:60]
    assert tiers_of(consumer, 29, 30) == [Tier.REMOTE, Tier.BROKER]
    assert fallbacks(consumer) == {"turned-off": 2}


def test_seek_and_assignment_right_after_it_are_heeded(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(0)])
    take(consumer, 10)
    consumer.set_remote_fetch(False)
    consumer.seek(at(100))
    assert take(consumer, 10) == expected[100:110]
    assert tiers_of(consumer, 100) == [Tier.BROKER]
    consumer.pause([at(0)])
    consumer.set_remote_fetch(True)
    consumer.seek(at(50))
    consumer.set_remote_fetch(False)
    consumer.resume([at(0)])
    assert take(consumer, 10) == expected[50:60]
    assert tiers_of(consumer, 50) == [Tier.BROKER]


def test_another_thread_may_turn_it_off_while_poll_waits(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster, Consumer(direct_settings(cluster)) as consumer:
        fill_topic(cluster, TOPIC, 100, partitions=range(2))
        consumer.assign([at(0, 0), at(100, 1)])
        consumer.pause([at(0, 0)])
        while not any(is_end(message) for message in by_consume(consumer)):
            pass
        came: list[Message | None] = []
        thread = threading.Thread(target=lambda: came.append(consumer.poll(PATIENCE_SECONDS)))
        thread.start()
        consumer.set_remote_fetch(False)
        wait_until(lambda: fallbacks(consumer) == {"turned-off": 1}, "the partition to go over", seconds=PATIENCE_SECONDS)
        wait_until(lambda: held_bytes(consumer) == 0, "ranges on their way to have come")
        assert thread.is_alive()
        cluster.produce(TOPIC, records(1), partition=1)
        thread.join(PATIENCE_SECONDS)
        assert came[0] is not None
        assert came[0].offset() == 100
        consumer.resume([at(0, 0)])
        assert [r[2] for r in take(consumer, 10)] == [*range(10)]
        assert from_store(consumer) == 0


def test_a_consumer_that_was_built_without_cannot_turn_it_on(cluster: EmbeddedCluster) -> None:
    with Consumer(plain_settings(cluster)) as consumer:
        consumer.set_remote_fetch(False)
        with pytest.raises(ConfigurationError, match="when this consumer was created"):
            consumer.set_remote_fetch(True)


def test_restart_without_direct_fetch_continues_at_the_groups_commit(cluster: EmbeddedCluster, expected: list[Row]) -> None:
    group = {"group_id": "downgraded", "fetch_remote_topics": f"^{TOPIC}$"}
    with Consumer(direct_settings(cluster, **group)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        rows = take(consumer, 77)
        assert from_store(consumer) == 77
        consumer.commit(asynchronous=False)
    with Consumer({**direct_settings(cluster, **group), "fetch.remote.enabled": False}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        rows += read_to_ends(consumer)[TOPIC, 0]
        assert type(consumer) is Consumer
    assert rows == expected
