"""Shares of the event loop: by address for admitted clients, one small share for all others, turns in order."""

from __future__ import annotations

import pytest

from kafka_remote_client.shim.loop_shares import LoopShares, fair_level
from tests.support.locations import ManualClock


def shares(clock: ManualClock, limit: float = 0.4) -> LoopShares[str]:
    return LoopShares(limit, clock)


def served(one: LoopShares[str], clock: ManualClock, costs: dict[str, float], seconds: float) -> dict[str, float]:
    """The loop's time that each address got within ``seconds``, if each has a request ready at any moment."""
    got = dict.fromkeys(costs, 0.0)
    end = clock.now + seconds
    for address in costs:
        one.wait(address, address, setting_up=False)
    while clock.now < end:
        while (address := one.turn()) is not None:
            clock.now += costs[address]
            got[address] += costs[address]
            one.charge(address, costs[address], setting_up=False)
            one.wait(address, address, setting_up=False)
        clock.now += 0.0001
    return got


@pytest.mark.parametrize(
    ("demands", "level"),
    [
        ([], 0.9),
        ([0.1, 0.2], 0.9),
        ([0.1, 5.0], 0.8),
        ([0.1, 5.0, 5.0], 0.4),
        ([5.0, 5.0, 5.0], 0.3),
        ([0.5, 0.5, 0.5], 0.3),
        ([0.45, 0.45], 0.9),
    ],
)
def test_the_fair_level_is_max_min(demands: list[float], level: float) -> None:
    assert fair_level(demands, 0.9) == pytest.approx(level)
    assert sum(min(demand, level) for demand in demands) <= 0.9 + 1e-9


def test_an_address_alone_never_waits() -> None:
    clock = ManualClock()
    one = shares(clock)
    for _ in range(1_000):
        one.charge("a", 0.001, setting_up=False)
        assert not one.exceeded("a", setting_up=False)
        clock.now += 0.001


def test_a_flooding_address_gets_the_limit_beside_others() -> None:
    clock = ManualClock()
    one = shares(clock)
    one.charge("light", 0.0001, setting_up=False)
    got = 0.0
    for _ in range(2_000):
        clock.now += 0.0005
        one.charge("light", 0.00001, setting_up=False)
        assert not one.exceeded("light", setting_up=False)
        if not one.exceeded("flood", setting_up=False):
            one.charge("flood", 0.0005, setting_up=False)
            got += 0.0005
    assert got == pytest.approx(0.4, rel=0.05)


def test_addresses_that_flood_share_alike_whatever_their_requests_cost() -> None:
    clock = ManualClock()
    got = served(shares(clock), clock, {"a": 0.0001, "b": 0.001, "c": 0.0003}, 20.0)
    assert max(got.values()) < 1.3 * min(got.values())
    assert sum(got.values()) > 0.7 * 20, "the loop is not left idle"


def test_connections_of_an_address_take_turns() -> None:
    clock = ManualClock()
    one = shares(clock)
    one.charge("other", 0.001, setting_up=False)
    one.charge("a", 0.1, setting_up=False)
    for name in ("first", "second", "third"):
        one.wait("a", name, setting_up=False)
    one.wait("a", "first", setting_up=False)  # keeps its place
    order = []
    while one.waiting:
        clock.now += 1
        order.append(one.turn())
    assert order == ["first", "second", "third"]


def test_others_wait_behind_those_that_wait() -> None:
    clock = ManualClock()
    one = shares(clock)
    one.charge("other", 0.001, setting_up=False)
    one.charge("a", 0.01, setting_up=False)
    assert one.exceeded("a", setting_up=False)
    one.wait("a", "first", setting_up=False)
    clock.now += 1
    assert one.exceeded("a", setting_up=False), "somebody waits"
    assert one.turn() == "first"
    assert not one.exceeded("a", setting_up=False)


def test_clients_not_admitted_get_a_tenth_beside_admitted_ones() -> None:
    clock = ManualClock()
    one = shares(clock)
    got = 0.0
    for step in range(4_400):
        clock.now += 0.0005
        one.charge("admitted", 0.00001, setting_up=False)
        if not one.exceeded(f"flood-{step}", setting_up=True):
            one.charge(f"flood-{step}", 0.0005, setting_up=True)
            got += 0.0005 * (step >= 400)  # the first interval is over
        assert not one.exceeded("admitted", setting_up=False)
    assert got / 2 == pytest.approx(0.1, rel=0.1)


