from __future__ import annotations

from kafka_remote_client.backoff import Backoff
from tests.support.locations import ManualClock


def test_pauses_double_up_to_the_maximum_and_are_spread() -> None:
    clock = ManualClock()
    clock.fraction = 0.0
    backoff = Backoff(clock, 1.0, 5.0)
    assert not backoff.waiting
    for seconds in (1.0, 2.0, 4.0, 5.0, 5.0):
        backoff.failed()
        clock.now += seconds * 0.99
        assert backoff.waiting
        clock.now += seconds * 0.02
        assert not backoff.waiting
    for _ in range(2000):
        backoff.failed()
    assert backoff.waiting
    backoff.succeeded()
    assert not backoff.waiting
    clock.fraction = 0.999
    backoff.failed()
    clock.now += 0.76
    assert not backoff.waiting


def test_a_pause_is_over_at_its_end() -> None:
    clock = ManualClock()
    clock.now, clock.fraction = 0.0, 0.0
    backoff = Backoff(clock, 1.0, 5.0)
    backoff.failed()
    clock.now = 1.0
    assert not backoff.waiting
    clock.now = 6.0
    assert backoff.failed() == 2.0, "in use for no longer than the maximum"


def test_a_failure_after_a_long_success_counts_as_the_first() -> None:
    clock = ManualClock()
    clock.fraction = 0.0
    backoff = Backoff(clock, 1.0, 5.0)
    assert [backoff.failed() for _ in range(3)] == [1.0, 2.0, 4.0]
    clock.now += 4.0 + 5.0
    assert backoff.failed() == 5.0
    clock.now += 5.0 + 5.1
    assert backoff.failed() == 1.0
