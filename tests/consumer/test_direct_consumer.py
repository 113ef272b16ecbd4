"""Delivery, flow control and positions of the consumer on both tiers, compared with confluent_kafka.Consumer."""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client import Consumer
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
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
    rows_of,
    small_cluster,
    take,
    tiers,
)

pytestmark = pytest.mark.embedded

COUNT = 400
TOPIC = "orders"
Take = Callable[[confluent_kafka.Consumer], list[Message]]
EACH_CALL = pytest.mark.parametrize("one", [by_poll, by_consume, by_arrow])


cluster = filled_cluster(TOPIC, COUNT, partitions=range(4))


@pytest.fixture(scope="module")
def local_start(cluster: EmbeddedCluster) -> int:
    offsets = tiers(cluster, TOPIC)
    assert 100 < offsets.earliest_local < COUNT - 5
    return offsets.earliest_local


@pytest.fixture(scope="module")
def expected(cluster: EmbeddedCluster) -> list[Row]:
    return plain_rows(cluster, TOPIC)


@pytest.fixture
def consumer(cluster: EmbeddedCluster) -> Iterator[Consumer]:
    made = Consumer(direct_settings(cluster))
    yield made
    made.close()


def at(offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(TOPIC, partition, offset)


def offsets_of(positions: list[TopicPartition]) -> list[int]:
    return [tp.offset for tp in positions]


# -- delivery --------------------------------------------------------------------------------------------------------------


@EACH_CALL
def test_store_serves_all_below_the_local_log_and_the_broker_the_rest(
    consumer: Consumer, expected: list[Row], local_start: int, one: Take
) -> None:
    consumer.assign([at(0)])
    assert read_to_ends(consumer, one)[TOPIC, 0] == expected
    assert (from_store(consumer), from_broker(consumer)) == (local_start, COUNT - local_start)
    assert fallbacks(consumer) == {}
    assert consumer.metrics()["remote-fetch-handovers-total"] == 1


def test_poll_and_consume_may_alternate(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(0)])
    rows: list[Row] = []
    for size in (1, 3, 1, 1, 50, 1, 2, 200):
        rows += take(consumer, size, by_poll if size == 1 else by_consume)
    assert rows == expected[: len(rows)]


@pytest.mark.parametrize(("topics", "directly"), [("payments,^orders-", False), ("payments,^ord", True), (TOPIC, True)])
def test_only_topics_on_the_list_are_read_directly(
    cluster: EmbeddedCluster, expected: list[Row], topics: str, directly: bool
) -> None:
    with Consumer(direct_settings(cluster, fetch_remote_topics=topics)) as consumer:
        consumer.assign([at(0)])
        assert read_to_ends(consumer)[TOPIC, 0] == expected
        assert (from_store(consumer) > 0) == directly
        assert fallbacks(consumer) == {}


def test_a_limit_slows_the_reading_and_sends_nothing_to_the_broker(
    cluster: EmbeddedCluster, expected: list[Row], local_start: int
) -> None:
    with Consumer(direct_settings(cluster, fetch_remote_max_requests_per_second=4)) as consumer:
        consumer.assign([at(0), at(0, 1)])
        rows = read_to_ends(consumer)
        metrics = consumer.metrics()
        assert rows[TOPIC, 0] == expected
        assert from_store(consumer) >= 2 * local_start
        assert fallbacks(consumer) == {}
    assert metrics["remote-fetch-errors-total"] == {}


@EACH_CALL
def test_many_partitions_are_read_each_in_order(cluster: EmbeddedCluster, consumer: Consumer, one: Take) -> None:
    consumer.assign([at(7 * partition, partition) for partition in range(4)])
    rows = read_to_ends(consumer, one)
    for partition in range(4):
        assert rows[TOPIC, partition] == plain_rows(cluster, TOPIC, partition)[7 * partition :]


