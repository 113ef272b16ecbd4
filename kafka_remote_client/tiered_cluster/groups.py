"""A consumer group of the classic protocol: requests in, answers out, in virtual time. Kafka's GroupCoordinator, for one group.

::

    state                  leaves by
    EMPTY                  a member joins → PREPARING_REBALANCE
    PREPARING_REBALANCE    all members joined, or the rebalance time-out → COMPLETING_REBALANCE; no member left → EMPTY
    COMPLETING_REBALANCE   the leader's SyncGroup → STABLE; a member joins, leaves or expires → PREPARING_REBALANCE
    STABLE                 a member joins, leaves or expires → PREPARING_REBALANCE

JoinGroup and SyncGroup wait: their requests have tokens, and :func:`step` returns the answers of those that wait no longer. A
static member (``instance``) that comes again takes the place of the one before, and the group rebalances. Kafka would not, if
the assignment could stay. There is no initial rebalance delay.

References: KIP-62, KIP-345, KIP-394; Kafka's GroupCoordinator, GroupMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

import attrs

from kafka_remote_client.tiered_cluster.error_codes import ErrorCode

__all__ = [
    "Answer",
    "Beat",
    "Group",
    "GroupEvent",
    "GroupState",
    "Join",
    "Joined",
    "Leave",
    "Member",
    "Sync",
    "Tick",
    "commit_error",
    "next_deadline",
    "step",
]


class GroupState(Enum):
    """The module's table."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


_EMPTY, _PREPARING, _COMPLETING, _STABLE = GroupState


@attrs.frozen
class Join:
    """JoinGroup. ``member``: the member's id; ``new_id`` is the one that a member without one gets.

    ``known_first``: the member is told its id, and has to join again with it (KIP-394). Times are in milliseconds.
    """

    token: int
    now_ms: int
    member: str
    new_id: str
    protocols: tuple[tuple[str, bytes], ...]
    session_ms: int
    rebalance_ms: int
    instance: str | None = None
    known_first: bool = False


@attrs.frozen
class Sync:
    """SyncGroup. ``assignments``: by member, from the leader."""

    token: int
    now_ms: int
    member: str
    generation: int
    assignments: Mapping[str, bytes] = MappingProxyType({})


@attrs.frozen
class Beat:
    """Heartbeat."""

    token: int
    now_ms: int
    member: str
    generation: int


@attrs.frozen
class Leave:
    """LeaveGroup, for one member, by its id or as a static member."""

    token: int
    now_ms: int
    member: str
    instance: str | None = None


@attrs.frozen
class Tick:
    """Time passes."""

    now_ms: int


GroupEvent: TypeAlias = Join | Sync | Beat | Leave | Tick


@attrs.frozen
class Joined:
    """What JoinGroup gives. ``members``: id, instance and metadata of each, for the leader alone."""

    member: str
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@attrs.frozen
class Answer:
    """The answer to the request with that token."""

    token: int
    error: ErrorCode = ErrorCode.NONE
    joined: Joined | None = None
    assignment: bytes = b""


@attrs.frozen
class Member:
    """``joining``, ``syncing``: the token of a request that waits."""

    id: str
    instance: str | None
    protocols: tuple[tuple[str, bytes], ...]
    session_ms: int
    rebalance_ms: int
    seen_ms: int
    joining: int | None = None
    syncing: int | None = None
    assignment: bytes = b""


@attrs.frozen
class Group:
    """``members``: in the order in which they came. ``deadline_ms``: of a rebalance."""

    state: GroupState = _EMPTY
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: tuple[Member, ...] = ()
    told_ids: frozenset[str] = frozenset()
    deadline_ms: int = 0

    def member(self, member_id: str) -> Member | None:
        """``None`` for one that the group does not have."""
        return next((one for one in self.members if one.id == member_id), None)

    def with_member(self, changed: Member) -> Group:
        """The group with this member in place of the one with its id, or after all others."""
        if self.member(changed.id) is None:
            return attrs.evolve(self, members=(*self.members, changed))
        same = tuple(changed if one.id == changed.id else one for one in self.members)
        return attrs.evolve(self, members=same)

    def without(self, gone: Iterable[str]) -> Group:
        """The group without these members."""
        ids = {*gone}
        return attrs.evolve(self, members=tuple(one for one in self.members if one.id not in ids))


