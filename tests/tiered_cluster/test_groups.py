"""A group of the classic protocol gives each member its answers, and rebalances as Kafka's coordinator does."""

from __future__ import annotations

from itertools import count

import pytest

from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.groups import (
    Answer,
    Beat,
    Group,
    GroupEvent,
    GroupState,
    Join,
    Leave,
    Sync,
    Tick,
    commit_error,
    next_deadline,
    step,
)

RANGE = (("range", b"r"),)


class Coordinator:
    """One group, and the answers of each event. Requests of member ``a`` have the tokens in the order of the calls."""

    def __init__(self) -> None:
        self.group = Group()
        self.now_ms = 0
        self._tokens = count()

    def send(self, event: GroupEvent) -> list[Answer]:
        self.group, answers = step(self.group, event)
        return list(answers)

    def join(
        self, member: str, *, known: bool = True, protocols: tuple[tuple[str, bytes], ...] = RANGE, **more: object
    ) -> list[Answer]:
        asked = member if known and self.group.member(member) is not None else ""
        return self.send(Join(next(self._tokens), self.now_ms, asked, member, protocols, 10, 100, **more))

    def sync(self, member: str, generation: int = 1, **assignments: bytes) -> list[Answer]:
        return self.send(Sync(next(self._tokens), self.now_ms, member, generation, assignments))

    def beat(self, member: str, generation: int = 1) -> ErrorCode:
        (answer,) = self.send(Beat(next(self._tokens), self.now_ms, member, generation))
        return answer.error

    def leave(self, member: str, **more: str) -> list[Answer]:
        return self.send(Leave(next(self._tokens), self.now_ms, member, **more))

    def stable(self) -> Coordinator:
        """With the members ``a``, the leader, and ``b``, in generation 2."""
        self.join("a")
        self.join("b")
        self.join("a")
        self.sync("b", 2)
        self.sync("a", 2, a=b"0", b=b"1")
        assert self.group.state is GroupState.STABLE
        return self


def test_first_member_leads_at_once() -> None:
    coordinator = Coordinator()
    (answer,) = coordinator.join("a")
    assert answer.joined is not None
    assert (answer.joined.leader, answer.joined.generation, answer.joined.protocol) == ("a", 1, "range")
    assert answer.joined.members == (("a", None, b"r"),)
    assert coordinator.sync("a", a=b"all") == [Answer(1, assignment=b"all")]
    assert coordinator.sync("a") == [Answer(2, assignment=b"all")]


def test_rebalance_waits_for_all_members_and_then_for_the_leader() -> None:
    coordinator = Coordinator()
    coordinator.join("a")
    coordinator.sync("a", a=b"all")
    assert coordinator.join("b") == []
    assert coordinator.beat("a") is ErrorCode.REBALANCE_IN_PROGRESS
    second, first = sorted(coordinator.join("a"), key=lambda one: one.token)
    assert second.joined is not None
    assert first.joined is not None
    assert second.joined.members == ()
    assert [one for one, *_ in first.joined.members] == ["a", "b"]
    assert coordinator.sync("b", 2) == []
    answers = coordinator.sync("a", 2, a=b"0", b=b"1")
    assert {one.assignment for one in answers} == {b"0", b"1"}
    assert coordinator.beat("b", 2) is ErrorCode.NONE


def test_member_learns_its_id_first() -> None:
    coordinator = Coordinator()
    (told,) = coordinator.join("a", known_first=True)
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert told.joined is not None
    (joined,) = coordinator.send(Join(9, 0, told.joined.member, "unused", RANGE, 10, 100, known_first=True))
    assert joined.error is ErrorCode.NONE
    (unknown,) = coordinator.send(Join(10, 0, "stranger", "unused", RANGE, 10, 100))
    assert unknown.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_protocol_of_most_first_choices_wins() -> None:
    coordinator = Coordinator()
    both, other = (("range", b""), ("sticky", b"")), (("sticky", b""), ("range", b""))
    coordinator.join("a", protocols=both)
    coordinator.join("b", protocols=other)
    coordinator.join("c", protocols=other)
    coordinator.join("a", protocols=both)
    assert coordinator.group.protocol == "sticky"
    (answer,) = coordinator.join("d", protocols=(("cooperative", b""),))
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_follower_that_joins_unchanged_causes_no_rebalance() -> None:
    coordinator = Coordinator().stable()
    (answer,) = coordinator.join("b")
    assert answer.joined is not None
    assert answer.joined.generation == 2
    assert coordinator.group.state is GroupState.STABLE
    assert coordinator.join("a") == []
    assert coordinator.group.state is GroupState.PREPARING_REBALANCE


def test_leaving_starts_a_rebalance() -> None:
    coordinator = Coordinator().stable()
    assert [one.error for one in coordinator.leave("b")] == [ErrorCode.NONE]
    assert coordinator.beat("a", 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.sync("a", 2)[0].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert coordinator.leave("b")[0].error is ErrorCode.UNKNOWN_MEMBER_ID
    coordinator.leave("a")
    assert coordinator.group.state is GroupState.EMPTY
    assert next_deadline(coordinator.group) is None


def test_new_member_ends_a_sync_that_waits() -> None:
    coordinator = Coordinator()
    coordinator.join("a")
    coordinator.join("b")
    coordinator.join("a")
    coordinator.sync("b", 2)
    (answer,) = coordinator.join("c")
    assert answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_silent_member_expires() -> None:
    coordinator = Coordinator().stable()
    coordinator.now_ms = 9
    coordinator.beat("a", 2)
    assert next_deadline(coordinator.group) == 10
    assert coordinator.send(Tick(9)) == []
    coordinator.send(Tick(10))
    assert [one.id for one in coordinator.group.members] == ["a"]
    assert coordinator.group.state is GroupState.PREPARING_REBALANCE


def test_rebalance_drops_members_that_do_not_join_in_time() -> None:
    coordinator = Coordinator().stable()
    coordinator.join("c")
    for now in range(5, 100, 5):
        coordinator.now_ms = now
        coordinator.beat("a", 2)
        coordinator.beat("b", 2)
        assert coordinator.send(Tick(now)) == []
    coordinator.now_ms = 99
    coordinator.beat("a", 2)
    assert next_deadline(coordinator.group) == 100
    (answer,) = coordinator.send(Tick(100))
    assert answer.joined is not None
    assert answer.joined.leader == "c"


def test_static_member_replaces_the_one_before() -> None:
    coordinator = Coordinator()
    coordinator.join("a", instance="one")
    coordinator.join("b", instance="two")
    answers = coordinator.join("b2", instance="two", known=False)
    assert [one.error for one in answers] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert [one.id for one in coordinator.group.members] == ["a", "b2"]
    coordinator.leave("", instance="two")
    assert [one.id for one in coordinator.group.members] == ["a"]


@pytest.mark.parametrize(
    ("member", "generation", "error"),
    [
        ("a", 2, ErrorCode.NONE),
        ("a", 1, ErrorCode.ILLEGAL_GENERATION),
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_requests_of_other_members_are_refused(member: str, generation: int, error: ErrorCode) -> None:
    coordinator = Coordinator().stable()
    assert commit_error(coordinator.group, member, generation) is error
    if generation > 0:
        assert coordinator.beat(member, generation) is error
        assert coordinator.sync(member, generation)[0].error is error


def test_commits_need_an_assignment_or_an_empty_group() -> None:
    coordinator = Coordinator()
    assert commit_error(coordinator.group, "", -1) is ErrorCode.NONE
    coordinator.join("a")
    assert commit_error(coordinator.group, "a", 1) is ErrorCode.REBALANCE_IN_PROGRESS
