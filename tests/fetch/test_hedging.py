from __future__ import annotations

import pytest

from kafka_remote_client.fetch.hedging import Hedging

HOST, MIB = "store", 1 << 20
UNMEASURED = 1.25


def made(max_percent: int = 3) -> Hedging:
    return Hedging(max_percent, UNMEASURED)


def measured(times: list[float], size: int = MIB, host: str = HOST) -> Hedging:
    hedging = made()
    for seconds in times:
        hedging.took(host, size, seconds)
    return hedging


def test_sizes_that_were_never_measured_have_a_long_delay() -> None:
    assert made().delay(HOST, MIB) == UNMEASURED
    assert measured([0.1] * 9).delay(HOST, MIB) == UNMEASURED
    assert measured([0.1] * 10).delay("another", MIB) == UNMEASURED


@pytest.mark.parametrize(
    ("times", "delay"),
    [
        ([0.1] * 20, 0.15),  # narrow: 1.5 medians
        ([0.1] * 19 + [0.3], 0.3),  # all but 3 % take between 1.5 and 4 medians
        ([0.1] * 18 + [2.0] * 2, 0.4),  # one in ten is late: four medians
        ([0.001] * 20, 0.025),  # never sooner than that
    ],
)
def test_the_delay_lies_between_1_5_and_4_medians(times: list[float], delay: float) -> None:
    assert measured(times).delay(HOST, MIB) == pytest.approx(delay)


def test_sizes_of_one_class_share_their_times() -> None:
    hedging = measured([0.1] * 20, size=MIB)
    assert hedging.delay(HOST, 2 * MIB - 1) == pytest.approx(0.15)
    assert hedging.delay(HOST, 2 * MIB) == UNMEASURED


def test_a_smaller_size_takes_the_delay_of_the_next_larger_one() -> None:
    hedging = measured([0.3] * 20, size=4 * MIB)
    for _ in range(20):
        hedging.took(HOST, MIB, 0.1)
    assert hedging.delay(HOST, 1000) == pytest.approx(0.15)
    assert hedging.delay(HOST, 2 * MIB) == pytest.approx(0.45)


def test_a_class_with_too_few_times_takes_that_of_a_larger_one() -> None:
    hedging = measured([0.3] * 20, size=4 * MIB)
    hedging.took(HOST, MIB, 0.1)
    assert hedging.delay(HOST, MIB) == pytest.approx(0.45)


def test_the_delay_follows_a_store_that_becomes_slower() -> None:
    hedging = measured([0.1] * 200)
    for _ in range(9):
        hedging.took(HOST, MIB, 1.0)
    assert hedging.delay(HOST, MIB) == pytest.approx(0.15)
    for _ in range(141):
        hedging.took(HOST, MIB, 1.0)
    assert hedging.delay(HOST, MIB) == pytest.approx(1.5), "150 of the last 200"


def test_only_the_last_200_times_count() -> None:
    hedging = measured([9.0] * 200)
    for _ in range(200):
        hedging.took(HOST, MIB, 0.1)
    assert hedging.delay(HOST, MIB) == pytest.approx(0.15)


def test_a_host_is_slow_while_more_than_a_quarter_are_late() -> None:
    hedging = measured([0.1] * 40)
    for _ in range(5):
        hedging.took(HOST, MIB, 5.0)
    assert not hedging.is_slow(HOST)
    hedging.took(HOST, MIB, 5.0)
    assert hedging.is_slow(HOST)
    assert not hedging.is_slow("another")
    for _ in range(15):
        hedging.took(HOST, MIB, 0.1)
    assert not hedging.is_slow(HOST)


def test_a_time_equal_to_the_delay_is_not_late() -> None:
    hedging = measured([0.1] * 40)
    for _ in range(20):
        hedging.took(HOST, MIB, hedging.delay(HOST, MIB))
    assert not hedging.is_slow(HOST)


def test_a_cap_of_more_percent_allows_a_sooner_hedge() -> None:
    hedging = made(10)
    for seconds in [0.1] * 45 + [0.25] * 5:
        hedging.took(HOST, MIB, seconds)
    assert hedging.delay(HOST, MIB) == pytest.approx(0.25)
    for _ in range(20):
        hedging.took(HOST, MIB, 0.1)
    assert hedging.delay(HOST, MIB) == pytest.approx(0.15)


def test_a_cap_of_nothing_and_of_all_have_a_delay() -> None:
    for percent, delay in ((0, 0.3), (100, 0.15)):
        hedging = made(percent)
        for seconds in [0.1] * 19 + [0.3]:
            hedging.took(HOST, MIB, seconds)
        assert hedging.delay(HOST, MIB) == pytest.approx(delay)


@pytest.mark.parametrize(("urgent", "first"), [(True, 5), (False, 2)])
@pytest.mark.parametrize("percent", [3, 8, 50])
def test_hedges_are_a_share_of_requests_and_a_few(percent: int, urgent: bool, first: int) -> None:
    hedging, taken = made(percent), 0
    for _ in range(2_000):
        hedging.requested(MIB)
        taken += hedging.take(MIB, urgent=urgent)
    assert taken == first + 2_000 * percent // 100


def test_hedges_are_a_share_of_bytes_too() -> None:
    hedging = made()
    for _ in range(1_000):
        hedging.requested(1000)
    assert hedging.take(15_000, urgent=True), "10,000 bytes are saved up at most, and 5,000 are there from the beginning"
    assert not hedging.take(1000, urgent=True)
    for _ in range(34):
        hedging.requested(1000)
    assert hedging.take(1000, urgent=True)


def test_what_is_saved_up_is_no_more_than_ten_hedges() -> None:
    hedging = made()
    for _ in range(100_000):
        hedging.requested(MIB)
    assert [hedging.take(MIB, urgent=False) for _ in range(8)] == [True] * 7 + [False]
    assert [hedging.take(MIB, urgent=True) for _ in range(4)] == [True] * 3 + [False]


@pytest.mark.parametrize(("retries", "size"), [(8, 1), (1, 8 * MIB)])
def test_retries_take_from_the_share_of_hedges(retries: int, size: int) -> None:
    hedging = made()
    for _ in range(100):
        hedging.requested(MIB)
    for _ in range(retries):
        hedging.retried(size)
    assert not hedging.take(MIB, urgent=True)
    for _ in range(70):
        hedging.requested(MIB)
    assert hedging.take(MIB, urgent=True)


def test_no_share_is_no_hedge() -> None:
    assert made().enabled
    assert not made(0).enabled
