"""The model of a cooperative group, compared with librdkafka: members join, read and leave, and both have the same rebalances.

A step waits until each partition has its owner and each record has come. Which member gets which partition is the assignor's
choice. So the numbers are compared: of each member's partitions, and of those that each callback told. Empty increments come
in both, but when depends on the time. Each record must come once: a partition that moves begins at the offset that its owner
committed when it gave it up, and one that is kept goes on at its position.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.tiered_cluster.log import TopicConfig
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.tiered_kafka.server import Server
from tests.simulation.coordinator import Coordinator
from tests.simulation.inner_model import InnerModel
from tests.simulation.scenario import Scenario
from tests.simulation.topic_logs import ADDRESSES, TOPIC, TopicLogs
from tests.simulation.world import World
from tests.support.locations import ManualClock

PARTITIONS = 5
APPENDS = 60
LEVEL = IsolationLevel.READ_UNCOMMITTED
LOOK_SECONDS = 0.02
LOOKS = 4_000
SETTINGS: dict[str, Any] = {
    "group.id": "members",
    "isolation.level": "read_uncommitted",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": True,
    "auto.commit.interval.ms": 60_000,
    "enable.auto.offset.store": False,
    "enable.partition.eof": False,
    "partition.assignment.strategy": "cooperative-sticky",
    "heartbeat.interval.ms": 50,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}


@attrs.define(eq=False)
class Member:
    """A consumer, what each rebalance told it as ``(event, number of partitions)``, and what it owns."""

    consumer: Consumer
    told: list[tuple[str, int]] = attrs.field(factory=list)
    owned: set[int] = attrs.field(factory=set)

    def subscribe(self) -> None:
        self.consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, _: Any, partitions: list[TopicPartition]) -> None:
        self.told.append(("assign", len(partitions)))
        self.owned |= {tp.partition for tp in partitions}

    def _revoked(self, _: Any, partitions: list[TopicPartition]) -> None:
        self.told.append(("revoke", len(partitions)))
        self.owned -= {tp.partition for tp in partitions}

    def read(self) -> list[tuple[int, int]]:
        messages = self.consumer.consume(7, LOOK_SECONDS)
        places = [(message.partition(), message.offset()) for message in messages if message.error() is None]
        if places:
            self.consumer.store_offsets(offsets=[TopicPartition(TOPIC, number or 0, (at or 0) + 1) for number, at in places])
        return [(number or 0, at or 0) for number, at in places]

    @property
    def increments(self) -> list[tuple[str, int]]:
        return [one for one in self.told if one[1]]


@attrs.define(eq=False)
class Group:
    """Members on the same logs, all of librdkafka or all of the model. ``came``: how often each record came."""

    logs: TopicLogs
    new_consumer: Callable[[str], Consumer]
    progressed: Callable[[], None]
    append: Callable[[], None]
    members: list[Member] = attrs.field(factory=list)
    came: Counter[tuple[int, int]] = attrs.field(factory=Counter)

    def join(self) -> None:
        self.members.append(Member(self.new_consumer(f"member {len(self.members)}")))
        self.members[-1].subscribe()

    def leave(self, place: int) -> list[tuple[str, int]]:
        """The member closes. It is told what it loses only if no callback of a rebalance waits, which depends on the time."""
        member = self.members.pop(place)
        told = member.increments
        member.consumer.close()
        return told

    def settle(self, *numbers: int) -> list[int]:
        """Until members have so many partitions, and all records have come. Returns the numbers of partitions."""
        for _ in range(LOOKS):
            for member in self.members:
                self.progressed()
                self.came.update(member.read())
            owned = sorted(number for member in self.members for number in member.owned)
            if owned == list(range(PARTITIONS)) and self.counts == sorted(numbers) and len(self.came) == self.produced:
                return self.counts
        raise AssertionError(f"the group did not settle: {[member.told for member in self.members]}, {len(self.came)} came")

    @property
    def counts(self) -> list[int]:
        return sorted(len(member.owned) for member in self.members)

    @property
    def produced(self) -> int:
        return sum(len(one.log.records(LEVEL, one.log_start, one.log.end)) for one in self.logs.partitions)

    def close(self) -> None:
        for member in self.members:
            member.consumer.close()


def logs_of(seed: int) -> TopicLogs:
    logs = TopicLogs(random.Random(seed), ManualClock(0.0), PARTITIONS, TopicConfig())
    logs.topics.create(TOPIC)
    for turn in range(APPENDS):
        logs.append(logs.partitions[turn % PARTITIONS])
    return logs


def program(group: Group) -> list[object]:
    """Members join one after the other while records arrive, and leave. Returns what was told, step by step."""
    told: list[object] = []
    for numbers in ((5,), (3, 2), (2, 2, 1)):
        group.join()
        group.append()
        told += [group.settle(*numbers), sorted(member.increments for member in group.members)]
    told.append(group.leave(0))
    group.append()
    told.append(group.settle(3, 2))
    told.append(group.leave(0)[:1])
    told += [group.settle(5), group.members[0].increments[:1]]
    assert set(group.came.values()) == {1}
    assert any(one == ("assign", 0) for one in group.members[0].told)
    return told


@pytest.fixture
def logs(request: pytest.FixtureRequest) -> TopicLogs:
    return logs_of(request.param)


@pytest.fixture
def modelled(logs: TopicLogs) -> Iterator[Group]:
    world = World(Scenario(0, partitions=PARTITIONS))
    world.brokers.partitions = logs.partitions
    coordinator = Coordinator(world, cooperative=True)

    def new(name: str) -> InnerModel:
        model = InnerModel.__new__(InnerModel)
        model.begin(world, coordinator, {**SETTINGS, "on_commit": lambda *_: None}, name, name)
        return model

    def append() -> None:
        for partition in logs.partitions:
            logs.append(partition)
        for member in group.members:
            member.consumer.log_changed()  # type: ignore[attr-defined]  # a model: see new()

    group = Group(logs, new, world.progress, append)
    with closing(group):
        yield group


@pytest.fixture
def real(logs: TopicLogs) -> Iterator[Group]:
    clock = SystemClock()
    fetches = Fetches(logs.topics, logs.changes, clock)
    server = Server(dict.fromkeys(ADDRESSES, 0), lambda addresses: Requests(logs.topics, addresses, clock, fetches))
    server.start()

    def new(name: str) -> Consumer:
        addresses = ",".join(f"{host}:{port}" for host, port in server.addresses.values())
        return Consumer({**SETTINGS, "bootstrap.servers": addresses, "client.id": name})

    def append() -> None:
        for partition in logs.partitions:
            server.call(lambda partition=partition: logs.append(partition))

    try:
        with closing(Group(logs, new, lambda: None, append)) as group:
            yield group
    finally:
        server.stop()


EXPECTED: list[object] = [
    *([5], [[("assign", 5)]]),
    *([2, 3], [[("assign", 2)], [("assign", 5), ("revoke", 2)]]),
    *([1, 2, 2], [[("assign", 1)], [("assign", 2)], [("assign", 5), ("revoke", 2), ("revoke", 1)]]),
    *([("assign", 5), ("revoke", 2), ("revoke", 1)], [2, 3]),
    *([("assign", 2)], [5], [("assign", 1)]),
]
"""What a program tells, step by step."""


@pytest.mark.parametrize("logs", range(20), indirect=True)
def test_members_of_the_model_have_these_rebalances(modelled: Group) -> None:
    assert program(modelled) == EXPECTED


@pytest.mark.parametrize("logs", range(3), indirect=True)
def test_members_of_librdkafka_have_the_same_rebalances(real: Group) -> None:
    assert program(real) == EXPECTED


def rejects_whole_assignments(group: Group) -> None:
    group.join()
    group.settle(5)
    consumer = group.members[0].consumer
    for call in (lambda: consumer.assign([TopicPartition(TOPIC, 0)]), consumer.unassign):
        with pytest.raises(KafkaException) as raised:
            call()
        assert raised.value.args[0].code() == KafkaError._STATE


@pytest.mark.parametrize("logs", [0], indirect=True)
def test_a_member_of_the_model_rejects_whole_assignments(modelled: Group) -> None:
    rejects_whole_assignments(modelled)


@pytest.mark.parametrize("logs", [0], indirect=True)
def test_a_member_of_librdkafka_rejects_whole_assignments(real: Group) -> None:
    rejects_whole_assignments(real)
