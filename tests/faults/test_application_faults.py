"""Actions of groups and applications during direct reads: every history is compared with a plain consumer's."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.artifacts import ROOT
from tests.support.embedded_topics import (
    PATIENCE_SECONDS,
    delete_first_segment,
    direct_settings,
    fallbacks,
    fill_topic,
    filled_cluster,
    from_store,
    is_end,
    note_filled,
    note_produced,
    plain_settings,
    records,
    small_cluster,
)
from tests.support.history import Closed, Fired, History, Moved, Outage
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.recorder import RecordedConsumer, recorded
from tests.support.served import BrokerLog
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 300
PARTITIONS = range(4)
SMALL_RANGES = {"fetch_remote_range_bytes": 64 << 10, "fetch_remote_max_in_flight": 2}


running = filled_cluster(TOPIC, COUNT, partitions=PARTITIONS, max_grant_bytes=2_000)


@pytest.fixture(scope="module")
def oracle(running: EmbeddedCluster) -> Oracle:
    return oracle_of(running, TOPIC, PARTITIONS)


def oracle_of(cluster: EmbeddedCluster, topic: str, partitions: range) -> Oracle:
    """Returns the records that a plain consumer gets from all partitions."""
    truth = History()
    with recorded(confluent_kafka.Consumer, plain_settings(cluster, check_crcs=True), truth) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        finish(consumer, len(partitions))
    return Oracle.of(truth)


def begun() -> History:
    """Returns a history with the produced records."""
    history = History()
    note_filled(history, TOPIC, COUNT, PARTITIONS)
    return history


def finish(consumer: Any, partitions: int = 1) -> None:
    """Reads until ``partitions`` partitions have reported their end."""
    ended: set[int | None] = set()
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while len(ended) < partitions:
        assert not deadline.expired(), f"only {ended} ended"
        ended |= {message.partition() for message in consumer.consume(50, 0.1) if is_end(message)}


def take(consumer: RecordedConsumer, count: int, places: list[TopicPartition]) -> None:
    """Returns at most ``count`` records; fewer if partitions end."""
    got, ended = 0, 0
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while got < count and ended < len(places):
        assert not deadline.expired(), f"{got} of {count} records came"
        messages = consumer.consume(count - got, 0.1)
        ended += sum(map(is_end, messages))
        got += sum(message.error() is None for message in messages)


def inner_assignment(consumer: RecordedConsumer) -> list[TopicPartition]:
    """Asks librdkafka, which gets it from the group's coordinator."""
    return confluent_kafka.Consumer.assignment(consumer.inner)


def taken_by(consumer: RecordedConsumer) -> int:
    return from_store(consumer.inner)


@pytest.mark.fault("F66", "F67")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_rebalance_during_requests_delivers_no_earlier_position(
    cluster: EmbeddedCluster, oracle: Oracle, strategy: str
) -> None:
    """One member reads, another joins, the first leaves and rejoins: partitions move three times."""
    group = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500, "partition_assignment_strategy": strategy}
    settings = direct_settings(cluster, group_id=f"group-{uuid4()}", enable_auto_commit=True, **group, **SMALL_RANGES)
    history = begun()
    owners: list[dict[int, str]] = []

    def member(name: str) -> RecordedConsumer:
        made = recorded(Consumer, settings, history, name)
        made.subscribe([TOPIC])
        return made

    def until(*members: RecordedConsumer, partitions: int = 1) -> None:
        """All members poll until each has ``partitions`` partitions, in small steps, so that none reaches an end."""
        with ThreadPoolExecutor(len(members)) as pool:

            def shared_out() -> bool:
                list(pool.map(lambda one: one.consume(1, 0.1), members))
                return all(len(one.assignment()) >= partitions for one in members)

            wait_until(shared_out, f"{partitions} partitions or more for each", seconds=PATIENCE_SECONDS)
        owners.append({tp.partition: one.name for one in members for tp in inner_assignment(one)})

    first = member("first")
    until(first)
    take(first, 50, [TopicPartition(TOPIC, partition) for partition in PARTITIONS])
    assert taken_by(first) >= 50, "bytes are on their way"
    second = member("second")
    until(first, second)
    first.close()
    until(second, partitions=len(PARTITIONS))
    third = member("third")
    until(second, third)
    moves = sum(before != after for before, after in pairwise(owners))
    assert moves == 3, owners
    history.add(Fired, fault="F66", times=moves)
    for one in (second, third):
        take(one, 20, one.assignment())
        one.close()
    check(history, oracle)