@EACH_CALL
def test_no_tier_starves_the_other(consumer: Consumer, local_start: int, one: Take) -> None:
    consumer.assign([at(0, 0), at(local_start, 1)])
    consumer.pause([at(0, 0)])
    take(consumer, 1)  # the rest of the local records is fetched by now
    consumer.resume([at(0, 0)])
    assert consumer._direct_engine.wait(PATIENCE_SECONDS)
    rows: list[Row] = []
    while len(rows) < (30 if one is by_consume else 200):  # poll() takes slices in turn
        batch = consumer.consume(4, 1) if one is by_consume else one(consumer)
        rows += rows_of([message for message in batch if not is_end(message)])  # the local partition may reach its end
    assert all(sum(1 for r in rows if r[1] == partition) >= 10 for partition in (0, 1))


@pytest.mark.parametrize("value", [None, b""])
def test_a_record_without_a_value_is_a_message_like_any_other(cluster: EmbeddedCluster, value: bytes | None) -> None:
    topic = f"tombstones-{value is None}"
    for _ in range(30):
        cluster.produce(topic, [(b"k" * 50, value)] * 10)
    cluster.archive()
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        messages = []
        while len(messages) < 300:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            messages.append(message)
        assert [m.offset() for m in messages] == list(range(300))
        assert {m.value() for m in messages} == {value}
        assert from_store(consumer) > 200


def test_headers_and_timestamps_are_those_of_the_broker_path(cluster: EmbeddedCluster) -> None:
    topic = "headers"
    producer = cluster.producer(batch_num_messages=10)
    for n in range(200):
        headers: list[tuple[str, Any]] = [("a", b"1"), ("a", None), ("\u00fc", b"\xff")] if n % 3 else []
        producer.produce(topic, b"v" * 40, b"k", 0, headers=headers, timestamp=1_600_000_000_000 + n)
    assert producer.flush(PATIENCE_SECONDS) == 0
    cluster.archive()
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert read_to_ends(consumer)[topic, 0] == plain_rows(cluster, topic)
        assert from_store(consumer) > 100


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_both_isolation_levels_are_served(cluster: EmbeddedCluster, expected: list[Row], isolation: str) -> None:
    with Consumer(direct_settings(cluster, isolation_level=isolation)) as consumer:
        consumer.assign([at(0)])
        assert read_to_ends(consumer)[TOPIC, 0] == expected
        assert from_store(consumer) > 0


def test_consume_waits_for_all_until_the_timeout(consumer: Consumer, expected: list[Row], local_start: int) -> None:
    consumer.assign([at(local_start - 5)])
    batch = consumer.consume(COUNT - local_start + 5, PATIENCE_SECONDS)  # both tiers in one call
    assert rows_of(batch) == expected[local_start - 5 :]
    clock = SystemClock()
    began = clock.monotonic()
    rest = consumer.consume(10, 0.3)
    assert all(map(is_end, rest)), "and the end may still be on its way"
    assert clock.monotonic() - began >= 0.29, "fewer than asked for: the whole time is waited"


def test_consume_without_time_gives_what_is_there(consumer: Consumer) -> None:
    consumer.assign([at(0)])
    take(consumer, 1)
    while not (batch := consumer.consume(10_000, 0)):
        pass
    assert len(batch) <= COUNT


@pytest.mark.parametrize("number", [-1, 1_000_001])
def test_consume_refuses_what_confluent_kafka_refuses(consumer: Consumer, number: int) -> None:
    with pytest.raises(ValueError, match="num_messages must be between 0 and 1000000"):
        consumer.consume(number, 1.0)


def test_consume_of_nothing_gives_nothing_at_once(consumer: Consumer) -> None:
    consumer.assign([at(0)])
    assert consumer.consume(0, PATIENCE_SECONDS) == []
    assert consumer.consume(num_messages=0) == []


@pytest.mark.parametrize("timeout", [-1, -0.5])
def test_a_negative_timeout_waits_without_end(consumer: Consumer, expected: list[Row], timeout: float) -> None:
    consumer.assign([at(0)])
    assert rows_of(consumer.consume(30, timeout)) == expected[:30]
    message = consumer.poll(timeout)
    assert message is not None
    assert rows_of([message]) == expected[30:31]
    consumer.seek(at(COUNT - 1))
    assert rows_of(consumer.consume(1, timeout)) == expected[-1:]


