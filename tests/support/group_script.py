"""One script for a group: members join, leave, are stopped, wake up as ghosts, are killed; partitions move each time.

The same script runs with any kind of member in any protocol, so that a direct group can be held against a plain one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from tests.support.group_member import LocalMember, ProcessMember
from tests.support.history import Event, History, Key, Polled
from tests.support.invariants.oracle import Oracle
from tests.support.invariants.spans import Span, walk
from tests.support.waiting import wait_until

__all__ = ["GroupRun", "run_script", "undelivered", "unexplained"]

_Member: TypeAlias = LocalMember | ProcessMember
_Settings: TypeAlias = Callable[[str], dict[str, Any]]
"""The configuration of a member of a kind."""

_PATIENCE_SECONDS = 300.0
_VICTIM = "victim"
_BETWEEN = 10
"""Records that each member takes at least between two rebalances."""


@attrs.define
class GroupRun:
    """What a run left. ``rebalances``: after how many of them all members read on, the direct ones from the store."""

    history: History
    rebalances: int = 0


class _Group:
    def __init__(self, kinds: Sequence[str], settings: _Settings, topic: str, partitions: int, directory: Path) -> None:
        self.history = History()
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

    # -- who is there ------------------------------------------------------------------------------------------------------

    def _next_kind(self) -> str:
        self._made += 1
        return self._kinds[(self._made - 1) % len(self._kinds)]

    def join(self) -> LocalMember:
        kind = self._next_kind()
        member = LocalMember(f"member-{self._made}", kind, self._settings(kind), self._topic, self.history)
        self.members.append(member)
        self.settle()
        return member

    def join_victim(self) -> ProcessMember:
        kind = self._next_kind()
        # Its session is short, and it commits when partitions are taken away only: what it had taken since comes again.
        config = {**self._settings(kind), "auto.commit.interval.ms": 600_000}
        if "session.timeout.ms" in config:
            config["session.timeout.ms"] = 6_000
        member = ProcessMember(_VICTIM, kind, config, self._topic, self._journal)
        self.members.append(member)
        self.settle()
        return member

    def leave(self, member: LocalMember) -> None:
        self.members.remove(member)
        member.close()
        self.settle()

    def fall_asleep(self, member: ProcessMember) -> None:
        self.members.remove(member)
        self.asleep.append(member)
        member.stop()
        self.settle()

    def wake_up(self, member: ProcessMember) -> None:
        self.asleep.remove(member)
        member.go_on()
        self.members.append(member)
        self.settle()

    def die(self, member: ProcessMember) -> None:
        self.members.remove(member)
        member.kill()
        self.settle()

    def close(self) -> None:
        for one in self.asleep:
            one.go_on()
        for member in [*self.members, *self.asleep]:
            member.close()
        self._pool.shutdown()

    # -- what it does ------------------------------------------------------------------------------------------------------

    def _round(self, limit: int) -> list[tuple[int, int]]:
        """Every member polls once; how many partitions each has, how many records came to it."""
        return list(self._pool.map(lambda member: member.round(limit), self.members))

    def settle(self) -> None:
        """Until all partitions are shared out evenly; then some more is read by each, and from the store by some."""
        fair = self._partitions // len(self.members)
        wait_until(
            lambda: {count for count, _ in self._round(1)} == {fair}, f"{fair} each", seconds=_PATIENCE_SECONDS, pause=0.02
        )
        taken: Counter[str] = Counter()
        before = self._from_store()

        def all_read() -> bool:
            for member, (_, records) in zip(self.members, self._round(5), strict=True):
                taken[member.name] += records
            direct = not any(member.reports_direct for member in self.members) or self._from_store() > before
            return direct and all(taken[member.name] >= _BETWEEN for member in self.members)

        wait_until(all_read, "records for each member", seconds=_PATIENCE_SECONDS, pause=0)
        self.run.rebalances += 1

    def _from_store(self) -> int:
        return sum(member.from_store for member in self.members)

    def finish(self, oracle: Oracle) -> None:
        """Reads on until every record has come to some member."""

        left = set(undelivered(self.history_of_all(), oracle))
        seen = len(self.history)

        def all_came() -> bool:
            nonlocal seen
            self._round(100)
            news, seen = self.history.events[seen:], len(self.history)
            left.difference_update(_places(news))
            return not left

        wait_until(all_came, "all records", seconds=_PATIENCE_SECONDS, pause=0)

    def history_of_all(self) -> History:
        return History.merged(self.history, self._journal)


def run_script(
    kinds: Sequence[str], settings: _Settings, topic: str, partitions: int, oracle: Oracle, directory: Path
) -> GroupRun:
    """Runs the script with members of ``kinds`` in turn and reads the topic to its ends.

    The group has up to four members at a time and settles twelve times: after each, all members read on.
    """
    group = _Group(kinds, settings, topic, partitions, directory)
    try:
        first, second = group.join(), group.join()
        victim = group.join_victim()
        group.join()
        group.fall_asleep(victim)
        group.wake_up(victim)
        group.die(victim)
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
    """The records of ``oracle`` that no member was given."""
    came = _places(history)
    return [
        (key, offset) for key in oracle.ends for offset in oracle.offsets(key, 0, oracle.ends[key]) if (key, offset) not in came
    ]


def _places(events: Iterable[Event]) -> set[tuple[Key, int]]:
    return {(record.place, record.offset) for event in events if isinstance(event, Polled) for record in event.records}


def unexplained(history: History) -> tuple[list[tuple[Key, int]], int]:
    """Records that came more than once though no member that had them died or lost its partition; how many others came again.

    A member that gives up a partition in order has committed what it was handed before the next one starts: so one delivery of
    a record at most may be such a member's.
    """
    in_order: Counter[tuple[Key, int]] = Counter()
    all_of_them: Counter[tuple[Key, int]] = Counter()
    for span in walk(history).spans:
        places = [(span.key, delivery.record.offset) for delivery in span.deliveries]
        all_of_them.update(places)
        if not _crashed(history, span):
            in_order.update(places)
    wrong = [place for place, times in in_order.items() if times > 1]
    return wrong, sum(times > 1 for times in all_of_them.values()) - len(wrong)


def _crashed(history: History, span: Span) -> bool:
    return span.ended is None or getattr(span.ended, "lost", False)
