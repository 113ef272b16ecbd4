"""The time that a response body may take, with a manual clock."""

from __future__ import annotations

import pytest
from kafka_remote_fetchers._body_deadline import BodyDeadline

from kafka_remote_client.clock import Deadline
from tests.support.locations import ManualClock

FLOOR = 1000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def body(clock: ManualClock, total: float = 60.0, floor: int = FLOOR) -> BodyDeadline:
    return BodyDeadline(clock, Deadline(clock, total), floor)


def read(deadline: BodyDeadline, clock: ManualClock, count: int, seconds: float) -> None:
    """Waits for ``count`` bytes, which take ``seconds``."""
    deadline.waits()
    clock.now += seconds
    deadline.received(count)


def test_a_body_may_send_nothing_for_two_seconds(clock: ManualClock) -> None:
    deadline = body(clock)
    assert deadline.remaining() == 2.0
    clock.now += 2.0
    assert deadline.expired()


def test_a_trickle_does_not_extend_the_time(clock: ManualClock) -> None:
    deadline = body(clock)
    for _ in range(19):
        read(deadline, clock, 1, 0.1)
    assert deadline.remaining() == pytest.approx(0.1)


def test_received_bytes_extend_the_time_at_the_floors_rate(clock: ManualClock) -> None:
    deadline = body(clock)
    read(deadline, clock, 5 * FLOOR, 1.0)
    assert deadline.remaining() == pytest.approx(4.0)
    read(deadline, clock, FLOOR, 4.0)
    assert deadline.remaining() == pytest.approx(1.0)


def test_the_deadline_of_the_range_holds_for_fast_bodies_too(clock: ManualClock) -> None:
    deadline = body(clock, total=5.0)
    read(deadline, clock, 1000 * FLOOR, 1.0)
    assert deadline.remaining() == pytest.approx(4.0)
    assert body(clock, total=1.0).remaining() == pytest.approx(1.0)


def test_time_without_a_reader_does_not_count_against_the_store(clock: ManualClock) -> None:
    deadline = body(clock)
    read(deadline, clock, 1, 1.5)
    clock.now += 30.0
    deadline.waits()
    assert deadline.remaining() == pytest.approx(0.5)
    deadline.waits()
    assert deadline.remaining() == pytest.approx(0.5)


def test_without_a_floor_only_the_deadline_of_the_range_counts(clock: ManualClock) -> None:
    deadline = body(clock, floor=0)
    read(deadline, clock, 1, 50.0)
    assert deadline.remaining() == pytest.approx(10.0)
