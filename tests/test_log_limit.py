"""One line a minute of each kind, with a count of those that were left out."""

from __future__ import annotations

from kafka_remote_client.log_limit import LogLimit
from tests.support.locations import ManualClock


def test_a_kind_has_one_line_a_minute_with_a_count() -> None:
    clock = ManualClock()
    limit: LogLimit[str] = LogLimit(clock)
    assert [limit.admit("a") for _ in range(4)] == [0, None, None, None]
    clock.now += 59
    assert limit.admit("a") is None
    clock.now += 1
    assert limit.admit("a") == 4
    clock.now += 60
    assert limit.admit("a") == 0


def test_another_kind_has_its_own_line_and_count() -> None:
    clock = ManualClock()
    limit: LogLimit[str] = LogLimit(clock)
    assert [limit.admit(kind) for kind in ("a", "b", "a")] == [0, 0, None]
    clock.now += 60
    assert [limit.admit(kind) for kind in ("b", "a")] == [0, 1]


def test_a_line_that_the_caller_leaves_out_counts_after_a_written_one() -> None:
    clock = ManualClock()
    limit: LogLimit[str] = LogLimit(clock)
    limit.leave_out("a")
    assert limit.admit("a") == 0
    limit.leave_out("a")
    clock.now += 60
    assert limit.admit("a") == 1


def test_the_newest_line_of_the_same_kind_counts() -> None:
    clock = ManualClock()
    limit: LogLimit[str] = LogLimit(clock, lambda known, new: known.startswith(new) or new.startswith(known))
    assert limit.admit("store") == 0
    clock.now += 60
    assert limit.admit("store:9000") == 0
    clock.now += 59
    assert limit.admit("store") is None
    clock.now += 1
    assert limit.admit("store") == 1