@pytest.mark.fault("F68")
@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_calls_is_answered_as_the_plain_consumers(cluster: EmbeddedCluster, oracle: Oracle, seed: int) -> None:
    dice, history = random.Random(seed), begun()
    partitions = [TopicPartition(TOPIC, partition) for partition in (0, 1)]
    settings = direct_settings(cluster, enable_auto_offset_store=bool(seed % 2), **SMALL_RANGES)
    paused: set[int] = set()
    with recorded(Consumer, settings, history) as consumer:
        consumer.assign([TopicPartition(TOPIC, tp.partition, 0) for tp in partitions])
        take(consumer, 10, partitions)
        for _ in range(60):
            tp = dice.choice(partitions)
            match dice.randrange(8):
                case 0:
                    consumer.seek(TopicPartition(TOPIC, tp.partition, dice.randrange(COUNT)))
                case 1:
                    consumer.pause([tp])
                    paused.add(tp.partition)
                case 2:
                    consumer.resume([tp])
                    paused.discard(tp.partition)
                case 3:
                    consumer.position(partitions)
                case 4:
                    consumer.inner.offsets_for_times([TopicPartition(TOPIC, tp.partition, 1)], PATIENCE_SECONDS)
                case 5 if seed % 2:
                    with suppress(KafkaException):  # if nothing was delivered since the last one
                        consumer.commit(asynchronous=False)
                case 6:
                    consumer.poll(0.05)
                case _:
                    consumer.consume(dice.randrange(1, 40), 0.1)
        if paused:
            consumer.resume([TopicPartition(TOPIC, partition) for partition in paused])
        for tp in partitions:
            consumer.seek(TopicPartition(TOPIC, tp.partition, COUNT - 150))
        finish(consumer, len(partitions))
        assert taken_by(consumer) > 0
    check(history, oracle)


@pytest.mark.fault("F68", "F69")
def test_a_second_thread_may_close_while_the_first_one_polls(cluster: EmbeddedCluster, oracle: Oracle) -> None:
    history = begun()
    consumer = recorded(Consumer, direct_settings(cluster, **SMALL_RANGES), history)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    take(consumer, 10, [TopicPartition(TOPIC, 0)])
    polling, refused = threading.Event(), threading.Event()

    def poll_on() -> None:
        try:
            while True:
                polling.set()
                consumer.consume(1, 0.01)
        except RuntimeError:
            refused.set()

    thread = threading.Thread(target=poll_on)
    thread.start()
    assert polling.wait(PATIENCE_SECONDS)
    consumer.inner.close()
    assert refused.wait(PATIENCE_SECONDS), "a closed consumer refuses to poll"
    thread.join()
    check(history, oracle)
    assert not [one.name for one in threading.enumerate() if one.name.startswith("kafka-remote-fetch") and one.is_alive()]


_CHILD_STATUS = 69


@pytest.mark.fault("F69")
def test_a_fork_during_a_read_does_not_affect_the_parent(cluster: EmbeddedCluster, oracle: Oracle) -> None:
    history = begun()
    with recorded(Consumer, direct_settings(cluster, **SMALL_RANGES), history) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        take(consumer, 10, [TopicPartition(TOPIC, 0)])
        child = os.fork()
        if child == 0:
            os._exit(_CHILD_STATUS)  # a child process cannot use a librdkafka consumer
        ended, status = os.waitpid(child, 0)
        assert (ended, os.waitstatus_to_exitcode(status)) == (child, _CHILD_STATUS), "there was a child, and it ended"
        history.add(Fired, fault="F69")
        finish(consumer)
        assert fallbacks(consumer.inner) == {}
    check(history, oracle)