def test_clients_not_admitted_get_a_tenth_during_a_pause_of_admitted_ones() -> None:
    """An honest client on a busy machine may use no time of the loop for some tenths of a second."""
    clock = ManualClock(0.0)
    one = shares(clock)
    one.charge("admitted", 0.001, setting_up=False)
    got, gets = {}, 0.0
    for step in range(1, 4_000):
        clock.now = step * 0.0005
        if not one.exceeded("flood", setting_up=True):
            one.charge("flood", 0.0005, setting_up=True)
            gets += 0.0005
        if step % 1_000 == 0:
            got[clock.now], gets = gets, 0.0
    assert got[0.5] < 0.2, "0.9 in the first tenth of a second, a tenth from then on"
    assert got[1.0] == pytest.approx(0.05, abs=0.01)
    assert got[1.5] > 0.3, "nobody has used the loop for a second"


@pytest.mark.parametrize(("cost", "waits"), [(0.0099, False), (0.0101, True)])
def test_few_new_connections_do_not_wait_beside_admitted_clients(cost: float, waits: bool) -> None:
    """A consumer that begins to read makes three, one after the other."""
    clock = ManualClock(0.0)
    one = shares(clock)
    clock.now = 0.1
    one.charge("admitted", 0.001, setting_up=False)
    one.charge("new", cost, setting_up=True)
    assert one.exceeded("new", setting_up=True) is waits
    clock.now += 0.011
    assert not one.exceeded("new", setting_up=True), "a tenth of the time that passes"


def test_clients_not_admitted_get_most_of_an_idle_loop() -> None:
    """After a restart all clients come at once."""
    clock = ManualClock()
    one = shares(clock)
    got = 0.0
    for _ in range(2_000):
        clock.now += 0.0005
        if not one.exceeded("a", setting_up=True):
            one.charge("a", 0.0005, setting_up=True)
            got += 0.0005
    assert got == pytest.approx(0.9, rel=0.05)


def test_addresses_not_admitted_take_turns() -> None:
    """One newcomer of another address does not wait for a hundred of a hostile one."""
    clock = ManualClock()
    one = shares(clock)
    one.charge("hostile", 1.0, setting_up=True)
    for number in range(100):
        one.wait("hostile", f"hostile-{number}", setting_up=True)
    one.wait("honest", "honest", setting_up=True)
    order: list[str | None] = []
    while len(order) < 4:
        clock.now += 1
        order.append(one.turn())
    assert order == ["hostile-0", "honest", "hostile-1", "hostile-2"]


def test_the_turn_belongs_to_the_account_that_is_due_for_longest() -> None:
    clock, one = pair(limit=0.5)
    one.charge("other", 0.002, setting_up=False)
    one.charge("a", 0.001, setting_up=False)
    one.charge("late", 0.0003, setting_up=True)
    for address, setting_up in (("other", False), ("a", False), ("late", True)):
        one.wait(address, address, setting_up=setting_up)
    clock.now = 1.0
    assert [one.turn() for _ in range(4)] == ["late", "a", "other", None]


def test_who_leaves_gets_no_turn() -> None:
    clock = ManualClock()
    one = shares(clock)
    for setting_up in (True, False):
        one.wait("a", "gone", setting_up=setting_up)
    one.wait("a", "stays", setting_up=False)
    one.leave("a", "gone")
    one.leave("unknown", "gone")
    assert one.turn() == "stays"
    assert not one.waiting


def test_a_debt_is_a_second_at_most() -> None:
    clock = ManualClock()
    one = shares(clock)
    one.charge("other", 0.001, setting_up=False)
    one.charge("a", 60.0, setting_up=False)
    one.charge("b", 60.0, setting_up=True)
    assert one.unadmitted_debt == pytest.approx(1.0)
    assert one.exceeded("a", setting_up=False)
    clock.now += 1.001
    assert not one.exceeded("a", setting_up=False)
    assert one.unadmitted_debt == 0.0