_Stepped: TypeAlias = tuple[Group, tuple[Answer, ...]]


def step(group: Group, event: GroupEvent) -> _Stepped:
    """The group after an event, and the answers that are due."""
    match event:
        case Join():
            return _join(group, event)
        case Sync():
            return _sync(group, event)
        case Beat():
            return _beat(group, event)
        case Leave():
            return _leave(group, event)
    return _tick(group, event.now_ms)


def next_deadline(group: Group) -> int | None:
    """When a :class:`Tick` is due, in milliseconds; ``None`` while nothing waits."""
    due = [one.seen_ms + one.session_ms for one in group.members if one.joining is None]
    if group.state is _PREPARING:
        due.append(group.deadline_ms)
    return min(due, default=None)


def commit_error(group: Group, member_id: str, generation: int) -> ErrorCode:
    """Why an OffsetCommit is refused; NONE if it is not. Clients outside of any group have generation -1."""
    if generation < 0 and group.state is _EMPTY:
        return ErrorCode.NONE
    return _refusal(group, member_id, generation, rebalancing=_COMPLETING)


def _refusal(group: Group, member_id: str, generation: int, *, rebalancing: GroupState) -> ErrorCode:
    """Why a member's request is refused, in the state ``rebalancing`` too; NONE if it is not."""
    if group.member(member_id) is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is rebalancing else ErrorCode.NONE


def _join(group: Group, event: Join) -> _Stepped:
    fenced: tuple[Answer, ...] = ()
    if not event.member:
        if event.known_first and event.instance is None:
            told = attrs.evolve(group, told_ids=group.told_ids | {event.new_id})
            return told, (Answer(event.token, ErrorCode.MEMBER_ID_REQUIRED, Joined(event.new_id)),)
        replaced = [one for one in group.members if event.instance is not None and one.instance == event.instance]
        fenced, group = _dropped(replaced), group.without(one.id for one in replaced)
    elif event.member not in group.told_ids and group.member(event.member) is None:
        return group, (Answer(event.token, ErrorCode.UNKNOWN_MEMBER_ID, Joined(event.member)),)
    names = {name for name, _ in event.protocols}
    others = [one for one in group.members if one.id != event.member]
    if not names or any(not names & {name for name, _ in one.protocols} for one in others):
        return group, (Answer(event.token, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Joined(event.member)),)
    known = group.member(event.member)
    member = Member(
        event.member or event.new_id,
        event.instance,
        event.protocols,
        event.session_ms,
        event.rebalance_ms,
        event.now_ms,
        event.token,
        assignment=b"" if known is None else known.assignment,
    )
    unchanged = known is not None and known.protocols == event.protocols
    if unchanged and (group.state is _COMPLETING or (group.state is _STABLE and member.id != group.leader)):
        answer = Answer(event.token, joined=_joined(group, member.id))
        return group.with_member(attrs.evolve(member, joining=None)), (answer,)
    group = attrs.evolve(group.with_member(member), told_ids=group.told_ids - {member.id})
    group, answers = _rebalancing(group, event.now_ms)
    return group, (*fenced, *answers)


def _rebalancing(group: Group, now_ms: int) -> _Stepped:
    """The group prepares a rebalance; it completes at once if all members have joined."""
    answers = [Answer(one.syncing, ErrorCode.REBALANCE_IN_PROGRESS) for one in group.members if one.syncing is not None]
    members = tuple(attrs.evolve(one, syncing=None) for one in group.members)
    if group.state is not _PREPARING:
        longest = max((one.rebalance_ms for one in members), default=0)
        group = attrs.evolve(group, state=_PREPARING, deadline_ms=now_ms + longest)
    group, completed = _completed(attrs.evolve(group, members=members), now_ms)
    return group, (*answers, *completed)


