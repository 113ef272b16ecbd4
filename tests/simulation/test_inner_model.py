"""The model of librdkafka's consumer, compared with librdkafka: both run the same random programs on the same logs.

librdkafka reads the logs over TCP from ``tiered_kafka``, the model reads the judge's copy of them. A program waits for the
effects of each call, so that both have the same answers whatever the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import attrs
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.tiered_kafka.server import Server
from tests.simulation.coordinator import Coordinator
from tests.simulation.inner_model import InnerModel
from tests.simulation.scenario import Scenario
from tests.simulation.topic_logs import ADDRESSES, TOPIC, LedPartition, TopicLogs
from tests.simulation.world import World
from tests.support.locations import ManualClock

PROGRAMS = range(40)
STEPS = 25
PATIENCE_SECONDS = 60.0
QUIET_SECONDS = 0.2
LEVELS = ("read_committed", "read_uncommitted")

Told = tuple[object, ...]
NOTHING: Told = ("error", "nothing came")


def told_of(message: Message) -> Told:
    """Returns what an application sees of a message."""
    error = message.error()
    if error is not None:
        return "error", error.code(), message.partition(), message.offset()
    return message.partition(), message.offset(), message.leader_epoch(), message.value(), message.timestamp()


def places_of(partitions: list[TopicPartition]) -> list[Told]:
    return [(one.topic, one.partition, one.offset, one.leader_epoch) for one in partitions]


def outcome_of(call: Callable[[], Any]) -> Told:
    """Returns what a call gives: partitions in place of their objects, an error's code in place of the error."""
    try:
        answered = call()
    except KafkaException as error:
        return "refused", error.args[0].code()
    return ("partitions", places_of(answered)) if isinstance(answered, list) else ("answered", answered)


@attrs.define(eq=False)
class Twins:
    """librdkafka's consumer and its model on the same logs. Each method calls both and compares."""

    logs: TopicLogs
    server: Server
    world: World
    real: Consumer
    model: InnerModel

    def call(self, name: str, *arguments: Any, **named: Any) -> Told:
        real = outcome_of(lambda: getattr(self.real, name)(*arguments, **named))
        model = outcome_of(lambda: getattr(self.model, name)(*arguments, **named))
        assert model == real, f"{name} {arguments} {named}"
        return real

    def assignment(self) -> None:
        """librdkafka tells the assigned offsets as well, which no caller of the model uses."""
        held = [{(tp.topic, tp.partition) for tp in one.assignment()} for one in (self.model, self.real)]
        assert held[0] == held[1]

    def read(self, count: int) -> Told:
        """Until so many messages have come, the end of the log, or nothing. Returns what came last."""
        modelled = self._taken(self.model, count, PATIENCE_SECONDS)
        real = self._taken(self.real, count, QUIET_SECONDS if modelled == [NOTHING] else PATIENCE_SECONDS)
        assert modelled == real
        return real[-1]

    def hear_nothing(self) -> None:
        assert [told_of(one) for one in self.model.consume(1, QUIET_SECONDS)] == []
        assert [told_of(one) for one in self.real.consume(1, QUIET_SECONDS)] == []

    def append(self, partition: LedPartition) -> None:
        self.server.call(lambda: self.logs.append(partition))
        self.model.log_changed()

    def elect(self, partition: LedPartition) -> None:
        self.server.call(lambda: self.logs.topics.elect(self.logs.topic, partition.number))
        self.model.log_changed()

    def cut(self, partition: LedPartition) -> int | None:
        end = self.server.call(lambda: self.logs.cut(partition))
        self.model.log_changed()
        return end

    def delete_records(self, partition: LedPartition, before: int) -> None:
        self.server.call(lambda: self.logs.topics.delete_records(self.logs.topic, partition.number, before))
        self.model.log_changed()

    def _taken(self, consumer: Consumer, count: int, seconds: float) -> list[Told]:
        taken: list[Told] = []
        while len(taken) < count and (not taken or taken[-1][0] != "error"):
            self.world.progress()
            messages = consumer.consume(1, seconds)
            taken += map(told_of, messages) if messages else [NOTHING]
        return taken


