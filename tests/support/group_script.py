"""One script for a group: members join, leave, pause past their session time-out, are killed. Partitions move each time.

The same script runs with any kind of member in any protocol, to compare a direct group with a plain one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.group_member import LocalMember, ProcessMember
from tests.support.group_topic import note_group_topic
from tests.support.history import Event, History, Key, Moved, Outage, Polled
from tests.support.invariants.oracle import Oracle
from tests.support.waiting import wait_until

__all__ = ["DELETED_BEFORE", "Deletes", "GroupRun", "deleted_unread", "redelivered", "run_script", "undelivered"]

_Member: TypeAlias = LocalMember | ProcessMember
_Settings: TypeAlias = Callable[[str], dict[str, Any]]
"""The configuration of a member of a kind."""

Deletes: TypeAlias = Callable[[str, int, int], object]
"""Deletes the records of a topic that lie before an offset of a partition."""

_PATIENCE_SECONDS = 300.0
_ASKING_SECONDS = 20.0
"""For committed offsets. Members poll between two such requests: one that left the group can only join again by polling."""
_UNANSWERED = {KafkaError._TIMED_OUT, KafkaError._TIMED_OUT_QUEUE}
_VICTIM = "victim"
_DELETED_OF = (0, 1)
DELETED_BEFORE = 350
_BETWEEN = 10
"""Records that each member takes at least between two rebalances."""
_AT_ONCE = 5
"""Records that a member takes at most in a round."""
_IDLE_ROUNDS = 10
"""While a member has fewer than ``_BETWEEN``, those with enough take one record in so many rounds: some must be left."""


@attrs.define
class GroupRun:
    """The result of a run. ``rebalances``: the number after which all members continued, the direct ones from the store.

    ``direct``: the names of the members that read directly.
    """

    history: History
    rebalances: int = 0
    direct: set[str] = attrs.field(factory=set)


class _Group:
    def __init__(self, kinds: Sequence[str], settings: _Settings, topic: str, partitions: int, directory: Path) -> None:
        self.history = History()
        note_group_topic(self.history, topic, partitions)
        self.run = GroupRun(self.history)
        self._kinds = kinds
        self._settings = settings
        self._topic = topic
        self._partitions = partitions
        self._journal = directory / "victim.journal"
        self._made = 0
        self.members: list[_Member] = []
        self.asleep: list[ProcessMember] = []
        self._pool = ThreadPoolExecutor(4)

    # -- members -----------------------------------------------------------------------------------------------------------

    def _next_kind(self, name: str = "") -> tuple[str, str]:
        """The name and the kind of the member that joins next."""
        self._made += 1
        name = name or f"member-{self._made}"
        kind = self._kinds[(self._made - 1) % len(self._kinds)]
        if kind == "direct":
            self.run.direct.add(name)
        return name, kind

    def rebalances(self) -> None:
        """Partitions move from now on, until :meth:`settle` finds all distributed. I9 does not apply meanwhile."""
        self.history.add(Outage)

    def join(self) -> LocalMember:
        self.rebalances()
        name, kind = self._next_kind()
        member = LocalMember(name, kind, self._settings(kind), self._topic, self.history)
        self.members.append(member)
        self.settle()
        return member

    def join_victim(self) -> ProcessMember:
        self.rebalances()
        name, kind = self._next_kind(_VICTIM)
        # Its session is short, and it commits only at a revocation: later records are delivered again.
        config = {**self._settings(kind), "auto.commit.interval.ms": 600_000}
        if "session.timeout.ms" in config:
            config["session.timeout.ms"] = 6_000
        member = ProcessMember(name, kind, config, self._topic, self._journal)
        self.members.append(member)
        self.settle()
        return member

    def leave(self, member: LocalMember) -> None:
        self.rebalances()
        self.members.remove(member)
        member.close()
        self.settle()

    def stop_heartbeats(self, member: ProcessMember) -> None:
        self.rebalances()
        self.members.remove(member)
        self.asleep.append(member)
        member.stop()
        self.settle()

    def resume_heartbeats(self, member: ProcessMember) -> None:
        self.rebalances()
        self.asleep.remove(member)
        member.resume()
        self.members.append(member)
        self.settle()

    def kill(self, member: ProcessMember) -> None:
        self.rebalances()
        self.members.remove(member)
        member.kill()
        self.settle()

    def delete_records(self, deletes: Deletes) -> None:
        """Deletes records of two partitions, so that their logs begin later."""
        for partition in _DELETED_OF:
            # Before it does: a member may meet the new start at once.
            self.history.add(Moved, key=(self._topic, partition), log_start=DELETED_BEFORE)
            deletes(self._topic, DELETED_BEFORE, partition)

    def close(self) -> None:
        for one in self.asleep:
            one.resume()
        for member in [*self.members, *self.asleep]:
            member.close()
        self._pool.shutdown()

    # -- reading -----------------------------------------------------------------------------------------------------------

    def _round(self, limits: Iterable[int]) -> list[tuple[int, int]]:
        """Every member polls once for up to its number of records. Returns the numbers of its partitions and of its records."""
        return list(self._pool.map(lambda member, limit: member.round(limit), self.members, limits))

    def settle(self) -> None:
        """Waits until all partitions are distributed evenly; then each member reads more, and some read from the store."""
        fair = self._partitions // len(self.members)
        shares: list[int] = []

        def shared() -> bool:
            shares[:] = [partitions for partitions, _ in self._round(repeat(1))]
            return set(shares) == {fair}

        # Slow enough that records are left to read, however long the group takes.
        wait_until(shared, f"{fair} each", seconds=_PATIENCE_SECONDS, pause=0.25, state=lambda: self._found(shares))
        self.history.add(Outage, over=True)
        taken: Counter[str] = Counter()
        before = self._from_store()
        rounds = count()

        def enough() -> bool:
            return all(taken[member.name] >= _BETWEEN for member in self.members)

        def all_read() -> bool:
            idle = _AT_ONCE if enough() else int(next(rounds) % _IDLE_ROUNDS == 0)
            limits = [idle if taken[member.name] >= _BETWEEN else _AT_ONCE for member in self.members]
            for member, (_, records) in zip(self.members, self._round(limits), strict=True):
                taken[member.name] += records
            direct = not any(member.reports_direct for member in self.members) or self._from_store() > before
            return direct and enough()

        def state() -> str:
            in_all = len(self.history.of(Polled))
            from_store = self._from_store() - before
            return f"they took {dict(taken)}, {from_store} from the store; without the victim's, {in_all} in the whole run"

        wait_until(all_read, "records for each member", seconds=_PATIENCE_SECONDS, pause=0, state=state)
        self.run.rebalances += 1

    def _found(self, shares: Sequence[int]) -> str:
        """Describes the group, as its members see it and as its coordinator does."""
        members = [f"{member.name} ({member.kind}, {member.id or 'in a process'})" for member in self.members]
        config = self._settings("plain")
        group = config["group.id"]
        asked = AdminClient({"bootstrap.servers": config["bootstrap.servers"], "log_level": 0})
        try:
            answer = asked.describe_consumer_groups([group], request_timeout=_ASKING_SECONDS)[group].result()
        except KafkaException as error:
            return f"{members} have {shares}; the coordinator says {error}"
        known = {one.member_id: len(one.assignment.topic_partitions) for one in answer.members}
        return f"{members} have {shares}; the coordinator's group is {answer.state.name} and has {known}"

    def _from_store(self) -> int:
        return sum(member.from_store for member in self.members)

    def finish(self, oracle: Oracle) -> None:
        """Reads until some member has got and committed every record.

        Members must commit before they leave, because the broker may reject the commit of a member that leaves during a
        rebalance.
        """
        left = set(undelivered(self.history_of_all(), oracle))
        seen = len(self.history)

        def all_came() -> bool:
            nonlocal seen
            self._round(repeat(100))
            news, seen = self.history.events[seen:], len(self.history)
            left.difference_update(_places(news))
            return not left

        wait_until(all_came, "all records", seconds=_PATIENCE_SECONDS, pause=0)
        asked = [TopicPartition(*key) for key in oracle.ends]

        def all_committed() -> bool:
            self._round(repeat(100))
            try:
                committed = self.members[0].consumer.inner.committed(asked, _ASKING_SECONDS)
            except KafkaException as error:
                if error.args[0].code() not in _UNANSWERED:
                    raise
                return False
            return all(tp.offset == oracle.ends[tp.topic, tp.partition] for tp in committed)

        wait_until(all_committed, "all commits", seconds=_PATIENCE_SECONDS, pause=0.1)

    def history_of_all(self) -> History:
        return History.merged(self.history, self._journal)


def run_script(
    kinds: Sequence[str],
    settings: _Settings,
    topic: str,
    partitions: int,
    oracle: Oracle,
    directory: Path,
    deletes: Deletes | None = None,
) -> GroupRun:
    """Runs the script with members of ``kinds`` in turn and reads the topic to its ends.

    With ``deletes`` the run owns the topic, and deletes records that no member has read.
    The group has up to four members at a time and settles twelve times: after each, all members read on.
    """
    group = _Group(kinds, settings, topic, partitions, directory)
    try:
        first, second = group.join(), group.join()
        victim = group.join_victim()
        if deletes is not None:
            group.delete_records(deletes)
        group.join()
        group.stop_heartbeats(victim)
        group.resume_heartbeats(victim)
        group.kill(victim)
        group.join()
        group.leave(first)
        group.join()
        group.leave(second)
        group.join()
        group.finish(oracle)
    finally:
        group.close()
    return attrs.evolve(group.run, history=group.history_of_all())


def undelivered(history: History, oracle: Oracle) -> list[tuple[Key, int]]:
    """Returns the records of ``oracle`` that no member got, without the deleted ones."""
    came = _places(history)
    starts = {event.key: event.log_start for event in history.of(Moved)}
    return [
        (key, offset)
        for key in oracle.ends
        for offset in oracle.offsets(key, starts.get(key, 0), oracle.ends[key])
        if (key, offset) not in came
    ]


def deleted_unread(history: History) -> int:
    """The number of records that no member got because they were deleted."""
    came = _places(history)
    return sum((event.key, offset) not in came for event in history.of(Moved) for offset in range(event.log_start))


def _places(events: Iterable[Event]) -> set[tuple[Key, int]]:
    return {(record.place, record.offset) for event in events if isinstance(event, Polled) for record in event.records}


def redelivered(history: History) -> int:
    """The number of records that were delivered more than once."""
    times: Counter[tuple[Key, int]] = Counter()
    for event in history.of(Polled):
        times.update((record.place, record.offset) for record in event.records)
    return sum(number > 1 for number in times.values())