def test_idle_addresses_are_forgotten() -> None:
    clock = ManualClock()
    one = shares(clock)
    one.charge("a", 0.001, setting_up=False)
    one.charge("b", 0.001, setting_up=False)
    one.charge("waits", 0.001, setting_up=False)
    one.wait("waits", "x", setting_up=False)
    assert len(one) == 3
    clock.now += 1.5
    one.charge("c", 0.001, setting_up=False)
    assert len(one) == 2
    one.turn()
    clock.now += 1.5
    one.charge("c", 0.001, setting_up=False)
    assert len(one) == 1


def test_a_new_limit_holds_from_the_next_interval() -> None:
    clock = ManualClock()
    one = shares(clock, limit=1.0)
    one.charge("other", 0.01, setting_up=False)
    one.limit = 0.1
    clock.now += 0.2
    one.charge("a", 0.0005, setting_up=False)
    one.charge("other", 0.0, setting_up=False)
    assert one.exceeded("a", setting_up=False), "half a millisecond is five at a tenth"


def pair(limit: float, seconds: float = 0.0) -> tuple[ManualClock, LoopShares[str]]:
    """Two admitted addresses, "a" and "other", at time 0. Each has used the loop for ``seconds``."""
    clock = ManualClock(0.0)
    one = shares(clock, limit)
    for address in ("other", "a"):
        one.charge(address, seconds, setting_up=False)
    return clock, one


def test_a_debt_of_the_window_is_no_reason_to_wait() -> None:
    clock, one = pair(limit=0.5)
    one.charge("a", 0.0005, setting_up=False)
    assert not one.exceeded("a", setting_up=False), "a millisecond at a share of a half"
    one.wait("a", "x", setting_up=False)
    assert one.turn() == "x"
    one.charge("a", 0.0001, setting_up=False)
    assert one.exceeded("a", setting_up=False)
    one.wait("a", "x", setting_up=False)
    assert one.turn() is None
    clock.now = 0.0003
    assert one.turn() == "x"


def test_the_first_address_has_all_of_the_loop_from_the_start() -> None:
    one = shares(ManualClock(0.0))
    one.charge("a", 0.5, setting_up=False)
    assert not one.exceeded("a", setting_up=False)


def test_addresses_that_use_little_have_the_whole_level() -> None:
    clock, one = pair(limit=1.0)
    for now in (0.0, 0.2, 0.4):
        clock.now = now
        one.charge("other", 0.0, setting_up=False)  # computes the shares again
        one.charge("a", 0.0008, setting_up=False)
        assert not one.exceeded("a", setting_up=False), "at a share of 0.9"
    one.charge("a", 0.0002, setting_up=False)
    assert one.exceeded("a", setting_up=False)


def test_an_address_beside_clients_not_admitted_has_the_limit() -> None:
    clock = ManualClock(0.0)
    one = shares(clock, limit=0.4)
    one.charge("x", 0.001, setting_up=True)
    clock.now = 0.1
    one.charge("a", 0.0, setting_up=False)
    one.charge("a", 0.001, setting_up=False)
    assert one.exceeded("a", setting_up=False)


@pytest.mark.parametrize(("now", "share"), [(0.0999, 0.9), (0.1, 0.1)])
def test_shares_change_after_a_tenth_of_a_second(now: float, share: float) -> None:
    clock = ManualClock(0.0)
    one = shares(clock)
    clock.now = now
    one.charge("a", 0.001, setting_up=False)
    one.charge("x", 0.01, setting_up=True)
    assert one.unadmitted_debt == pytest.approx(0.01 / share)


@pytest.mark.parametrize(("now", "known"), [(0.999, 3), (1.0, 1)])
def test_an_address_is_forgotten_after_a_second(now: float, known: int) -> None:
    clock, one = pair(limit=0.5, seconds=0.001)
    clock.now = now
    one.charge("c", 0.001, setting_up=False)
    assert len(one) == known


def test_the_level_follows_from_all_uses_of_an_interval() -> None:
    clock, one = pair(limit=1.0)
    for _ in range(2):
        one.charge("other", 0.03, setting_up=False)
    one.wait("a", "x", setting_up=False)
    clock.now = 0.1
    one.charge("other", 0.0, setting_up=False)
    assert one.turn() == "x"
    one.charge("a", 0.0004, setting_up=False)
    assert not one.exceeded("a", setting_up=False), "at a share of 0.45: other used 0.6 of the time, and a wants more"
    one.charge("a", 0.0001, setting_up=False)
    assert one.exceeded("a", setting_up=False)
