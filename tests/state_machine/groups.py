"""A consumer group as a state machine: direct and plain members join, leave, read, pause, commit, and turn direct fetch off.

The broker decides the timing of rebalances, so commands are not compared one by one. Plain members are in the same groups,
and the same rules apply to all members (group_judgement.py): some member gets each record; a second member gets it only with
an excuse that plain members need too; the history satisfies every invariant; and in the end every offset is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

import attrs
import confluent_kafka
from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.state_machine.run import KEPT, run
from tests.support.group_judgement import judge
from tests.support.group_member import LocalMember
from tests.support.group_topic import COUNT, note_group_topic
from tests.support.history import History, Outage
from tests.support.invariants.oracle import Oracle
from tests.support.waiting import wait_until

__all__ = ["GroupMachine", "GroupWorld", "run_groups"]

_MOST_KINDS = 6
_MOST_MEMBERS = 3

numbers = st.integers(0, _MOST_MEMBERS - 1)
few = st.integers(1, 40)
one_of_kinds = st.integers(0, _MOST_KINDS - 1)


@attrs.frozen
class GroupWorld:
    """A topic on a real broker and the records that a plain consumer reads. ``settings``: of a member of a kind; ``in_group``:
    of a member of a group in a protocol.
    """

    topic: str
    oracle: Oracle
    settings: Callable[..., dict[str, Any]]
    in_group: Callable[[str, str], dict[str, Any]]


class GroupMachine(RuleBasedStateMachine):
    """The runner sets ``world`` and ``protocol``. ``steps`` counts the commands of all runs.

    ``kinds``: the kinds of the members, in turn. ``patience``: seconds until a wait for the group fails.
    ``failures``: the violations so far; :func:`run` creates the list.
    """

    world: ClassVar[GroupWorld]
    protocol: ClassVar[str]
    kinds: ClassVar[Sequence[str]] = ("direct", "direct", "plain")
    patience: ClassVar[float] = 120.0
    failures: ClassVar[list[AssertionError]]
    steps: ClassVar[int] = 0

    @initialize(first=st.lists(one_of_kinds, min_size=1, max_size=2))
    def open(self, first: list[int]) -> None:
        self.history = History()
        note_group_topic(self.history, self.world.topic, len(self.world.oracle.ends))
        self._always_direct: set[str] = set()
        self._made = 0
        group = f"machine-{uuid4()}"
        self._in_group = self.world.in_group(self.protocol, group)
        self._pool = ThreadPoolExecutor(_MOST_MEMBERS)
        # No start is looked up by the broker: a resume during a look-up makes librdkafka repeat it half a second later.
        self._observer = confluent_kafka.Consumer(self.world.settings("plain", **{"group.id": group}))
        wait_until(self._begun, "the first commit", seconds=self.patience)
        self.members: list[LocalMember] = []
        for number in first:
            self._join(number)

    def teardown(self) -> None:
        if not hasattr(self, "members"):
            return
        try:
            self._finish()
        except TimeoutError:
            self._judge()  # which tells more of why it did not come to its end
            raise
        finally:
            for member in self.members:
                member.close()
            self._observer.close()
            self._pool.shutdown()
        self._judge()

    def _rebalances(self) -> None:
        """Partitions move until a round finds all of them assigned. In between, no partition has to deliver a record."""
        self._moving = True
        self.history.add(Outage)

    def _join(self, number: int) -> None:
        self._rebalances()
        self._made += 1
        kind = self.kinds[number % len(self.kinds)]
        config = self.world.settings(kind, **self._in_group, **{"auto.commit.interval.ms": 300})
        member = LocalMember(f"member-{self._made}", kind, config, self.world.topic, self.history)
        self.members.append(member)
        if kind == "direct":
            self._always_direct.add(member.name)

    def _round(self, limit: int) -> None:
        shares = [partitions for partitions, _ in self._pool.map(lambda member: member.round(limit), self.members)]
        if self._moving and all(shares) and sum(shares) == len(self.world.oracle.ends):
            self._moving = False
            self.history.add(Outage, over=True)

    def _until(self, met: Callable[[], object], what: str, limit: int = 1) -> None:
        """Waits for ``met`` while all members read, up to ``limit`` records at a time."""

        def is_met() -> bool:
            self._round(limit)
            return bool(met())

        wait_until(is_met, what, seconds=self.patience, pause=0)

    def _member(self, number: int) -> LocalMember:
        GroupMachine.steps += 1
        return self.members[number % len(self.members)]

    # -- commands ----------------------------------------------------------------------------------------------------------

    @rule(limit=few, times=st.integers(1, 4))
    def read(self, limit: int, times: int) -> None:
        GroupMachine.steps += 1
        for _ in range(times):
            self._round(limit)

    @rule()
    def settle(self) -> None:
        """Reads until all partitions of the group are assigned. Programs without this wait see few rebalances complete."""
        GroupMachine.steps += 1
        everything = len(self.world.oracle.ends)
        self._until(lambda: sum(len(member.consumer.assignment()) for member in self.members) == everything, "all shared out")

    @rule(number=numbers, limit=few)
    def read_alone(self, number: int, limit: int) -> None:
        self._member(number).round(limit)

    @rule(number=numbers)
    def poll(self, number: int) -> None:
        self._member(number).consumer.poll(0.01)

    @rule(kind=one_of_kinds)
    def join(self, kind: int) -> None:
        GroupMachine.steps += 1
        if len(self.members) < _MOST_MEMBERS:
            self._join(kind)
            self._round(5)

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        member = self._member(number)
        if len(self.members) > 1:
            self._rebalances()
            self.members.remove(member)
            member.close()
            self._round(5)

    @rule(number=numbers)
    def subscribe_again(self, number: int) -> None:
        """The member has partitions before, none in between, and some after: librdkafka aborts the process if a consumer is
        closed before it applied a postponed subscription.
        """
        member = self._member(number)
        self._until(member.consumer.assignment, "a share of the group")
        self._rebalances()
        member.consumer.unsubscribe()
        self._until(lambda: not member.consumer.assignment(), "nothing after unsubscribe")
        member.consumer.subscribe([self.world.topic])
        self._until(member.consumer.assignment, "a share of the group again")

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
        with suppress(KafkaException):  # no new offset is stored, or a rebalance is in progress
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
            self._always_direct.discard(member.name)

    # -- the end -----------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Reads until every offset is committed. Members do not rely on the commit of close(): the broker may refuse the commit
        of a member that leaves during a rebalance.
        """

        def all_committed() -> bool:
            for member in self.members:
                member.consumer.resume(member.consumer.assignment())
            return all(tp.offset >= COUNT for tp in self._committed())

        self._until(all_committed, "all commits", limit=400)

    def _begun(self) -> bool:
        with suppress(KafkaException):  # an overloaded broker is unavailable as coordinator for a while
            self._observer.commit(offsets=self._partitions(0), asynchronous=False)
        return all(tp.offset == 0 for tp in self._committed())

    def _committed(self) -> list[TopicPartition]:
        try:
            return self._observer.committed(self._partitions(), self.patience)
        except KafkaException:
            return self._partitions()

    def _partitions(self, offset: int = OFFSET_INVALID) -> list[TopicPartition]:
        return [TopicPartition(*key, offset) for key in self.world.oracle.ends]

    def _judge(self) -> None:
        try:
            judge(self.history, self.world.oracle, self._always_direct)
        except AssertionError as error:
            self.failures.append(error)
            raise


def run_groups(
    world: GroupWorld, protocol: str, *, examples: int, number: int, campaign: str = "", seed: int | None = None, **more: object
) -> None:
    """Raises the first failure. ``more``: further class attributes of the machine.

    With ``seed``, ``number`` is counted from it, and the ``campaign`` keeps the programs that fail and tries them first.
    """
    machine = type("Machine", (GroupMachine,), {"world": world, "protocol": protocol, **more})
    kept = None if seed is None else KEPT / f"{campaign}-{protocol}"
    run(machine, examples=examples, number=(seed or 0) + number, kept=kept)
