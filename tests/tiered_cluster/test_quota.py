"""A quota allows a burst, then waits until the rate is at the limit again."""

from __future__ import annotations

import pytest

from kafka_remote_client.tiered_cluster.quota import Quota


def test_no_limit_is_never_exceeded() -> None:
    assert not Quota().recorded(1 << 40, 0).is_exceeded(0)


def test_unused_quota_is_not_exceeded() -> None:
    assert not Quota(100).is_exceeded(0)


@pytest.mark.parametrize(("nbytes", "exceeded"), [(100, False), (101, True)])
def test_first_window_counts_as_a_whole_second(nbytes: int, exceeded: bool) -> None:
    assert Quota(100).recorded(nbytes, 5000).is_exceeded(5000) is exceeded


def test_rate_falls_with_the_time_since_the_oldest_sample() -> None:
    quota = Quota(100).recorded(250, 0)
    assert [quota.is_exceeded(now) for now in (999, 2000, 2499, 2500)] == [True, True, True, False]


def test_bytes_of_one_window_are_one_sample() -> None:
    quota = Quota(100).recorded(60, 0).recorded(60, 999)
    assert quota.is_exceeded(1199)
    assert not quota.is_exceeded(1200)
    # It is forgotten by its last bytes, and the next sample then begins the time anew.
    assert not Quota(10).recorded(60, 0).recorded(60, 999).recorded(10, 11_999).is_exceeded(11_999)
    assert Quota(10).recorded(60, 0).recorded(60, 999).recorded(10, 11_998).is_exceeded(11_998)


def test_later_windows_are_samples_of_their_own() -> None:
    quota = Quota(30).recorded(300, 0).recorded(100, 1000)
    assert quota.recorded(150, 10_999).is_exceeded(10_999)
    assert not quota.recorded(150, 11_000).is_exceeded(11_000)  # the first sample is forgotten
