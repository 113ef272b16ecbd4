from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.flights import Flights, Return
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.model import ByteRange, GrantedRange
from tests.support.locations import location

CONFIG = attrs.evolve(RemoteFetchConfig(enabled=True), read_timeout_ms=2000, connect_timeout_ms=1000)
ALLOWED = 3.5
"""Both time-outs, and half a second of grace."""


def flight(*, leased: bool = True, released: list[Lease] | None = None) -> Fetch:
    read = RangeRead(GrantedRange(ByteRange(0, 10), b""))
    read.attempts = 2
    gone = [] if released is None else released
    lease = Lease(10, gone.append, memoryview(bytearray(10))) if leased else None
    return Fetch(cast("Any", None), cast("Any", SimpleNamespace(location=location())), read, lease=lease)


def test_a_range_in_time_is_no_longer_in_flight() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 10.0)
    assert len(flights) == 1
    assert flights.give_up(10.0 + ALLOWED) is None
    assert flights.end(task) == (Return.WANTED, [])
    assert (len(flights), flights.stuck) == (0, 0)


@pytest.mark.parametrize("leased", [True, False])
def test_an_overdue_range_is_given_up_once_and_without_its_buffer(leased: bool) -> None:
    flights, task, other = Flights(CONFIG), flight(leased=leased), flight()
    flights.begin(task, 10.0)
    flights.begin(other, 11.0)
    overdue = flights.give_up(10.1 + ALLOWED)
    assert overdue is not None
    given_up, error, others = overdue
    assert (given_up, others) == (task, [])
    assert isinstance(error, RemoteStorageTimeoutError)
    assert str(error) == "the fetcher did not return bytes [0, 10) of store in time"
    assert (error.byte_range, error.host, error.attempt, error.topic) == ((0, 10), "store", 2, "orders")
    assert error.elapsed_seconds == pytest.approx(0.1 + ALLOWED)
    assert flights.give_up(10.1 + ALLOWED) is None
    assert (len(flights), flights.stuck) == (1, 1)
    assert task.lease is None or task.lease.buffer is None
    assert other.lease is not None
    assert other.lease.buffer is not None


def test_memory_is_awaited_until_the_store_answers_or_the_thread_returns() -> None:
    flights, answered, waiting = Flights(CONFIG), flight(), flight()
    for task in (answered, waiting, flight(leased=False)):
        flights.begin(task, 10.0)
    assert flights.awaited_bytes == 0
    assert waiting.lease is not None
    waiting.lease.buffer = None
    assert flights.awaited_bytes == 10
    flights.end(waiting)
    assert flights.awaited_bytes == 0


def test_a_thread_that_returns_late_is_no_longer_stuck() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 0.0)
    flights.give_up(100.0)
    assert flights.end(task) == (Return.GIVEN_UP, [])
    assert flights.stuck == 0


def test_as_many_threads_may_hang_as_ranges_may_be_in_flight() -> None:
    flights, late = Flights(attrs.evolve(CONFIG, max_in_flight=2)), flight()
    hung = [flight(), flight()]
    for task in hung:
        flights.begin(task, 0.0)
    flights.begin(late, 50.0, late_at=60.0)
    assert flights.late(60.0) == [late]
    flights.give_up(50.0)
    assert (flights.stuck, flights.exhausted) == (1, False)
    flights.give_up(50.0)
    assert (flights.stuck, flights.exhausted) == (2, True)
    assert flights.late(60.0) == [], "a hedge could hang as well"
    flights.end(hung[0])
    assert not flights.exhausted
    assert flights.late(60.0) == [late]


def test_a_cancelled_range_leaves_no_trace() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 0.0, late_at=1.0)
    flights.discard(task)
    flights.discard(task)
    assert (len(flights), flights.stuck, flights.give_up(100.0), flights.late(100.0)) == (0, 0, None, [])


def test_gets_become_late_in_the_order_of_their_deadlines() -> None:
    flights, one, two, never = Flights(CONFIG), flight(), flight(), flight()
    flights.begin(one, 0.0, late_at=0.5)
    flights.begin(two, 0.1, late_at=0.3)
    flights.begin(never, 0.1)
    assert (flights.late(0.2), flights.patience(0.2, 5.0)) == ([], pytest.approx(0.1))
    assert flights.late(0.3) == [two]
    assert flights.late(0.5) == [two, one]
    assert flights.late(9.0) == [two, one]
    assert flights.patience(0.5, 5.0) == 5.0
    assert flights.age(two, 0.5) == pytest.approx(0.4)


def test_patience_is_between_zero_and_the_given_limit() -> None:
    flights = Flights(CONFIG)
    flights.begin(flight(), 0.0, late_at=0.5)
    assert (flights.patience(0.7, 5.0), flights.patience(0.0, 0.25)) == (0.0, 0.25)