_READER = """
import sys
from pathlib import Path
from kafka_remote_client import Consumer
from tests.support.embedded_topics import from_store
from tests.support.history import History
from tests.support.recorder import recorded
from confluent_kafka import OFFSET_STORED, TopicPartition
journal, topic, name, config = Path(sys.argv[1]), sys.argv[2], sys.argv[3], eval(sys.argv[4])
consumer = recorded(Consumer, config, History(journal=journal), name)
consumer.assign([TopicPartition(topic, 0, OFFSET_STORED)])
ended = False
while not ended:
    for message in consumer.consume(7, 0.1):
        if message.error() is None:
            print(message.offset(), from_store(consumer.inner), flush=True)
            consumer.store_offsets(message=message)
            sys.stdin.readline()  # goes on when the parent has seen it
        else:
            ended = True
    try:
        consumer.commit(asynchronous=False)
    except Exception as error:  # nothing new: nothing came, or only the word that this is the end
        assert "NO_OFFSET" in str(error), error
consumer.close()
"""
_LIVES = 4


@pytest.mark.fault("F70")
def test_a_repeatedly_killed_consumer_reads_all_from_its_commits(
    cluster: EmbeddedCluster, oracle: Oracle, tmp_path: Path
) -> None:
    """SIGKILL ends all processes but the last in the middle of the tier: at an uncommitted record, or shortly after."""
    dice = random.Random(70)
    config = direct_settings(cluster, group_id=f"group-{uuid4()}", enable_auto_offset_store=False, **SMALL_RANGES)
    produced = begun()
    journals = [tmp_path / f"{life}.journal" for life in range(_LIVES)]
    seen: list[list[int]] = []
    for life, journal in enumerate(journals):
        command = [sys.executable, "-c", _READER, str(journal), TOPIC, f"life-{life}", repr(config)]
        most = COUNT if life == _LIVES - 1 else dice.randrange(20, 60)
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            offsets, from_the_store = _read_lines(process, most, goes_on=life % 2 == 1)
        seen.append(offsets)
        assert from_the_store > 0
        if life < _LIVES - 1:
            assert process.returncode == -signal.SIGKILL
            assert History.merged(journal).of(Closed) == []
            assert len(offsets) == most
    assert process.returncode == 0
    assert seen[0][-1] in seen[1], "the record at which the first life ended was not committed"
    check(History.merged(produced, *journals), oracle)


def _read_lines(process: subprocess.Popen[str], most: int, *, goes_on: bool) -> tuple[list[int], int]:
    """Returns a reader's output for at most ``most`` records, then kills it. ``goes_on``: it does not wait then."""
    assert process.stdin is not None
    assert process.stdout is not None
    offsets: list[int] = []
    counted = "0"
    for line in process.stdout:
        offset, counted = line.split()
        offsets.append(int(offset))
        last = len(offsets) == most
        if not last or goes_on:
            process.stdin.write("\n")
            process.stdin.flush()
        if last:
            assert process.poll() is None, "it was running when it was killed"
            process.kill()
            break
    return offsets, int(counted)


