from __future__ import annotations

import pytest

from kafka_remote_client.fetch.request_rate import RequestRate


def cut(answered: int = 100, at: float = 10.0) -> RequestRate:
    """A limit after so many answers within a second, and then a 503."""
    rate = RequestRate()
    for number in range(answered):
        rate.answered(at - 0.9 + 0.8 * number / max(1, answered))
    assert rate.throttled(at)
    return rate


def test_before_the_first_503_nothing_is_limited() -> None:
    rate = RequestRate()
    for _ in range(1_000):
        rate.sent(1.0)
        rate.answered(1.0)
    assert (rate.limit(1.0), rate.delay(1.0)) == (None, 0.0)


@pytest.mark.parametrize(("answered", "limit"), [(100, 80.0), (1, 10.0), (0, 10.0)])
def test_the_limit_is_four_fifths_of_the_answered_requests(answered: int, limit: float) -> None:
    assert cut(answered).limit(10.0) == pytest.approx(limit)


def test_answers_count_for_a_second() -> None:
    rate = RequestRate()
    for _ in range(100):
        rate.answered(1.0)
    for _ in range(50):
        rate.answered(1.5)
    rate.throttled(2.0)
    assert rate.limit(2.0) == pytest.approx(40.0)


def test_a_503_for_a_request_in_flight_lowers_nothing_again() -> None:
    rate = cut()
    assert not rate.throttled(10.49)
    assert rate.limit(10.0) == pytest.approx(80.0)
    assert rate.throttled(10.5)


def test_the_limit_grows_until_it_is_removed() -> None:
    rate = cut()
    assert rate.limit(11.0) == pytest.approx(84.0)
    assert rate.limit(20.0) == pytest.approx(80 * 1.05**10)
    assert rate.limit(57.0) == pytest.approx(80 * 1.05**47)
    assert rate.limit(58.0) is None
    assert (rate.limit(10.0), rate.delay(10.0)) == (None, 0.0)


def test_gets_are_paced() -> None:
    rate = cut()
    assert rate.delay(10.0) == pytest.approx(0.25), "the store is left alone for a moment"
    sent, now = 0, 10.25
    while now < 11.25:
        rate.sent(now)
        sent += 1
        now += rate.delay(now)
    assert sent == pytest.approx(82, abs=2)


def test_time_without_a_get_is_not_saved() -> None:
    rate = cut()
    rate.sent(20.0)
    assert rate.delay(20.0) == pytest.approx(1 / (80 * 1.05**10))