def test_nothing_waits_for_an_ended_get() -> None:
    flights, ended, running = Flights(CONFIG), flight(), flight()
    flights.begin(ended, 0.0, late_at=0.5)
    flights.begin(running, 0.0, late_at=0.7)
    flights.end(ended)
    assert flights.patience(0.2, 5.0) == pytest.approx(0.5)
    flights.end(running)
    assert flights.patience(0.2, 5.0) == 5.0


def test_watching_a_get_again_postpones_its_deadline() -> None:
    flights, task = Flights(CONFIG), flight()
    flights.begin(task, 0.0, late_at=0.5)
    assert flights.late(0.5) == [task]
    flights.watch(task, 0.8)
    assert flights.late(0.7) == []
    assert flights.late(0.8) == [task]


def hedged(released: list[Lease] | None = None) -> tuple[Flights, Fetch, Fetch]:
    """A GET at 0 s and its hedge at 1 s."""
    flights, task, hedge = Flights(CONFIG), flight(released=released), flight(released=released)
    flights.begin(task, 0.0, late_at=1.0)
    assert flights.late(1.0) == [task]
    flights.hedge(task, hedge, 1.0, late_at=None)
    return flights, task, hedge


def test_a_get_and_its_hedge_are_both_in_flight_and_not_late() -> None:
    flights, _, _ = hedged()
    assert (len(flights), flights.stuck, flights.late(2.0)) == (2, 0, [])


@pytest.mark.parametrize("wins", [0, 1])
def test_the_faster_request_of_a_hedged_range_wins(wins: int) -> None:
    flights, *both = hedged()
    winner, other = both[wins], both[1 - wins]
    assert flights.end(winner) == (Return.WANTED, [other])
    assert flights.overtake(other, 1.5) == (0.5 if wins == 0 else 1.5)
    assert (len(flights), flights.stuck, other.overtaken, winner.overtaken) == (0, 1, True, False)
    assert flights.end(other) == (Return.OVERTAKEN, [])
    assert (len(flights), flights.stuck) == (0, 0)


def test_a_hedge_can_be_late_too() -> None:
    flights, task, hedge, third = Flights(CONFIG), flight(), flight(), flight()
    flights.begin(task, 0.0, late_at=1.0)
    flights.hedge(task, hedge, 1.0, late_at=2.0)
    assert (flights.late(2.0), flights.racing(task)) == ([hedge], 2)
    flights.hedge(hedge, third, 2.0, late_at=None)
    assert (flights.late(3.0), flights.racing(task), len(flights)) == ([], 3, 3)
    assert flights.end(third) == (Return.WANTED, [task, hedge])
    assert [flights.overtake(other, 3.0) for other in (task, hedge)] == [3.0, 2.0]
    assert (len(flights), flights.stuck) == (0, 2)


def test_an_overtaken_get_without_a_buffer_releases_its_memory() -> None:
    released: list[Lease] = []
    flights, task, hedge = hedged(released)
    assert task.lease is not None
    task.lease.buffer = None
    flights.end(hedge)
    flights.overtake(task, 1.5)
    assert ([lease.size for lease in released], task.lease) == ([10], None)
    assert flights.give_up(0.1 + ALLOWED) is None
    assert flights.stuck == 1


def test_an_overtaken_get_is_not_late_again() -> None:
    flights, task, hedge = hedged()
    flights.watch(task, 1.2)
    flights.end(hedge)
    flights.overtake(task, 1.5)
    assert flights.late(2.0) == []


@pytest.mark.parametrize("fails", [0, 1])
def test_after_one_request_failed_the_other_counts_alone(fails: int) -> None:
    flights, *both = hedged()
    assert flights.end(both[fails]) == (Return.WANTED, [both[1 - fails]])
    assert flights.end(both[1 - fails]) == (Return.WANTED, [])
    assert (len(flights), flights.stuck) == (0, 0)


def test_a_hedge_outlives_its_overdue_get() -> None:
    flights, task, hedge = hedged()
    overdue = flights.give_up(0.1 + ALLOWED)
    assert overdue is not None
    assert (overdue[0], overdue[2]) == (task, [hedge])
    assert (len(flights), flights.stuck) == (1, 1)
    assert flights.end(hedge) == (Return.WANTED, [])


def test_an_overtaken_get_that_never_returns_releases_its_memory() -> None:
    released: list[Lease] = []
    flights, task, hedge = hedged(released)
    flights.end(hedge)
    flights.overtake(task, 1.5)
    assert flights.give_up(ALLOWED) is None
    assert released == []
    assert flights.give_up(0.1 + ALLOWED) is None
    assert [lease.buffer for lease in released] == [None], "the buffer stays with the thread, which may write to it"
    assert (task.lease, len(flights), flights.stuck) == (None, 0, 1)
    assert flights.end(task) == (Return.GIVEN_UP, [])
    assert flights.stuck == 0