@EACH_CALL
def test_the_end_is_said_once_each_time_it_is_reached(cluster: EmbeddedCluster, one: Take) -> None:
    topic = fill_topic(cluster, f"ends-{one.__name__}", 200)
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert len(read_to_ends(consumer, one)[topic, 0]) == 200
        assert consumer.consume(5, 0.5) == []
        cluster.produce(topic, [(b"k", b"v")])
        assert len(read_to_ends(consumer, one)[topic, 0]) == 1
        consumer.seek(TopicPartition(topic, 0, 0))
        assert len(read_to_ends(consumer, one)[topic, 0]) == 201
        assert consumer.consume(5, 0.5) == []


def test_a_partition_that_is_all_tiered_ends_once(tmp_path: Path) -> None:
    with small_cluster(tmp_path) as cluster:  # of its own, because all topics of a cluster are archived together
        cluster.produce(TOPIC, [(b"k", b"v" * 50)] * 100)
        cluster.archive(keep_open=False)
        with Consumer(direct_settings(cluster)) as consumer:
            consumer.assign([at(0)])
            assert len(read_to_ends(consumer)[TOPIC, 0]) == 100
            assert consumer.consume(1, 0.5) == []
            assert from_store(consumer) == 100


def test_a_topic_may_be_created_after_its_partition_was_assigned(cluster: EmbeddedCluster) -> None:
    topic = "later"
    with Consumer(direct_settings(cluster, topic_metadata_refresh_interval_ms=100)) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        consumer.poll(0.1)
        fill_topic(cluster, topic, 150)
        rows: list[int] = []
        while len(rows) < 150:
            rows += [m.offset() for m in by_consume(consumer) if m.error() is None]
        assert rows == list(range(150))


# -- seek ------------------------------------------------------------------------------------------------------------------


@EACH_CALL
def test_seek_goes_to_the_exact_record_on_either_tier(
    consumer: Consumer, expected: list[Row], local_start: int, one: Take
) -> None:
    consumer.assign([at(0)])
    for offset in (local_start + 1, 3, local_start - 1, local_start, 0, COUNT - 1, 50, 40):
        consumer.seek(at(offset))
        assert offsets_of(consumer.position([at(0)])) == [-1001]
        count = min(8, COUNT - offset)
        assert take(consumer, count, one) == expected[offset : offset + count]
        assert offsets_of(consumer.position([at(0)])) == [offset + count]


def test_seek_takes_logical_offsets(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(20)])
    take(consumer, 5)
    consumer.seek(at(OFFSET_END))
    assert [is_end(message) for message in consumer.consume(1, PATIENCE_SECONDS)] == [True]
    consumer.seek(at(OFFSET_BEGINNING))
    assert take(consumer, 10) == expected[:10]
    assert from_store(consumer) > 10


def test_seek_while_records_fly_delivers_nothing_of_before(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(0)])
    for offset in (100, 30, 170, 5, 90):
        consumer.seek(at(offset))  # at once, whatever is in flight
    assert take(consumer, 20) == expected[90:110]
    for offset in (10, 60):
        message = consumer.poll(PATIENCE_SECONDS)  # gathers ahead
        assert message is not None
        consumer.seek(at(offset))
        assert take(consumer, 3, by_poll) == expected[offset : offset + 3]


@pytest.mark.parametrize("target", ["tier", "local"])
def test_seek_while_paused_stays_paused_and_continues_there(
    consumer: Consumer, expected: list[Row], local_start: int, target: str
) -> None:
    offset = 30 if target == "tier" else local_start + 2
    consumer.assign([at(0)])
    take(consumer, 5)
    consumer.pause([at(0)])
    consumer.seek(at(offset))
    assert consumer.consume(10, 0.3) == []
    consumer.resume([at(0)])
    assert take(consumer, 5) == expected[offset : offset + 5]