@pytest.mark.fault("F71")
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_a_late_poller_cannot_commit_and_gets_the_plain_consumers_error(cluster: EmbeddedCluster, call: str) -> None:
    """Between the error and the loss of the partitions it gets no record: another member may have them by then."""
    late = {"max_poll_interval_ms": 6_500, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 500}

    def taken(consumer: confluent_kafka.Consumer) -> list[Message]:
        if call == "consume":
            return consumer.consume(1, 0.1)
        return [] if (message := consumer.poll(0.1)) is None else [message]

    def codes_after_a_long_pause(consumer: confluent_kafka.Consumer) -> list[int]:
        lost: list[int] = []
        try:
            # The next poll after the error calls it, and rejoins.
            consumer.subscribe([TOPIC], on_lost=lambda _, partitions: lost.append(len(partitions)))
            deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
            while not (first := taken(consumer)):
                assert not deadline.expired()
            partition, offset = int(first[0].partition() or 0), int(first[0].offset() or 0)
            threading.Event().wait(10)  # the test is about an application that takes too long
            codes: list[int] = []
            while not codes:
                assert not deadline.expired()
                codes = [error.code() for message in taken(consumer) if (error := message.error()) is not None]
            with pytest.raises(KafkaException) as refused:
                consumer.commit(offsets=[TopicPartition(TOPIC, partition, offset + 1)], asynchronous=False)
            early = 0
            while not lost:
                assert not deadline.expired()
                arrived = len(taken(consumer))
                early += 0 if lost else arrived  # the call that loses them may rejoin too
            return [codes[0], refused.value.args[0].code(), early]
        finally:
            consumer.close()

    makers = [
        lambda: confluent_kafka.Consumer(plain_settings(cluster, **late)),
        lambda: Consumer(direct_settings(cluster, **late, **SMALL_RANGES)),
    ]
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(lambda make: codes_after_a_long_pause(make()), makers)
    assert ours == theirs
    assert (ours[0], ours[2]) == (KafkaError._MAX_POLL_EXCEEDED, 0)


@pytest.mark.fault("F57")
def test_partitions_continue_after_the_broker_was_unreachable(cluster: EmbeddedCluster, oracle: Oracle) -> None:
    """I9 does not apply during the outage; in the history's clock it lasts longer than any limit."""
    history = begun()
    with (
        closing(BrokerLog(cluster)) as broker,
        recorded(Consumer, direct_settings(cluster, **SMALL_RANGES), history) as consumer,
    ):
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in PARTITIONS])
        take(consumer, 50, [TopicPartition(TOPIC, partition) for partition in PARTITIONS])
        history.add(Outage)
        broker.hold()

        def keeps_waiting() -> int:
            consumer.consume(1, 0.1)
            return broker.held_back

        try:
            held_back = wait_until(keeps_waiting, "a request that the broker does not answer", pause=0)
            history.add(Fired, fault="F57", times=held_back)
            history.shift(1_000.0)
            consumer.consume(1, 0.1)
        finally:
            broker.release()
            history.add(Outage, over=True)
        finish(consumer, len(PARTITIONS))
        assert taken_by(consumer) > 0
    check(history, oracle)


@pytest.mark.fault("F64")
@pytest.mark.parametrize("reset", ["earliest", "error"])
def test_deleted_records_follow_the_reset_policy(tmp_path: Path, reset: str) -> None:
    """Both consumers have read some records and are paused when the log's start passes their position."""
    history, truth, place = History(), History(), TopicPartition(TOPIC, 0)
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, TOPIC, COUNT)
        note_filled(history, TOPIC, COUNT)
        ours = recorded(Consumer, direct_settings(cluster, auto_offset_reset=reset, **SMALL_RANGES), history)
        theirs = recorded(confluent_kafka.Consumer, plain_settings(cluster, auto_offset_reset=reset), truth)
        with ours, theirs:
            for consumer in (ours, theirs):
                consumer.assign([TopicPartition(TOPIC, 0, 0)])
                take(consumer, 5, [place])
                consumer.pause([place])
            history.add(Moved, key=(TOPIC, 0), log_start=delete_first_segment(cluster, TOPIC))
            for consumer in (ours, theirs):
                consumer.resume([place])
                wait_until(partial(_has_end_or_error, consumer), "an end or an error", seconds=PATIENCE_SECONDS, pause=0)
    check(history, Oracle.of(truth))
    assert bool(Oracle.of(truth).errors) == (reset == "error")


