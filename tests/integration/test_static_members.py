"""Static members (``group.instance.id``) on a real broker, during requests for ranges of the tier.

A member that leaves keeps its place in the group: another process with its name continues at its commit, and no other member
is affected. A member that shares its name with another is fenced. Both hold for confluent's own consumer too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, Producer, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.shim.server import Shim
from tests.support.history import Assigned, Fired, History, Revoked
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, settings, shim_before, total
from tests.support.recorder import RecordedConsumer, recorded

pytestmark = pytest.mark.broker

PARTITIONS = range(2)
COUNT = 300
_PATIENCE_SECONDS = 2 * PATIENCE_SECONDS


@pytest.fixture(scope="module")
def topic(running_broker: KafkaBroker) -> str:
    """Two partitions, tiered except for their last segment."""
    name = f"static-{uuid4().hex[:8]}"
    running_broker.create_topic(name, partitions=len(PARTITIONS), segment_bytes=7_000)
    producer = Producer(
        {"bootstrap.servers": running_broker.bootstrap_servers, "log_level": 0, "batch.num.messages": 10, "linger.ms": 2}
    )
    for number in range(COUNT):
        for partition in PARTITIONS:
            producer.produce(name, b"%d of %d " % (number, partition) * 5, b"%d" % number, partition)
        if number % 10 == 9:
            assert producer.flush(PATIENCE_SECONDS) == 0
    running_broker.wait_until_tiered(name, *PARTITIONS)
    return name


@pytest.fixture(scope="module")
def shim(running_broker: KafkaBroker) -> Iterator[Shim]:
    with shim_before(running_broker) as running:
        yield running


def static(group: str, name: str) -> dict[str, Any]:
    return {"group.id": group, "group.instance.id": name, "session.timeout.ms": 45_000, "heartbeat.interval.ms": 300}


def until(done: Callable[[], bool], *members: RecordedConsumer) -> None:
    """All members poll in parallel, a record at a time."""
    deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
    with ThreadPoolExecutor(len(members)) as pool:
        while not done():
            assert not deadline.expired(), [member.assignment() for member in members]
            list(pool.map(lambda member: member.consume(1, 0.1), members))


def oracle_of(broker: KafkaBroker, topic: str) -> Oracle:
    truth = History()
    with recorded(confluent_kafka.Consumer, settings(broker.bootstrap_servers, "read_committed"), truth) as plain:
        plain.assign([TopicPartition(topic, partition, 0) for partition in PARTITIONS])
        until(lambda: len(Oracle.of(truth)) == len(PARTITIONS) * COUNT, plain)
    return Oracle.of(truth)


@pytest.mark.fault("F66")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_f66_a_returning_static_member_continues_from_its_commit(
    kafka_broker: KafkaBroker, topic: str, shim: Shim, strategy: str
) -> None:
    group, history = f"group-{uuid4()}", History()

    def member(name: str, life: int) -> RecordedConsumer:
        more = {**static(group, name), "partition.assignment.strategy": strategy}
        made = recorded(Consumer, direct(shim, "read_committed", **more), history, f"{name}-{life}")
        made.subscribe([topic])
        return made

    def taken(one: RecordedConsumer) -> int:
        return total(one.inner.metrics(), "remote-fetch-records-total")

    def moves(one: RecordedConsumer) -> int:
        """Cooperative members also get an empty assignment, some time after the others have their revoked partitions."""
        gained = [event for event in history.of(Assigned, one.name) if event.places]
        return len(gained) + len(history.of(Revoked, one.name))

    with ExitStack() as stack:
        stays, leaves = (stack.enter_context(member(name, 0)) for name in ("stays", "leaves"))
        until(lambda: all(len(one.assignment()) == 1 and taken(one) > 3 for one in (stays, leaves)), stays, leaves)
        place = leaves.assignment()
        settled = moves(stays)
        assert leaves.consume(1, PATIENCE_SECONDS), "what it took before the group had settled is no longer to be committed"
        leaves.commit(asynchronous=False)
        leaves.consume(2, PATIENCE_SECONDS)  # not committed: read again
        leaves.close()
        back = stack.enter_context(member("leaves", 1))
        until(lambda: bool(back.assignment()) and taken(back) > 10, stays, back)
        assert [(tp.topic, tp.partition) for tp in back.assignment()] == [(tp.topic, tp.partition) for tp in place]
        history.add(Fired, fault="F66")
        assert moves(stays) == settled, "nobody else was disturbed"
    check(history, oracle_of(kafka_broker, topic))


@pytest.mark.fault("F66")
def test_f66_the_first_of_two_members_with_one_name_is_fenced(kafka_broker: KafkaBroker, topic: str, shim: Shim) -> None:
    def code_of_the_first(make: Callable[[dict[str, Any]], confluent_kafka.Consumer]) -> int:
        group = f"group-{uuid4()}"
        deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
        with make(static(group, "twin")) as first, make(static(group, "twin")) as second:
            first.subscribe([topic])
            while not first.consume(1, 0.1):
                assert not deadline.expired()
            second.subscribe([topic])
            codes: list[int] = []
            while not codes:
                assert not deadline.expired()
                second.consume(1, 0.1)
                try:
                    told = [error.code() for message in first.consume(1, 0.1) if (error := message.error()) is not None]
                    codes = [code for code in told if code != KafkaError._PARTITION_EOF]
                except KafkaException as refused:
                    codes = [refused.args[0].code()]
        return codes[0]

    makers: list[Callable[[dict[str, Any]], confluent_kafka.Consumer]] = [
        lambda more: confluent_kafka.Consumer(settings(kafka_broker.bootstrap_servers, "read_committed", **more)),
        lambda more: Consumer(direct(shim, "read_committed", **more)),
    ]
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(code_of_the_first, makers)
    assert ours == theirs
    assert ours in {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}


@pytest.mark.fault("F66")
def test_f66_a_fenced_member_gets_no_record_after_the_error(kafka_broker: KafkaBroker, topic: str, shim: Shim) -> None:
    def after_the_error(make: Callable[[dict[str, Any]], confluent_kafka.Consumer]) -> tuple[int, list[object], list[int]]:
        group, codes = f"group-{uuid4()}", list[int]()
        deadline = Deadline(SystemClock(), _PATIENCE_SECONDS)
        with make(static(group, "twin")) as first, make(static(group, "twin")) as second:
            first.subscribe([topic])
            while not first.consume(1, 0.1):
                assert not deadline.expired()
            places = first.assignment()
            first.pause(places)  # so that records remain in the tier
            second.subscribe([topic])
            while not second.consume(1, 0.1):
                assert not deadline.expired()
            while KafkaError._FATAL not in codes:
                assert not deadline.expired()
                message = first.poll(0.1)
                codes += [] if message is None or (error := message.error()) is None else [error.code()]
            first.resume(places)
            records = [message for message in first.consume(COUNT, 2.0) if message.error() is None]
            return len(records), list(first.assignment()), [tp.offset for tp in first.position(places)]

    makers: list[Callable[[dict[str, Any]], confluent_kafka.Consumer]] = [
        lambda more: confluent_kafka.Consumer(settings(kafka_broker.bootstrap_servers, "read_committed", **more)),
        lambda more: Consumer(direct(shim, "read_committed", **more)),
    ]
    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(after_the_error, makers)
    assert ours == theirs == (0, [], [OFFSET_INVALID] * len(PARTITIONS))