def test_seek_without_assignment_is_refused_as_by_confluent_kafka(consumer: Consumer) -> None:
    consumer.assign([at(0)])
    with pytest.raises(KafkaException) as refused:
        consumer.seek(TopicPartition("nowhere", 3, 5))
    assert refused.value.args[0].code() == confluent_kafka.KafkaError._UNKNOWN_PARTITION


@pytest.mark.parametrize(
    "call", ["assign", "incremental_assign", "pause", "resume", "position", "seek", "incremental_unassign"]
)
@pytest.mark.parametrize("wrong", ["text", 5, None, [1]])
def test_what_is_no_partition_is_refused_as_by_confluent_kafka(cluster: EmbeddedCluster, call: str, wrong: object) -> None:
    results = []
    for kind, settings in ((confluent_kafka.Consumer, plain_settings(cluster)), (Consumer, direct_settings(cluster))):
        made = kind(settings)
        with pytest.raises(TypeError) as refused:
            getattr(made, call)(wrong)
        results.append(str(refused.value))
        made.close()
    assert results[0] == results[1]


# -- pause and resume ------------------------------------------------------------------------------------------------------


@EACH_CALL
@pytest.mark.parametrize("start", ["tier", "local"])
def test_pause_delivers_nothing_and_resume_gives_the_exact_next_record(
    consumer: Consumer, expected: list[Row], local_start: int, one: Take, start: str
) -> None:
    offset = 17 if start == "tier" else local_start + 1
    consumer.assign([at(offset)])
    for _ in range(3):
        assert take(consumer, 3, one) == expected[offset : offset + 3]
        offset += 3
        consumer.pause([at(0)])
        consumer.pause([at(0)])
        assert consumer.poll(0.1) is None
        assert consumer.consume(10, 0.1) == []
        assert offsets_of(consumer.position([at(0)])) == [offset]
        consumer.resume([at(0)])
    assert take(consumer, 3, one) == expected[offset : offset + 3]


def test_a_paused_partition_does_not_hold_up_the_others(consumer: Consumer) -> None:
    consumer.assign([at(0, 0), at(0, 1)])
    consumer.pause([at(0, 0)])
    assert {r[1] for r in take(consumer, 200)} == {1}
    consumer.resume([at(0, 0)])
    rows = [r for r in take(consumer, 2 * COUNT - 200) if r[1] == 0]
    assert [r[2] for r in rows] == list(range(COUNT))


def test_resuming_what_is_not_paused_changes_nothing(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(0)])
    rows = take(consumer, 5)
    consumer.resume([at(0), TopicPartition("elsewhere", 0)])
    rows += take(consumer, 300)
    assert rows == expected[:305]


@pytest.mark.parametrize("kind", ["plain", "direct"])
def test_a_pause_outlives_the_assignment(cluster: EmbeddedCluster, expected: list[Row], kind: str) -> None:
    plain = kind == "plain"
    made = confluent_kafka.Consumer(plain_settings(cluster)) if plain else Consumer(direct_settings(cluster))
    made.assign([at(0)])
    take(made, 3)
    made.pause([at(0)])
    made.unassign()
    made.assign([at(10)])
    assert made.poll(0.5) is None
    made.resume([at(0)])
    assert take(made, 3) == expected[10:13]
    made.close()


def test_our_own_pause_does_not_outlive_the_assignment(consumer: Consumer, expected: list[Row], local_start: int) -> None:
    consumer.assign([at(0)])
    take(consumer, 3)
    consumer.unassign()
    consumer.assign([at(local_start)])
    assert take(consumer, 3) == expected[local_start : local_start + 3]


# -- assignment ------------------------------------------------------------------------------------------------------------


def test_a_new_assignment_discards_the_old_position(consumer: Consumer, expected: list[Row]) -> None:
    consumer.assign([at(0)])
    assert consumer.poll(PATIENCE_SECONDS) is not None
    consumer.assign([at(100), at(5, 1)])
    assert offsets_of(consumer.position([at(0), at(0, 1)])) == [-1001, -1001]
    rows = take(consumer, 40)
    assert [r for r in rows if r[1] == 0] == expected[100 : 100 + len([r for r in rows if r[1] == 0])]
    consumer.unassign()
    assert consumer.assignment() == []
    assert consumer.consume(10, 0.2) == []


