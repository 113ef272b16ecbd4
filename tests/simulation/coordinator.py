"""A model of a group's coordinator: committed offsets, and rebalances of the eager protocol.

A rebalance revokes all partitions of all members. When each has given up its own, all are assigned anew. A member that crashed
is removed after its session has expired.

References: Kafka's GroupCoordinator, "range" assignments; KIP-62.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

import attrs
from confluent_kafka import OFFSET_INVALID, KafkaError, TopicPartition

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
    """``tell`` gives the member a callback for its next delivering call, ``rebalance`` is what that calls."""

    name: str
    tell: Callable[[Callable[[], None]], None]
    rebalance: Callable[[Rebalance, list[int]], None]
    owned: list[int] = attrs.field(factory=list)


class Coordinator:
    """One group. Partitions are numbers."""

    def __init__(self, world: World) -> None:
        self._world = world
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
            self._offsets[tp.partition] = tp.offset, UNKNOWN_EPOCH if tp.leader_epoch is None else tp.leader_epoch
        return None

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
        self._world.after(_SESSION_SECONDS, partial(self.leave, name))

    def _begin(self) -> None:
        """A rebalance begins: members with partitions give them up."""
        self._generation += 1
        if any(member.owned for member in self._members.values()):
            self._world.seen.saw("rebalanced")
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