def _completed(group: Group, now_ms: int) -> _Stepped:
    joined = [one for one in group.members if one.joining is not None]
    if len(joined) < len(group.members) and now_ms < group.deadline_ms:
        return group, ()
    if not joined:
        return attrs.evolve(group, state=_EMPTY, generation=group.generation + 1, members=(), leader="", protocol=""), ()
    leader = group.leader if any(one.id == group.leader for one in joined) else joined[0].id
    members = tuple(attrs.evolve(one, joining=None, seen_ms=now_ms, assignment=b"") for one in joined)
    group = attrs.evolve(
        group,
        state=_COMPLETING,
        generation=group.generation + 1,
        leader=leader,
        members=members,
        protocol=_chosen([one.protocols for one in joined]),
    )
    return group, tuple(Answer(one.joining, joined=_joined(group, one.id)) for one in joined if one.joining is not None)


def _chosen(offered: list[tuple[tuple[str, bytes], ...]]) -> str:
    """The protocol of most members' first choice, of those that all have."""
    common = set.intersection(*({name for name, _ in protocols} for protocols in offered))
    votes = [next(name for name, _ in protocols if name in common) for protocols in offered]
    return max(votes, key=votes.count)


def _joined(group: Group, member_id: str) -> Joined:
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    if member_id == group.leader:
        members = tuple((one.id, one.instance, dict(one.protocols)[group.protocol]) for one in group.members)
    return Joined(member_id, group.generation, group.protocol, group.leader, members)


def _sync(group: Group, event: Sync) -> _Stepped:
    member, error = group.member(event.member), _refusal(group, event.member, event.generation, rebalancing=_PREPARING)
    if member is None or error:
        return group, (Answer(event.token, error),)
    if group.state is _STABLE:
        seen = attrs.evolve(member, seen_ms=event.now_ms)
        return group.with_member(seen), (Answer(event.token, assignment=member.assignment),)
    group = group.with_member(attrs.evolve(member, syncing=event.token, seen_ms=event.now_ms))
    if event.member != group.leader:
        return group, ()
    members = tuple(attrs.evolve(one, assignment=event.assignments.get(one.id, b"")) for one in group.members)
    answers = tuple(Answer(one.syncing, assignment=one.assignment) for one in members if one.syncing is not None)
    members = tuple(attrs.evolve(one, syncing=None) for one in members)
    return attrs.evolve(group, state=_STABLE, members=members), answers


def _beat(group: Group, event: Beat) -> _Stepped:
    member, error = group.member(event.member), _refusal(group, event.member, event.generation, rebalancing=_PREPARING)
    if member is None or error is ErrorCode.ILLEGAL_GENERATION:
        return group, (Answer(event.token, error),)
    return group.with_member(attrs.evolve(member, seen_ms=event.now_ms)), (Answer(event.token, error),)


def _leave(group: Group, event: Leave) -> _Stepped:
    by_instance = event.instance is not None and not event.member
    gone = [one for one in group.members if (one.instance == event.instance if by_instance else one.id == event.member)]
    if not gone:
        return group, (Answer(event.token, ErrorCode.UNKNOWN_MEMBER_ID),)
    group, answers = _removed(group, gone, event.now_ms)
    return group, (Answer(event.token), *answers)


def _removed(group: Group, gone: list[Member], now_ms: int) -> _Stepped:
    group, answers = _rebalancing(group.without(one.id for one in gone), now_ms)
    return group, (*_dropped(gone), *answers)


def _dropped(gone: list[Member]) -> tuple[Answer, ...]:
    """The answers to the requests of members that the group has no longer."""
    waiting = [token for one in gone for token in (one.joining, one.syncing) if token is not None]
    return tuple(Answer(token, ErrorCode.UNKNOWN_MEMBER_ID, Joined("")) for token in waiting)


def _tick(group: Group, now_ms: int) -> _Stepped:
    gone = [one for one in group.members if one.joining is None and now_ms >= one.seen_ms + one.session_ms]
    if gone:
        return _removed(group, gone, now_ms)
    return _completed(group, now_ms) if group.state is _PREPARING else (group, ())