def test_partitions_come_and_go_one_by_one(consumer: Consumer, expected: list[Row]) -> None:
    consumer.incremental_assign([at(0)])
    take(consumer, 5)
    consumer.incremental_assign([at(0, 1)])
    with pytest.raises(KafkaException):
        consumer.incremental_assign([at(0, 1)])
    seen: set[int] = set()
    while seen != {0, 1}:
        seen |= {r[1] for r in take(consumer, 10)}
    consumer.incremental_unassign([at(0, 1)])
    consumer.seek(at(0))
    assert take(consumer, 50) == expected[:50]
    assert sorted((tp.topic, tp.partition) for tp in consumer.assignment()) == [(TOPIC, 0)]


def test_an_assignment_says_where_partitions_were_assigned(cluster: EmbeddedCluster, consumer: Consumer) -> None:
    plain = confluent_kafka.Consumer(plain_settings(cluster))
    for one in (plain, consumer):
        one.commit(offsets=[TopicPartition(TOPIC, 2, 9, leader_epoch=0)], asynchronous=False)
        one.assign([at(7), TopicPartition(TOPIC, 1, 3, leader_epoch=0), at(OFFSET_INVALID, 2), at(OFFSET_BEGINNING, 3)])
    assert [(tp.partition, tp.offset, tp.leader_epoch) for tp in consumer.assignment()] == [
        (tp.partition, tp.offset, tp.leader_epoch) for tp in plain.assignment()
    ]
    plain.close()


def test_metadata_of_an_assignment_and_of_a_question_come_back(cluster: EmbeddedCluster, consumer: Consumer) -> None:
    told = []
    plain = confluent_kafka.Consumer(plain_settings(cluster))
    for one in (plain, consumer):
        one.assign([TopicPartition(TOPIC, 0, 7, "mine", 0), TopicPartition(TOPIC, 1, OFFSET_INVALID, "none"), at(9, 2)])
        one.incremental_assign([TopicPartition(TOPIC, 3, OFFSET_END, "end")])
        asked = [TopicPartition(TOPIC, 0, 0, "asked"), TopicPartition(TOPIC, 1, 0)]
        told.append([(tp.partition, tp.offset, tp.leader_epoch, tp.metadata) for tp in one.assignment()])
        told[-1] += [(tp.partition, tp.offset, tp.leader_epoch, tp.metadata) for tp in one.position(asked)]
    plain.close()
    assert told[1] == told[0]
    assert {metadata for *_, metadata in told[0]} == {"mine", "none", "end", "asked", None}


def test_seek_to_no_offset_fails_the_poll_where_the_policy_is_error(cluster: EmbeddedCluster) -> None:
    asked: dict[str, object] = {"auto_offset_reset": "error"}
    for one in (confluent_kafka.Consumer(plain_settings(cluster, **asked)), Consumer(direct_settings(cluster, **asked))):
        one.assign([at(COUNT - 5)])
        take(one, 5)
        one.seek(at(OFFSET_INVALID))
        while (message := one.poll(PATIENCE_SECONDS)) is not None and is_end(message):
            pass
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._AUTO_OFFSET_RESET
        one.close()


@pytest.mark.parametrize("offset", [7, COUNT - 1, 10 * COUNT])
def test_a_failed_seek_names_the_offset_of_the_call(cluster: EmbeddedCluster, offset: int) -> None:
    """librdkafka refuses seeks in a partition that failed to reset its offset."""
    said: list[KafkaError] = []
    for one in (
        confluent_kafka.Consumer(plain_settings(cluster, auto_offset_reset="error")),
        Consumer(direct_settings(cluster, auto_offset_reset="error")),
    ):
        one.assign([at(COUNT * 10)])
        while (message := one.poll(PATIENCE_SECONDS)) is not None and is_end(message):
            pass
        with pytest.raises(KafkaException) as failure:
            one.seek(at(offset))
        said.append(failure.value.args[0])
        one.close()
    assert said[0].str() == said[1].str()
    assert (said[0].code(), said[0].fatal()) == (said[1].code(), said[1].fatal())


