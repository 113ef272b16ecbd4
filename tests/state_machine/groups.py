"""A group as a state machine: members of either kind come and go, read a little, pause, commit, and leave the store.

What a rebalance does when is the broker's affair, so commands are not compared one by one. The model's part is that plain
members are in the same groups and the same judgement holds for all: each record comes to some member, and (but in cooperative
groups) to no second one, unless a member lost its partitions; every invariant of a history; and in the end all is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

import attrs
import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.group_member import LocalMember
from tests.support.group_script import undelivered, unexplained
from tests.support.group_topic import COUNT
from tests.support.history import History
from tests.support.invariants.checker import check
from tests.support.invariants.oracle import Oracle
from tests.support.waiting import wait_until

__all__ = ["PROTOCOLS", "GroupMachine", "GroupWorld"]

PROTOCOLS = {
    "eager": {"partition.assignment.strategy": "range"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
_CLASSIC = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 100}
_KINDS = ("direct", "direct", "plain")
_MOST_MEMBERS = 3
_PATIENCE_SECONDS = 120.0

numbers = st.integers(0, _MOST_MEMBERS - 1)
few = st.integers(1, 40)


@attrs.frozen
class GroupWorld:
    """A topic on a real broker, what a plain consumer reads of it, and the settings of a member of a kind."""

    topic: str
    oracle: Oracle
    settings: Callable[..., dict[str, Any]]


class GroupMachine(RuleBasedStateMachine):
    """``world`` and ``protocol`` are set by whoever runs the machine. ``steps`` counts commands, over all runs."""

    world: ClassVar[GroupWorld]
    protocol: ClassVar[str]
    steps: ClassVar[int] = 0

    @initialize(kinds=st.lists(st.sampled_from(_KINDS), min_size=1, max_size=2))
    def open(self, kinds: list[str]) -> None:
        self.history = History()
        self.members: list[LocalMember] = []
        self._made = 0
        self._group = f"machine-{uuid4()}"
        self._pool = ThreadPoolExecutor(_MOST_MEMBERS)
        for kind in kinds:
            self._join(kind)

    def teardown(self) -> None:
        if not hasattr(self, "members"):
            return
        try:
            self._finish()
        finally:
            for member in self.members:
                member.close()
            self._pool.shutdown()
        self._judge()

    def _join(self, kind: str) -> None:
        self._made += 1
        more = {"group.id": self._group, "enable.auto.commit": True, "auto.commit.interval.ms": 300, **PROTOCOLS[self.protocol]}
        classic = {} if self.protocol == "consumer" else _CLASSIC
        config = self.world.settings(kind, **more, **classic)
        self.members.append(LocalMember(f"member-{self._made}", kind, config, self.world.topic, self.history))

    def _round(self, limit: int) -> None:
        list(self._pool.map(lambda member: member.round(limit), self.members))

    def _member(self, number: int) -> LocalMember:
        GroupMachine.steps += 1
        return self.members[number % len(self.members)]

    # -- commands ----------------------------------------------------------------------------------------------------------

    @rule(limit=few, times=st.integers(1, 4))
    def read(self, limit: int, times: int) -> None:
        GroupMachine.steps += 1
        for _ in range(times):
            self._round(limit)

    @rule(number=numbers, limit=few)
    def read_alone(self, number: int, limit: int) -> None:
        self._member(number).round(limit)

    @rule(number=numbers)
    def poll(self, number: int) -> None:
        self._member(number).consumer.poll(0.01)

    @rule(kind=st.sampled_from(_KINDS))
    def join(self, kind: str) -> None:
        GroupMachine.steps += 1
        if len(self.members) < _MOST_MEMBERS:
            self._join(kind)
            self._round(5)

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        member = self._member(number)
        if len(self.members) > 1:
            self.members.remove(member)
            member.close()
            self._round(5)

    @rule(number=numbers)
    def subscribe_again(self, number: int) -> None:
        member = self._member(number)
        member.consumer.unsubscribe()
        member.round(5)
        member.consumer.subscribe([self.world.topic])

    @rule(number=numbers, which=st.integers(0, 3))
    def pause(self, number: int, which: int) -> None:
        consumer = self._member(number).consumer
        consumer.pause(consumer.assignment()[which : which + 1])

    @rule(number=numbers)
    def resume(self, number: int) -> None:
        consumer = self._member(number).consumer
        consumer.resume(consumer.assignment())

    @rule(number=numbers, asynchronous=st.booleans())
    def commit(self, number: int, asynchronous: bool) -> None:
        with suppress(KafkaException):  # nothing new is stored, or a rebalance is under way
            self._member(number).consumer.commit(asynchronous=asynchronous)

    @rule(number=numbers)
    def position(self, number: int) -> None:
        consumer = self._member(number).consumer
        consumer.position(consumer.assignment())

    @rule(number=numbers, enabled=st.booleans())
    def leave_the_store(self, number: int, enabled: bool) -> None:
        member = self._member(number)
        if member.kind == "direct":
            member.consumer.set_remote_fetch(enabled)

    # -- the end -----------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Reads on until every record has come to some member and is committed.

        Not left to the end of members: the broker may refuse what one commits as it leaves a group that is being rebalanced.
        """

        def read_on() -> None:
            for member in self.members:
                member.consumer.resume(member.consumer.assignment())
            self._round(400)

        def all_came() -> bool:
            read_on()
            return not undelivered(self.history, self.world.oracle)

        def all_committed() -> bool:
            read_on()
            return all(tp.offset == COUNT for tp in other.committed(partitions, _PATIENCE_SECONDS))

        wait_until(all_came, "all records", seconds=_PATIENCE_SECONDS, pause=0)
        partitions = [TopicPartition(*key) for key in self.world.oracle.ends]
        other = confluent_kafka.Consumer(self.world.settings("plain", **{"group.id": self._group}))
        try:
            wait_until(all_committed, "all commits", seconds=_PATIENCE_SECONDS, pause=0.1)
        finally:
            other.close()

    def _judge(self) -> None:
        # In cooperative groups records come twice to plain members too, where rebalances overlap: in these very runs with plain
        # members alone, in 2 of 15, 144 and 200 records. So nothing is to be said of ours there.
        if self.protocol != "cooperative":
            assert unexplained(self.history)[0] == []
        # A member that waits for a rebalance may be long without its partitions' next record.
        check(self.history, self.world.oracle, without={"I9"})
