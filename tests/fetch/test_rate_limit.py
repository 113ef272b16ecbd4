from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.fetch.rate_limit import RateLimits, TokenBucket


def test_one_second_of_the_rate_goes_at_once_and_the_rest_waits() -> None:
    bucket = TokenBucket(10)
    for _ in range(10):
        assert bucket.delay(100.0) == 0
        bucket.take(1, 100.0)
    assert bucket.delay(100.0) == pytest.approx(0, abs=1e-6)
    assert bucket.delay(100.0) > 0
    bucket.take(1, 100.0)
    assert bucket.delay(100.0) == pytest.approx(0.1)


def test_a_request_larger_than_the_bucket_goes_and_delays_the_next() -> None:
    bucket = TokenBucket(1000)
    assert bucket.delay(0.0) == 0
    bucket.take(8000, 0.0)
    assert bucket.delay(0.0) == pytest.approx(7.0)
    assert bucket.delay(6.9) == pytest.approx(0.1)
    assert bucket.delay(7.1) == 0


def test_a_rate_below_one_lets_one_request_go() -> None:
    bucket = TokenBucket(0.5)
    assert bucket.delay(0.0) == 0
    bucket.take(1, 0.0)
    assert bucket.delay(0.0) > 0
    assert bucket.delay(2.0) == 0


def test_at_most_one_second_of_the_rate_is_saved() -> None:
    bucket = TokenBucket(10)
    bucket.delay(0.0)
    bucket.take(20, 1000.0)
    assert bucket.delay(1000.0) == pytest.approx(1.0)


def test_a_stopped_clock_adds_nothing() -> None:
    bucket = TokenBucket(10)
    bucket.take(10, 5.0)
    assert bucket.delay(5.0) > 0
    assert bucket.delay(4.0) > 0


@given(st.floats(0.5, 1e9), st.lists(st.integers(1, 1 << 28), min_size=1, max_size=50))
def test_after_the_delay_requests_go_at_the_mean_rate(rate: float, sizes: list[int]) -> None:
    bucket, now = TokenBucket(rate), 0.0
    for size in sizes:
        now += bucket.delay(now) * (1 + 1e-9)
        assert bucket.delay(now) == 0
        bucket.take(size, now)
    # All but the initial second had to be earned.
    assert sum(sizes[:-1]) <= (now * rate + max(1.0, rate)) * (1 + 1e-6)


def test_both_limits_apply_and_no_limit_delays_nothing() -> None:
    unlimited = RateLimits(None, None)
    assert unlimited.delay(0.0) == 0
    assert unlimited.take(1 << 40, 0.0) == 0
    assert unlimited.delay(0.0) == 0
    for limits, wait in ((RateLimits(1000, None), 9.0), (RateLimits(None, 1), 0.0), (RateLimits(1000, 1), 9.0)):
        limits.take(10_000, 0.0)
        assert limits.delay(0.0) == pytest.approx(wait, abs=1e-5)
        assert limits.delay(0.0) > 0


def test_the_delay_of_a_range_is_reported_once() -> None:
    limits = RateLimits(1000, None)
    assert limits.take(3000, 0.0) == 0
    assert limits.delay(1.0) > 0
    assert limits.delay(1.5) > 0
    assert limits.delay(2.5) == 0
    assert limits.take(10, 2.5) == pytest.approx(1.5)
    assert limits.take(10, 2.5) == 0