@attrs.define(eq=False)
class Program:
    """A random program on one partition: what it may call next depends on what it has called.

    Left out is what depends on the time in librdkafka, and one thing that the model does not know: a partition that is assigned
    again during a pause, after a seek in that pause, continues where that seek was.
    """

    twins: Twins
    chance: random.Random
    partition: LedPartition
    assigned: bool = False
    paused: bool = False
    at_end: bool = False
    started: bool = False
    sought_in_pause: bool = False
    done: list[str] = attrs.field(factory=list)

    def run(self) -> None:
        """Raises AssertionError, which names the steps."""
        try:
            self._run()
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter {self.done}") from error

    def _run(self) -> None:
        for _ in range(STEPS):
            step = self.chance.choice(self.steps())
            self.done.append(step.__name__)
            step()

    def steps(self) -> list[Callable[[], None]]:
        """What may be next."""
        steps: list[Callable[[], None]] = [self.position, self.committed]
        if self.started:
            steps += [self.commit]
        if not self.assigned:
            steps += [self.append, self.delete_records, self.assign, self.incremental_assign]
        else:
            steps += [self.store, self.resume]
            if self.started:
                steps += [self.seek]
            if not self.sought_in_pause:
                steps += [self.unassign]
            if self.paused or self.at_end:
                steps += [self.append, self.delete_records, self.hear_nothing]
            if not self.paused:
                steps += [self.pause]
            if not self.paused and not self.at_end:
                steps += [self.read_to_the_end, *[self.read] * 6]
        return steps

    @property
    def led(self) -> PartitionLog:
        return self.twins.logs.topic.partitions[self.partition.number].log

    def place(self, offset: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(TOPIC, self.partition.number, offset)

    def anywhere(self) -> int:
        """An offset in the log or, rarely, behind it, or a logical one. Some offsets may be below the log's start."""
        kind, end = self.chance.random(), self.partition.log.end
        if kind < 0.2:
            return self.chance.choice((OFFSET_BEGINNING, OFFSET_END))
        return end + self.chance.randint(1, 5) if kind < 0.3 else self.chance.randrange(end + 1)

    def append(self) -> None:
        """Not while fetches are sent, or it would depend on the time whether the end before it is told."""
        self.twins.append(self.partition)
        self.at_end = False

    def delete_records(self) -> None:
        """Not while fetches are sent, for the same reason."""
        before = self.chance.randint(self.led.log_start, self.led.high_watermark)
        self.done.append(f"delete_records {before}")
        self.twins.delete_records(self.partition, before)

    def read(self) -> None:
        self.take(self.chance.randint(1, 12))

    def read_to_the_end(self) -> None:
        self.take(10_000)

    def take(self, count: int) -> None:
        self.at_end = self.twins.read(count)[0] == "error"
        self.started = True

    def assign(self) -> None:
        offset = self.chance.choice((self.anywhere(), OFFSET_STORED, OFFSET_INVALID))
        self.begin("assign", offset)

    def incremental_assign(self) -> None:
        self.begin("incremental_assign", self.anywhere())

    def begin(self, call: str, offset: int) -> None:
        """A message tells that librdkafka has started the partition. Before, it refuses seeks and may not know a commit."""
        self.done.append(f"{call} {offset}")
        self.twins.call(call, [self.place(offset)])
        self.twins.assignment()
        self.assigned = True
        if self.paused:
            self.twins.hear_nothing()
        else:
            self.take(1)

    def unassign(self) -> None:
        call = self.chance.choice(("unassign", "incremental_unassign"))
        self.twins.call(call, *([[self.place()]] if call == "incremental_unassign" else []))
        self.twins.assignment()
        self.assigned = self.at_end = self.started = False

    def hear_nothing(self) -> None:
        self.twins.hear_nothing()

    def seek(self) -> None:
        """A message tells that the seek is done. During a pause nothing does, so that only an offset in the log is sought."""
        offset = self.chance.randint(self.led.log_start, self.partition.log.end) if self.paused else self.anywhere()
        self.done.append(f"seek {offset}")
        self.twins.call("seek", self.place(offset))
        self.at_end = False
        self.position()
        if self.paused:
            self.sought_in_pause = True
        else:
            self.take(1)

    def pause(self) -> None:
        self.twins.call("pause", [self.place()])
        self.paused, self.at_end = True, False

    def resume(self) -> None:
        self.twins.call("resume", [self.place()])
        if self.paused:
            self.paused = self.at_end = self.sought_in_pause = False

    def position(self) -> None:
        self.twins.call("position", [self.place()])

    def store(self) -> None:
        self.twins.call("store_offsets", offsets=[self.place(self.chance.randrange(self.partition.log.end + 1))])

    def commit(self) -> None:
        given = [self.place(self.chance.randrange(self.partition.log.end + 1))] if self.chance.random() < 0.5 else None
        self.twins.call("commit", offsets=given, asynchronous=False)

    def committed(self) -> None:
        self.twins.call("committed", [self.place()], PATIENCE_SECONDS)


def logs_of(chance: random.Random) -> TopicLogs:
    """Returns a topic of one partition with some leader epochs and transactions. Nothing is in the tier."""
    logs = TopicLogs(chance, ManualClock(0.0), 1, TopicConfig())
    logs.topics.create(TOPIC)
    for _ in range(chance.randint(5, 60)):
        logs.append(logs.partitions[0])
        if chance.random() < 0.1:
            logs.topics.elect(logs.topic, 0)
    return logs


@contextmanager
def twins_in(scenario: Scenario) -> Iterator[Twins]:
    """Settings and logs come from the scenario's seed."""
    seed = scenario.seed
    chance = random.Random(seed)
    level, reset = chance.choice(LEVELS), chance.choice(("earliest", "latest"))
    logs = logs_of(chance)
    clock = SystemClock()
    fetches = Fetches(logs.topics, logs.changes, clock)
    server = Server(dict.fromkeys(ADDRESSES, 0), lambda addresses: Requests(logs.topics, addresses, clock, fetches))
    server.start()
    try:
        settings: dict[str, Any] = {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in server.addresses.values()),
            "group.id": f"program-{seed}",
            "isolation.level": level,
            "auto.offset.reset": reset,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
        world = World(scenario)
        world.brokers.partitions = logs.partitions
        model = InnerModel.__new__(InnerModel)
        modelled = {**settings, "auto.commit.interval.ms": 5000, "on_commit": lambda *_: None}
        model.begin(world, Coordinator(world), modelled, "model", "model")
        with closing(Consumer(settings)) as real:
            yield Twins(logs, server, world, real, model)
    finally:
        server.stop()


@pytest.fixture
def twins(request: pytest.FixtureRequest) -> Iterator[Twins]:
    with twins_in(Scenario(request.param, partitions=1)) as both:
        yield both


@pytest.mark.parametrize("twins", PROGRAMS, indirect=True)
def test_the_model_answers_as_librdkafka(twins: Twins, request: pytest.FixtureRequest) -> None:
    Program(twins, random.Random(request.node.callspec.params["twins"]), twins.logs.partitions[0]).run()


def test_outcomes_tell_errors_by_their_codes() -> None:
    def refused() -> None:
        raise KafkaException(KafkaError(KafkaError._STATE))

    assert outcome_of(refused) == ("refused", KafkaError._STATE)