def test_pause_holds_for_a_known_topics_partition_assigned_later(cluster: EmbeddedCluster) -> None:
    for one in (confluent_kafka.Consumer(plain_settings(cluster)), Consumer(direct_settings(cluster))):
        one.assign([at(0)])
        take(one, 1)
        one.pause([at(0, 1)])
        one.incremental_assign([at(0, 1)])
        assert {r[1] for r in take(one, COUNT - 1)} == {0}
        assert not [message for message in one.consume(1, 0.3) if not is_end(message)]
        one.resume([at(0, 1)])
        assert {r[1] for r in take(one, 10)} == {1}
        one.close()


@pytest.mark.parametrize(
    ("heard", "paused"),
    [
        (lambda _: None, False),
        (lambda one: one.position([at(0)]), True),
        (lambda one: one.list_topics(TOPIC, PATIENCE_SECONDS), True),
        (lambda one: one.get_watermark_offsets(at(0), cached=True), True),
    ],
    ids=["nothing", "position", "list_topics", "watermarks"],
)
def test_pause_before_an_assignment_holds_as_with_confluent_kafka(
    cluster: EmbeddedCluster, heard: Callable[[confluent_kafka.Consumer], object], paused: bool
) -> None:
    for one in (confluent_kafka.Consumer(plain_settings(cluster)), Consumer(direct_settings(cluster))):
        heard(one)
        one.pause([at(0)])
        one.assign([at(0), at(0, 1)])
        assert {row[1] for row in take(one, COUNT)} == {1} or not paused
        assert not paused or not [message for message in one.consume(1, 0.3) if not is_end(message)]
        one.resume([at(0)])
        assert {row[1] for row in take(one, COUNT)} | {int(paused)} == {0, 1}
        one.close()


@pytest.mark.parametrize("leave", [lambda one: one.unassign(), lambda one: one.seek(at(0))], ids=["unassign", "seek"])
def test_a_gathered_end_is_not_delivered_after_a_change(consumer: Consumer, leave: Callable[[Consumer], None]) -> None:
    consumer.assign([at(COUNT)])
    inner: Any = consumer
    inner._direct_deliveries.gathered.add([Message(TOPIC, 0, COUNT, error=KafkaError(KafkaError._PARTITION_EOF))])
    leave(consumer)
    message = consumer.poll(0)
    assert message is None or not is_end(message)


def test_positions_are_those_of_confluent_kafka(cluster: EmbeddedCluster, consumer: Consumer) -> None:
    plain = confluent_kafka.Consumer(plain_settings(cluster))
    asked = [at(0), at(0, 1), at(0, 3), TopicPartition("elsewhere", 0)]
    results: list[list[list[tuple[int, int | None]]]] = []
    for one in (plain, consumer):
        mine = []
        one.assign([at(7), at(COUNT, 1)])
        mine.append([(tp.offset, tp.leader_epoch) for tp in one.position(asked)])
        take(one, 12)
        mine.append([(tp.offset, tp.leader_epoch) for tp in one.position(asked)])
        take(one, COUNT - 19)
        mine.append([(tp.offset, tp.leader_epoch) for tp in one.position(asked)])
        one.seek(at(5))
        mine.append([(tp.offset, tp.leader_epoch) for tp in one.position(asked)])
        results.append(mine)
    plain.close()
    assert results[0] == results[1]


@pytest.mark.parametrize("start", [COUNT, COUNT + 50])
def test_an_offset_past_the_log_follows_the_reset_policy(cluster: EmbeddedCluster, expected: list[Row], start: int) -> None:
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([at(start)])
        first = consumer.consume(1, PATIENCE_SECONDS)
        assert is_end(first[0]) if start == COUNT else rows_of(first) == expected[:1]


