"""A model of a group's coordinator: committed offsets, and rebalances of the eager and the cooperative protocol.

An eager rebalance revokes all partitions of all members. When each has given up its own, all are assigned anew.

In a cooperative rebalance the members join again and keep their partitions. When all have joined, they are assigned, and a
partition that moves is assigned to nobody yet. A member first gives up what it loses, then gets what is new, perhaps nothing.
One that gave up something joins again, and the next rebalance assigns that.

A member that crashed is removed after its session has expired.

References: Kafka's GroupCoordinator, "range" assignments; KIP-62, KIP-429.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import attrs
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

from kafka_remote_client.consumer.message_positions import epoch_of
from kafka_remote_client.model import UNKNOWN_EPOCH

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Coordinator", "Rebalance"]

_SESSION_SECONDS = 3.0
_REBALANCE_SECONDS = 0.02


class Rebalance(Enum):
    """What a member is told."""

    ASSIGN = "assign"
    REVOKE = "revoke"


@attrs.define(eq=False)
class _Member:
    """``tell`` gives the member a callback for its next delivering call, ``rebalance`` is what that calls.

    Of the cooperative protocol: ``serving``: an event was told, and its callback is not over. ``joined``: in which rebalance.
    """

    name: str
    tell: Callable[[Callable[[], None]], None]
    rebalance: Callable[[Rebalance, list[int]], None]
    owned: list[int] = attrs.field(factory=list)
    serving: bool = False
    joined: int = 0
    crashed: bool = False


class Coordinator:
    """One group. Partitions are numbers."""

    def __init__(self, world: World, *, cooperative: bool = False) -> None:
        self._world = world
        self.cooperative = cooperative
        self._offsets: dict[int, tuple[int, int]] = {}
        self._members: dict[str, _Member] = {}
        self._generation = 0

    # -- offsets -----------------------------------------------------------------------------------------------------------

    def committed(self, number: int) -> tuple[int, int]:
        """The committed offset and its leader epoch, or OFFSET_INVALID."""
        return self._offsets.get(number, (OFFSET_INVALID, UNKNOWN_EPOCH))

    def commit(self, name: str | None, places: list[TopicPartition]) -> int | None:
        """Commits, for a member or for a consumer outside of the group's assignments. Returns the error's code if refused."""
        member = None if name is None else self._members.get(name)
        if name is not None and member is None:
            return KafkaError.UNKNOWN_MEMBER_ID
        if member is not None and any(tp.partition not in member.owned for tp in places):
            return KafkaError.ILLEGAL_GENERATION
        for tp in places:
            self._offsets[tp.partition] = tp.offset, epoch_of(tp.leader_epoch)
        return None

    def forget(self) -> None:
        """The topic was deleted, and with it its committed offsets."""
        self._offsets.clear()

    # -- members -----------------------------------------------------------------------------------------------------------

    def join(
        self, name: str, tell: Callable[[Callable[[], None]], None], rebalance: Callable[[Rebalance, list[int]], None]
    ) -> None:
        """A member subscribes."""
        self._members[name] = _Member(name, tell, rebalance)
        self._begin()

    def leave(self, name: str) -> None:
        """A member closes."""
        if self._members.pop(name, None) is not None:
            self._begin()

    def crashed(self, name: str) -> None:
        """A member's process has ended."""
        if name in self._members:
            self._members[name].crashed = True
        self._world.after(_SESSION_SECONDS, partial(self.leave, name))

    def _begin(self) -> None:
        """A rebalance begins: members with partitions give them up."""
        self._generation += 1
        if any(member.owned for member in self._members.values()):
            self._world.seen.saw("rebalanced")
        if self.cooperative:
            self._join_again()
            return
        for member in self._members.values():
            if member.owned:
                self._tell(member, Rebalance.REVOKE, member.owned)
        self._world.after(_REBALANCE_SECONDS, partial(self._assign, self._generation))

    def _tell(self, member: _Member, event: Rebalance, numbers: list[int]) -> None:
        member.tell(partial(self.serve, member, event, numbers, self._generation))

    def serve(self, member: _Member, event: Rebalance, numbers: list[int], generation: int) -> None:
        """The member's delivering call serves the event. It is void after a later rebalance began or the member left."""
        is_owner = bool(member.owned)
        if self._members.get(member.name) is not member or is_owner is (event is Rebalance.ASSIGN):
            return
        if event is Rebalance.ASSIGN:
            if generation != self._generation:
                return
            member.owned = numbers
        self._world.tell("%s: %s %s", member.name, event.value, numbers)
        member.rebalance(event, numbers)
        if event is Rebalance.REVOKE:
            member.owned = []
            self._world.after(_REBALANCE_SECONDS, partial(self._assign, self._generation))

    def _assign(self, generation: int) -> None:
        """Assigns all partitions if no member has any left."""
        if generation != self._generation or not self._members or any(one.owned for one in self._members.values()):
            return
        names, count = sorted(self._members), len(self._world.brokers.partitions)
        for place, name in enumerate(names):
            numbers = list(range(count))[place :: len(names)]
            if numbers:
                self._tell(self._members[name], Rebalance.ASSIGN, numbers)

    # -- the cooperative protocol ------------------------------------------------------------------------------------------

    def _join_again(self) -> None:
        """All members join the new rebalance, one whose callback is not over after that."""
        for member in self._members.values():
            if member.serving:
                self._world.seen.saw("rebalance-restarted")
            else:
                self._world.after(self._world.some(_REBALANCE_SECONDS), partial(self._joins, member))

    def _joins(self, member: _Member) -> None:
        gone = self._members.get(member.name) is not member or member.crashed
        if gone or member.serving or member.joined == self._generation:
            return
        member.joined = self._generation
        if all(one.joined == self._generation for one in self._members.values()):
            self._assign_what_is_free()

    def _assign_what_is_free(self) -> None:
        members = [self._members[name] for name in sorted(self._members)]
        taken = set(chain.from_iterable(member.owned for member in members))
        for member, target in zip(members, self._balanced(members), strict=True):
            lost = [number for number in member.owned if number not in target]
            new = [number for number in target if number not in taken]
            member.serving = True
            if lost and len(lost) < len(member.owned):
                self._world.seen.saw("revoked-in-part")
            if not lost and not new:
                self._world.seen.saw("assigned-nothing-new")
            if lost:
                self._tell_increment(member, Rebalance.REVOKE, lost, new)
            else:
                self._tell_increment(member, Rebalance.ASSIGN, new, None)

    def _balanced(self, members: list[_Member]) -> list[list[int]]:
        """Returns for each member as equally many partitions as possible, first of all its own."""
        count = len(self._world.brokers.partitions)
        least, more = divmod(count, len(members))
        most_first = sorted(range(len(members)), key=lambda place: -len(members[place].owned))
        targets: list[list[int]] = [[] for _ in members]
        for rank, place in enumerate(most_first):
            targets[place] = members[place].owned[: least + (rank < more)]
        free = [number for number in range(count) if number not in chain.from_iterable(targets)]
        for rank, place in enumerate(most_first):
            room = least + (rank < more) - len(targets[place])
            targets[place] = [*targets[place], *free[:room]]
            del free[:room]
        return targets

    def _tell_increment(self, member: _Member, event: Rebalance, numbers: list[int], then: list[int] | None) -> None:
        member.tell(partial(self.serve_increment, member, event, numbers, then))

    def serve_increment(self, member: _Member, event: Rebalance, numbers: list[int], then: list[int] | None) -> None:
        """The member's delivering call serves the event. ``then``: the partitions that it gets after those that it loses."""
        if self._members.get(member.name) is not member:
            return
        self._world.tell("%s: %s %s", member.name, event.value, numbers)
        if event is Rebalance.ASSIGN:
            member.owned = [*member.owned, *numbers]
            member.rebalance(event, numbers)
            member.serving = False
            if then is not None:
                self._begin()
            elif member.joined != self._generation:
                self._world.after(self._world.some(_REBALANCE_SECONDS), partial(self._joins, member))
            return
        member.rebalance(event, numbers)
        member.owned = [number for number in member.owned if number not in numbers]
        if then is not None:
            member.tell(partial(self.serve_increment, member, Rebalance.ASSIGN, then, numbers))