def _has_end_or_error(consumer: RecordedConsumer) -> bool:
    """Continues to read. Returns whether an end or an error arrived."""
    return any(message.error() is not None for message in consumer.consume(50, 0.1))


@pytest.mark.fault("F73")
@pytest.mark.parametrize("seed", range(2))
def test_passing_the_tiers_end_during_archiving_loses_no_record(tmp_path: Path, seed: int) -> None:
    """A producer and the archiver continue while the reader passes the tier's end repeatedly, in both directions."""
    dice, history, count = random.Random(seed), History(), 800
    with small_cluster(tmp_path, max_grant_bytes=4_000) as cluster:
        made = records(count, "growing")

        def write(first: int, end: int) -> None:
            note_produced(history, TOPIC, 0, cluster.produce(TOPIC, made[first:end]), made[first:end])

        write(0, 200)
        cluster.archive()
        often = {"fetch_remote_recheck_interval_ms": 100, "fetch_remote_fallback_backoff_ms": 1}
        with recorded(Consumer, direct_settings(cluster, **often, **SMALL_RANGES), history) as consumer:
            consumer.assign([TopicPartition(TOPIC, 0, 0)])
            for start in range(200, count, 40):
                writer = threading.Thread(target=write, args=(start, start + 40))
                writer.start()
                consumer.consume(dice.randrange(10, 80), 0.1)
                writer.join()
                archiver = threading.Thread(target=cluster.archive)
                archiver.start()
                consumer.consume(dice.randrange(10, 80), 0.1)
                if dice.random() < 0.3:
                    consumer.seek(TopicPartition(TOPIC, 0, dice.randrange(start)))
                archiver.join()

            def passed_twice() -> bool:
                """Each read from the beginning passes the tier's end; the number of earlier passes varies."""
                consumer.seek(TopicPartition(TOPIC, 0, 0))
                wait_until(lambda: _reached(consumer, count), "all records", pause=0)
                return bool(consumer.metrics()["remote-fetch-handovers-total"] >= 2)

            wait_until(passed_twice, "two hand-overs", seconds=2 * PATIENCE_SECONDS, pause=0)
        check(history, oracle_of(cluster, TOPIC, range(1)))


def _reached(consumer: RecordedConsumer, offset: int) -> bool:
    consumer.consume(100, 0.1)
    return bool(consumer.inner.position([TopicPartition(TOPIC, 0)])[0].offset == offset)


@pytest.mark.fault("F74")
def test_each_of_many_consumers_stops_requests_to_a_dead_store(cluster: EmbeddedCluster, oracle: Oracle) -> None:
    consumers = 8
    cluster.faults.store_down()
    settings = {
        "fetch_remote_breaker_failures": 3,
        "fetch_remote_breaker_reset_ms": 600_000,
        "fetch_remote_retries": 10,
        "fetch_remote_max_in_flight": 8,
    }
    histories = [begun() for _ in range(consumers)]

    def read(history: History) -> tuple[dict[str, int], dict[str, int]]:
        with recorded(Consumer, direct_settings(cluster, **settings), history) as consumer:
            consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in PARTITIONS])
            finish(consumer, len(PARTITIONS))
            assert taken_by(consumer) == 0
            errors = consumer.metrics()["remote-fetch-errors-total"]
            return fallbacks(consumer.inner), errors

    with ThreadPoolExecutor(consumers) as pool:
        seen = list(pool.map(read, histories))
    most = 3 + 8  # the failures that open the breaker, and the requests in flight at that time
    assert all(0 < errors["unavailable"] <= most for _, errors in seen), seen
    assert all(fell_back.get("breaker-open", 0) > 0 for fell_back, _ in seen), seen
    assert all(sum(fell_back.values()) == len(PARTITIONS) for fell_back, _ in seen), seen
    for history in histories:
        check(history, oracle)
