"""The sum of all buffers has a bound; connections are dropped in a defined order to keep it."""

from __future__ import annotations

import attrs

from kafka_remote_client.shim.buffers import BufferBudget


@attrs.define(eq=False)
class Connection:
    name: str
    admitted: bool = True
    since: float = 0.0
    held: int = 0

    def waited(self, now: float) -> float:
        return now - self.since


def names(budget: BufferBudget, *connections: Connection) -> list[str]:
    return [one.name for one in budget.victims(connections, 10.0)]


def test_the_budget_counts_the_bytes_held_now() -> None:
    budget = BufferBudget(100)
    one, two = Connection("one"), Connection("two")
    budget.holds(one, 60)
    budget.holds(two, 40)
    assert not budget.exceeded
    budget.holds(one, 61)
    assert budget.exceeded
    budget.holds(one, 0)
    assert budget.held == 40


def test_no_connection_is_dropped_within_the_budget() -> None:
    budget = BufferBudget(100)
    one = Connection("one")
    budget.holds(one, 100)
    assert names(budget, one) == []


def test_clients_without_a_broker_are_dropped_first() -> None:
    budget = BufferBudget(100)
    old, new = Connection("old"), Connection("new", admitted=False, since=10.0)
    budget.holds(old, 90)
    budget.holds(new, 20)
    assert names(budget, old, new) == ["new"]


def test_the_largest_and_oldest_buffers_are_dropped_next() -> None:
    budget = BufferBudget(100)
    reads, stuck, large = Connection("reads", since=9.99), Connection("stuck"), Connection("large", since=9.0)
    idle = Connection("idle")
    budget.holds(reads, 60)
    budget.holds(stuck, 50)
    budget.holds(large, 80)
    assert names(budget, idle, reads, stuck, large) == ["stuck", "large"]


def test_a_choice_frees_a_sixteenth_of_the_budget() -> None:
    """The next bytes of another connection do not cause the next choice."""
    budget = BufferBudget(1_600)
    peers = [Connection(str(number), since=float(number)) for number in range(9)]
    for peer in peers:
        budget.holds(peer, 178)
    assert names(budget, *peers) == ["0"], "of 1,602 bytes 1,424 are left"
    budget.holds(peers[0], 101)
    budget.holds(peers[8], 256)
    assert names(budget, *peers) == ["1"], "of 1,603 bytes 1,425 are left"
    for peer in peers:
        budget.holds(peer, 0)
    small = [Connection(str(number), since=float(number)) for number in range(33)]
    for one in small:
        budget.holds(one, 49)
    assert names(budget, *small) == ["0", "1", "2"], "1,500 of 1,617 bytes are the most that may be left"
