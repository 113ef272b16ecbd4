import threading

from kafka_remote_client.clock import Deadline, SystemClock
from tests.support.locations import ManualClock


def test_a_deadline_counts_down_and_stays_at_zero() -> None:
    clock = ManualClock(10.0)
    deadline = Deadline(clock, 2.0)
    assert (deadline.at, deadline.remaining(), deadline.expired()) == (12.0, 2.0, False)
    clock.now = 12.0
    assert (deadline.remaining(), deadline.expired()) == (0.0, True)
    clock.now = 99.0
    assert deadline.remaining() == 0.0


def test_the_system_clock_never_goes_back_and_waits_for_events() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    event = threading.Event()
    assert not clock.wait(event, -1.0)
    event.set()
    assert clock.wait(event, 60.0)
    assert clock.monotonic() >= before
    assert clock.time_ms() > 1_700_000_000_000
    assert 0.0 <= clock.jitter() < 1.0
