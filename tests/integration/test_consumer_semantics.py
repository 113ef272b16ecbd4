"""Commits, positions, pauses and times across the hand-over on a real broker; confluent's consumer runs the same scripts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_END, KafkaException, Message, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.server import Shim
from tests.support.group_topic import COUNT, FIRST_TIMESTAMP, STEP_MS, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.offsets_at_times import offsets_for_times
from tests.support.reading import PATIENCE_SECONDS, shim_before
from tests.support.scenario import TransactionalTopic
from tests.support.side_by_side import Side, code_of, same_on_both_sides, take
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

PARTITIONS = 2
SESSION = {"session_timeout_ms": 30_000, "heartbeat_interval_ms": 300}


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    name = f"semantics-{uuid4().hex[:8]}"
    write_group_topic(running_broker, name, PARTITIONS)
    return name


@pytest.fixture
def local_start(kafka_broker: KafkaBroker, topic: str) -> int:
    """Returns the first offset of partition 0 that the broker still has on its own disk."""
    return kafka_broker.offsets(topic).earliest_local


@pytest.fixture
def shim(kafka_broker: KafkaBroker, topic: str) -> Iterator[Shim]:
    with shim_before(kafka_broker) as running:
        yield running


def at(topic: str, offset: int, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition, offset)


def offsets(messages: list[Message]) -> list[tuple[int | None, int | None]]:
    assert all(message.error() is None for message in messages)
    return [(message.partition(), message.offset()) for message in messages]


def places(partitions: list[TopicPartition] | None) -> list[tuple[int, int, int | None]]:
    return [(tp.partition, tp.offset, tp.leader_epoch) for tp in partitions or []]


def commit(consumer: confluent_kafka.Consumer, **what: Any) -> object:
    try:
        return places(consumer.commit(asynchronous=False, **what))
    except KafkaException as error:
        return code_of(error)


# -- commits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_poll", [True, False], ids=["poll", "consume"])
@pytest.mark.parametrize("stores", [True, False], ids=["stores", "by-hand"])
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "commits-nothing"])
@pytest.mark.parametrize("last", ["tier", "hand-over", "local"])
def test_close_commits_the_stored_offsets_if_storing_is_automatic(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int, last: str, commits: bool, stores: bool, by_poll: bool
) -> None:
    first = local_start - 30
    count = {"tier": 10, "hand-over": 30, "local": 45}[last]

    def script(side: Side) -> object:
        consumer = side.consumer(
            enable_auto_commit=commits, auto_commit_interval_ms=600_000, enable_auto_offset_store=stores, **SESSION
        )
        consumer.assign([at(topic, first)])
        taken = take(consumer, count, by_poll=by_poll)
        seen: list[object] = [offsets(taken), places(consumer.position([at(topic, 0)]))]
        if not stores:
            consumer.store_offsets(message=taken[count // 2])
        consumer.close()
        return [*seen, side.committed(topic)]

    seen = same_on_both_sides(kafka_broker, shim, script)
    end = first + (count if stores else count // 2 + 1)
    assert seen[-1] == [(end if commits else -1001, 0 if commits else None)]


@pytest.mark.parametrize("stores", [True, False], ids=["stores", "by-hand"])
@pytest.mark.parametrize("commits", [True, False], ids=["commits", "commits-nothing"])
def test_a_revocation_commits_as_close_does(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, commits: bool, stores: bool
) -> None:
    def script(side: Side) -> object:
        seen: list[object] = []

        def revoked(consumer: confluent_kafka.Consumer, partitions: list[TopicPartition]) -> None:
            seen.append(sorted(places(consumer.position(partitions))))

        settings = {"enable_auto_commit": commits, "auto_commit_interval_ms": 600_000, "enable_auto_offset_store": stores}
        consumer = side.consumer(**settings, **SESSION)
        consumer.subscribe([topic], on_revoke=revoked)
        # A single partition is read in order, so both sides stop at the same offset.
        wait_until(lambda: consumer.poll(0.1) is not None, "an assignment", pause=0)
        for partition in range(PARTITIONS):
            consumer.pause([at(topic, 0, partition)])
            consumer.seek(at(topic, 40 + partition, partition))
        for partition in range(PARTITIONS):
            consumer.resume([at(topic, 0, partition)])
            taken = take(consumer, 20)
            seen.append(offsets(taken))
            consumer.pause([at(topic, 0, partition)])
            if not stores:
                consumer.store_offsets(message=taken[4])
        consumer.unsubscribe()
        wait_until(lambda: consumer.poll(0.1) is None and not consumer.assignment(), "the revocation", pause=0)
        return [*seen, side.committed(topic, range(PARTITIONS)), commit(consumer)]

    seen = same_on_both_sides(kafka_broker, shim, script)
    ends = [60, 61] if stores else [45, 46]
    assert seen[-2] == ([(end, 0) for end in ends] if commits else [(-1001, None)] * PARTITIONS)


def test_commits_have_offset_and_epoch_of_the_delivered_records(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int
) -> None:
    def script(side: Side) -> object:
        consumer = side.consumer()
        consumer.assign([at(topic, local_start - 20)])
        seen: list[object] = [commit(consumer)]
        for count in (7, 6, 7, 7, 6):
            taken = take(consumer, count)
            seen += [offsets(taken), commit(consumer), commit(consumer), places(consumer.position([at(topic, 0)]))]
        seen.append(commit(consumer, message=taken[0]))
        seen.append(commit(consumer, offsets=[at(topic, 3)]))
        consumer.seek(at(topic, 50))
        seen += [places(consumer.position([at(topic, 0)])), commit(consumer)]
        seen += [offsets(take(consumer, 3)), places(consumer.position([at(topic, 0)])), commit(consumer), side.committed(topic)]
        return seen

    same_on_both_sides(kafka_broker, shim, script)


def test_an_offset_is_committed_with_the_epoch_of_the_record_before_it(
    kafka_broker: KafkaBroker, transactional_topic: TransactionalTopic, shim: Shim
) -> None:
    written = transactional_topic.topic

    def script(side: Side) -> object:
        consumer = side.consumer()
        consumer.assign([at(written, transactional_topic.deleted_before)])
        seen: list[tuple[int | None, ...]] = []
        while len({epoch for epoch, *_ in seen}) < len(transactional_topic.leader_epochs):
            last = take(consumer, 100)[-1]
            (told,) = consumer.commit(asynchronous=False) or []
            (reached,) = consumer.position([at(written, 0)])
            ((_, stored),) = side.committed(written)
            seen.append((last.leader_epoch(), told.leader_epoch, reached.leader_epoch, stored))
        return seen

    seen = same_on_both_sides(kafka_broker, shim, script)
    assert all(len(set(epochs)) == 1 for epochs in seen)
    assert {epoch for epoch, *_ in seen} == set(transactional_topic.leader_epochs)


@pytest.mark.parametrize("asynchronous", [True, False], ids=["asynchronous", "synchronous"])
def test_a_commit_is_reported_to_its_callback(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int, asynchronous: bool
) -> None:
    def script(side: Side) -> object:
        told: list[object] = []

        def on_commit(error: object, partitions: list[TopicPartition]) -> None:
            told.append((error, places(partitions)))

        consumer = side.consumer(on_commit=on_commit)
        consumer.assign([at(topic, local_start - 10)])
        seen = []
        for count in (4, 12):
            seen.append(offsets(take(consumer, count)))
            before = len(told)
            consumer.commit(asynchronous=asynchronous)
            seen.append(len(told) - before)
            consumer.pause([at(topic, 0)])
            if asynchronous:
                wait_until(lambda before=before: consumer.poll(0.1) is None and len(told) > before, "the callback", pause=0)
            consumer.resume([at(topic, 0)])
        return [seen, told]

    same_on_both_sides(kafka_broker, shim, script)


# -- group membership --------------------------------------------------------------------------------------------------------


@pytest.mark.fault("F71")
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_a_late_member_commits_nothing_and_continues_at_its_commit(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, call: str
) -> None:
    def script(side: Side) -> object:
        told: list[object] = []
        consumer = side.consumer(
            enable_auto_commit=True,
            auto_commit_interval_ms=600_000,
            session_timeout_ms=6_000,
            heartbeat_interval_ms=300,
            max_poll_interval_ms=6_500,
            on_commit=lambda error, _: told.append(("committed", code_of(error) if error else None)),
        )
        consumer.subscribe(
            [topic],
            on_assign=lambda who, parts: told.append(("assigned", len(parts))),
            on_revoke=lambda who, parts: told.append(("revoked", len(parts))),
            on_lost=lambda who, parts: told.append(("lost", len(parts))),
        )
        first = take(consumer, 10, by_poll=call == "poll")
        partition = first[-1].partition()
        assert partition is not None
        mine = [message for message in first if message.partition() == partition]
        committed = commit(consumer, message=mine[0])
        take(consumer, 3)
        monitor = side.plain()
        asked = [at(topic, -1001, number) for number in range(PARTITIONS)]
        before = places(monitor.committed(asked, PATIENCE_SECONDS))
        wait_until(lambda: members(side.broker, side.group) == 0, "the member to be given up by the broker")
        codes: list[object] = []
        again: list[Message] = []

        def came_back() -> bool:
            for message in consumer.consume(50, 0.1):
                error = message.error()
                if error is None and told.count(("assigned", PARTITIONS)) == 2:
                    again.append(message)
                elif error is not None:
                    codes.append(error.code())
            return len({message.partition() for message in again}) == PARTITIONS

        wait_until(came_back, "records of all partitions", pause=0)
        starts = {number: min(offsets_of(again, number)) for number in range(PARTITIONS)}
        wanted = {number: max(offset, 0) for number, offset, _ in before}
        return [committed is not None, list(told), codes, starts == wanted]

    _, told, codes, right = same_on_both_sides(kafka_broker, shim, script)
    # No commit is reported: when partitions are lost, none is attempted.
    assert told == [("assigned", PARTITIONS), ("lost", PARTITIONS), ("assigned", PARTITIONS)]
    assert codes == [confluent_kafka.KafkaError._MAX_POLL_EXCEEDED]
    assert right


def members(broker: KafkaBroker, group: str) -> int:
    described = broker.admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    return len(described.members)


def offsets_of(messages: list[Message], partition: int) -> list[int]:
    return [int(message.offset() or 0) for message in messages if message.partition() == partition]


@pytest.mark.parametrize("call", ["rarely", "long"])
def test_a_member_that_polls_in_time_stays_in_the_group(kafka_broker: KafkaBroker, shim: Shim, topic: str, call: str) -> None:
    """``rarely``: one record at a time with long work between; ``long``: one call longer than the limit."""
    limit = 6.0

    def script(side: Side) -> object:
        lost: list[object] = []
        consumer = side.consumer(session_timeout_ms=6_000, heartbeat_interval_ms=300, max_poll_interval_ms=int(limit * 1_000))
        consumer.subscribe([topic], on_lost=lambda who, parts: lost.append(len(parts)))
        taken = take(consumer, 1, by_poll=True)
        if call == "rarely":
            for _ in range(4):
                side.work(limit / 3)
                taken += take(consumer, 1, by_poll=True)
        else:
            taken += consumer.consume(1_000_000, limit * 1.3)
            taken += take(consumer, PARTITIONS * COUNT - len(taken))  # records that a loaded machine did not read in that time
        return [lost, [message.error() for message in taken if message.error() is not None], len(taken)]

    assert same_on_both_sides(kafka_broker, shim, script) == [[], [], 5 if call == "rarely" else PARTITIONS * COUNT]


# -- pauses and seeks --------------------------------------------------------------------------------------------------------


def test_the_users_pauses_are_separate_from_those_of_the_hand_over(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int
) -> None:
    def script(side: Side) -> object:
        consumer = side.consumer()
        zero, one = at(topic, 0, 0), at(topic, 0, 1)
        consumer.assign([at(topic, local_start - 15), at(topic, 30, 1)])
        consumer.pause([one])
        seen: list[object] = [offsets(take(consumer, 5))]
        consumer.pause([zero])
        consumer.pause([zero])
        seen.append(offsets(consumer.consume(5, 0.5)))
        consumer.resume([zero])
        seen.append(offsets(take(consumer, 25)))  # across the hand-over, with the other partition paused
        consumer.pause([zero])
        consumer.resume([one])
        seen.append(offsets(take(consumer, 10)))
        consumer.pause([one])
        consumer.seek(at(topic, 60, 1))
        seen += [offsets(consumer.consume(5, 0.5)), places(consumer.position([zero, one]))]
        consumer.resume([one])
        seen.append(offsets(take(consumer, 10)))
        consumer.pause([one])
        consumer.seek(at(topic, local_start + 3, 0))
        consumer.resume([zero])
        seen.append(offsets(take(consumer, 5)))
        consumer.resume([zero, one])
        consumer.pause([zero])
        seen.append(offsets(take(consumer, 5)))
        # A partition that the user paused is still paused after it is assigned again.
        consumer.assign([at(topic, 10), at(topic, 20, 1)])
        seen.append(offsets(take(consumer, 5)))
        consumer.unassign()
        seen.append(offsets(consumer.consume(5, 0.3)))
        consumer.assign([at(topic, 10), at(topic, 20, 1)])
        seen.append(offsets(take(consumer, 5)))
        consumer.resume([zero])
        consumer.pause([one])
        seen.append(offsets(take(consumer, 5)))
        return seen

    same_on_both_sides(kafka_broker, shim, script)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_pauses_outlive_a_rebalance(kafka_broker: KafkaBroker, shim: Shim, topic: str, strategy: str) -> None:
    def script(side: Side) -> object:
        group = {"partition_assignment_strategy": strategy, **SESSION}
        consumer, other = side.consumer(**group), side.plain(**group)
        consumer.subscribe([topic])
        take(consumer, 5)
        assert len(consumer.assignment()) == PARTITIONS
        consumer.pause([at(topic, 0, 0), at(topic, 0, 1)])
        other.subscribe([topic])
        came: list[Message] = []

        def until(mine: int, theirs: int) -> None:
            def reached() -> bool:
                came.extend(consumer.consume(5, 0.1))
                if theirs:
                    other.consume(5, 0.1)
                return (len(consumer.assignment()), len(other.assignment()) if theirs else 0) == (mine, theirs)

            wait_until(reached, f"{mine} and {theirs} partitions", pause=0)

        until(1, 1)
        other.close()
        until(PARTITIONS, 0)
        came.extend(consumer.consume(5, 0.5))
        mine = {message.partition() for message in came}
        consumer.resume([at(topic, 0, 0), at(topic, 0, 1)])
        wait_until(
            lambda: {message.partition() for message in came} >= {0, 1} or came.extend(consumer.consume(50, 0.1)),
            "records of both",
            pause=0,
        )
        return mine

    same_on_both_sides(kafka_broker, shim, script)


def test_a_seek_in_any_direction_gives_exactly_the_records_after_it(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int
) -> None:
    targets = [5, local_start - 1, local_start, 17, COUNT - 3, OFFSET_END, 0, local_start + 4, 100]

    def script(side: Side) -> object:
        consumer = side.consumer(enable_partition_eof=True)
        consumer.assign([at(topic, 0)])
        seen: list[object] = [offsets(take(consumer, 3))]
        for target in targets:
            consumer.seek(at(topic, target))
            seen.append(places(consumer.position([at(topic, 0)])))
            seen.append([(message.error() is None, message.offset()) for message in take(consumer, 1 if target < 0 else 3)])
            with suppress(KafkaException):
                seen.append(places(consumer.commit(asynchronous=False)))
            seen.append(side.committed(topic))
        return seen

    same_on_both_sides(kafka_broker, shim, script)


# -- times -------------------------------------------------------------------------------------------------------------------


def test_offsets_for_times_in_the_tier_are_found_and_read_directly(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int
) -> None:
    numbers = [0, 1, 57, local_start - 1, local_start, COUNT - 1]
    times = [FIRST_TIMESTAMP + number * STEP_MS + shift for number in numbers for shift in (-1, 0, 1)]

    def script(side: Side) -> object:
        consumer = side.consumer()
        seen: list[object] = []
        for time in [0, *times, FIRST_TIMESTAMP + COUNT * STEP_MS * 2]:
            answered = offsets_for_times(consumer, [at(topic, time, partition) for partition in range(PARTITIONS)])
            seen.append([(tp.partition, tp.offset, tp.error) for tp in answered])
        if isinstance(consumer, Consumer):  # the broker searches its time index; nothing is read or located here
            asked_for = ("remote-fetch-request-total", "remote-fetch-location-request-total")
            assert [consumer.metrics()[name] for name in asked_for] == [0, 0]
        (start,) = offsets_for_times(consumer, [at(topic, FIRST_TIMESTAMP + 57 * STEP_MS)])
        consumer.assign([at(topic, 0)])
        consumer.seek(start)
        return [*seen, offsets(take(consumer, 5))]

    seen = same_on_both_sides(kafka_broker, shim, script)
    assert seen[-1] == [(0, 57 + number) for number in range(5)]


# -- restarts ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["tier", "hand-over", "local"])
def test_restarts_with_direct_fetch_off_and_on_continue_at_the_commit(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int, place: str
) -> None:
    first = {"tier": 20, "hand-over": local_start - 8, "local": local_start + 1}[place]

    def script(side: Side) -> object:
        seen: list[object] = []
        side.plain().commit(offsets=[at(topic, first)], asynchronous=False)
        for enabled in (True, False, True, None, True):
            more = {"fetch_remote_enabled": enabled} if side.is_direct and enabled is not None else {}
            made = side.plain if enabled is None else side.consumer
            consumer = made(enable_auto_commit=True, auto_offset_reset="error", **more)
            consumer.assign([at(topic, -1000)])
            seen.append(offsets(take(consumer, 5)))
            consumer.close()
            seen.append(side.committed(topic))
        return seen

    seen = same_on_both_sides(kafka_broker, shim, script, from_store=place != "local")
    assert [place for taken in seen[::2] for place in taken] == [(0, first + number) for number in range(25)]


def test_positions_of_the_assignment_are_sent_to_a_transaction(
    kafka_broker: KafkaBroker, shim: Shim, topic: str, local_start: int
) -> None:
    """Applications that read, process and write send these: a partition without a delivered record has no offset."""

    def script(side: Side) -> object:
        consumer = side.consumer()
        producer = Producer(
            {"bootstrap.servers": side.bootstrap_servers, "transactional.id": f"{side.group}-writes", "log_level": 0}
        )
        producer.init_transactions(PATIENCE_SECONDS)
        consumer.assign([at(topic, local_start - 20), at(topic, 30, 1)])
        consumer.pause([at(topic, 0, 1)])
        seen: list[object] = []
        for count, commits in ((7, True), (6, False), (30, True)):
            seen.append(offsets(take(consumer, count)))
            producer.begin_transaction()
            reached = consumer.position(consumer.assignment())
            seen.append(sorted(places(reached)))
            producer.send_offsets_to_transaction(reached, consumer.consumer_group_metadata(), PATIENCE_SECONDS)
            (producer.commit_transaction if commits else producer.abort_transaction)(PATIENCE_SECONDS)
            seen.append(side.committed(topic, range(PARTITIONS)))
        return seen

    seen = same_on_both_sides(kafka_broker, shim, script)
    first = local_start - 20
    committed = [told[0][0] for told in seen[2::3]]
    assert committed == [first + 7, first + 7, first + 43]