@pytest.mark.parametrize(("policy", "reads"), [("earliest", COUNT), ("latest", 0), ("error", 0)])
def test_without_a_committed_offset_the_reset_policy_says_where_to_begin(
    cluster: EmbeddedCluster, policy: str, reads: int
) -> None:
    with Consumer(direct_settings(cluster, auto_offset_reset=policy)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        if policy == "error":
            (message,) = consumer.consume(1, PATIENCE_SECONDS)
            error = message.error()
            assert error is not None
            assert error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
            return
        assert len(read_to_ends(consumer).get((TOPIC, 0), [])) == reads
        assert (from_store(consumer) > 0) == (reads > 0)


# -- the end ---------------------------------------------------------------------------------------------------------------


def test_close_ends_all_threads_and_can_be_called_twice(cluster: EmbeddedCluster) -> None:
    before = set(threading.enumerate())
    with Consumer(direct_settings(cluster)) as consumer:
        consumer.assign([at(0)])
        take(consumer, 5)
        assert [t for t in set(threading.enumerate()) - before if t.name.startswith("kafka-remote-fetch")]
    consumer.close()
    consumer.close()
    left = [
        t.name for t in set(threading.enumerate()) - before if t.name.startswith(("kafka-remote-fetch", "kafka-remote-off"))
    ]
    assert left == []
    for call in (lambda: consumer.poll(0), lambda: consumer.consume(1, 0), lambda: consumer.assign([at(0)])):
        with pytest.raises(RuntimeError, match="Consumer closed"):
            call()


def test_a_consumer_that_is_dropped_leaves_no_threads(cluster: EmbeddedCluster) -> None:
    before = set(threading.enumerate())
    consumer = Consumer(direct_settings(cluster))
    consumer.assign([at(0)])
    take(consumer, 5)
    consumer.unassign()
    engine = consumer._direct_engine
    threads = engine._threads
    del consumer
    gc.collect()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert not [t for t in set(threading.enumerate()) - before if t.name.startswith("kafka-remote-fetch")]


@pytest.mark.parametrize("start", [0, "local"])
def test_a_logical_place_is_sought_once_and_after_everything_else(
    cluster: EmbeddedCluster, local_start: int, start: int | str
) -> None:
    """librdkafka repeats an interrupted look-up half a second later, whatever the position of the partition is by then."""
    calls = []

    def noted(name: str) -> Callable[..., Any]:
        def call(self: Consumer, *arguments: Any) -> Any:
            calls.append(name)
            return getattr(confluent_kafka.Consumer, name)(self, *arguments)

        return call

    inner = type("Inner", (confluent_kafka.Consumer,), {name: noted(name) for name in ("pause", "resume", "seek")})
    with type("Outer", (Consumer, inner), {})(direct_settings(cluster)) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, local_start if start == "local" else 0)])
        take(consumer, 1)
        calls.clear()
        consumer.seek(TopicPartition(TOPIC, 0, OFFSET_END))
        assert calls == ["resume", "seek"]


def test_consume_asks_for_positions_in_its_batch_only(cluster: EmbeddedCluster) -> None:
    topics = [fill_topic(cluster, f"local-{number}", 3) for number in range(4)]
    asked: list[int] = []

    def position(self: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        asked.append(len(partitions))
        return confluent_kafka.Consumer.position(self, partitions)

    inner = type("Inner", (confluent_kafka.Consumer,), {"position": position})
    with type("Outer", (Consumer, inner), {})(direct_settings(cluster, enable_partition_eof=False)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        take(consumer, 1, lambda one, _count: one.consume(1, 0.1))
        consumer._direct_routing._next_tick = math.inf  # the look at all partitions, ten times a second, is not part of this
        asked.clear()
        take(consumer, 5, lambda one, _count: one.consume(1, 0.1))
        assert set(asked) == {1}


def test_position_after_each_record_leaves_the_slice_alone(cluster: EmbeddedCluster, consumer: Consumer) -> None:
    consumer.assign([at(0)])
    first = consumer.poll(PATIENCE_SECONDS)
    assert first is not None
    waiting = len(consumer._direct_delivery_queue.waiting)
    assert waiting > 0
    assert offsets_of(consumer.position([at(0)])) == [1]
    assert len(consumer._direct_delivery_queue.waiting) == waiting
    assert consumer._direct_deliveries.gathered.pieces == []
