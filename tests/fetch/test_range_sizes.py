from collections.abc import Callable

import pytest

from kafka_remote_client.fetch.range_sizes import (
    MIN_RANGE_BYTES,
    WINDOW_RANGES,
    RangeSizer,
    ReadAhead,
    first_window,
    window_bytes,
)
from kafka_remote_client.model import IsolationLevel

MIB = 1024 * 1024
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FORMATS = ("ApacheKafkaV1",)


def get(first_byte: float, bytes_per_second: float) -> Callable[[int], float]:
    """The expected seconds of a GET."""
    return lambda size: first_byte + size / bytes_per_second


FAST = get(0.0, 1e12)


def grown(maximum: int = 8 * MIB, least: int = 2 * MIB) -> RangeSizer:
    """A sizer that a fast store lets choose its maximum."""
    sizer = RangeSizer(maximum, 5.0, least)
    sizer.balance(FAST, 1.0)
    assert sizer.range_bytes == sizer.maximum == maximum
    return sizer


def test_initial_ranges_fit_the_memory_if_all_are_in_flight() -> None:
    assert RangeSizer(8 * MIB, 5.0, 2 * MIB).range_bytes == 2 * MIB
    assert RangeSizer(8 * MIB, 5.0, 100 * MIB).range_bytes == 4 * MIB
    assert RangeSizer(8 * MIB, 5.0, 100).range_bytes == MIN_RANGE_BYTES
    assert RangeSizer(MIN_RANGE_BYTES, 5.0).range_bytes == MIN_RANGE_BYTES


@pytest.mark.parametrize(("few_readers", "ranges"), [(True, 2), (False, 1)])
def test_the_first_window_has_a_second_range_if_few_partitions_are_read(few_readers: bool, ranges: int) -> None:
    assert first_window(few_readers=few_readers) == (ranges * 2 * MIN_RANGE_BYTES, 2 * MIN_RANGE_BYTES)


@pytest.mark.parametrize(
    ("longest", "size"), [(1.0, 8 * MIB), (0.1 + 8 / 128, 8 * MIB), (0.16, 4 * MIB), (0.13, 2 * MIB), (0.0, 2 * MIB)]
)
def test_a_range_is_the_largest_that_a_get_brings_in_time(longest: float, size: int) -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 2 * MIB)
    sizer.balance(get(0.1, 128 * MIB), longest)
    assert sizer.range_bytes == size


def test_a_get_takes_at_most_a_quarter_of_the_time_out() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, MIB)
    sizer.balance(get(0.0, 4 * MIB), 100.0)
    assert sizer.range_bytes == 4 * MIB, "8 MiB take 2 seconds"
    sizer.balance(get(0.25, 4 * MIB), 100.0)
    assert sizer.range_bytes == 4 * MIB
    sizer.balance(get(0.26, 4 * MIB), 100.0)
    assert sizer.range_bytes == 2 * MIB


def test_ranges_grow_and_shrink_at_once() -> None:
    sizer = grown()
    sizer.balance(get(0.0, MIB), 1.0)
    assert sizer.range_bytes == 2 * MIB
    sizer.balance(FAST, 1.0)
    assert sizer.range_bytes == 8 * MIB


def test_halves_of_an_odd_size_are_whole_numbers_of_bytes() -> None:
    sizer = RangeSizer(4 * MIB + 3, 5.0, MIB + 1)
    sizer.balance(get(0.0, MIB), 3.0)
    assert sizer.range_bytes == MIB + 1, "the least size"
    sizer.balance(get(0.0, 2 * MIB), 1.1)
    assert sizer.range_bytes == 2 * MIB + 1
    sizer.timed_out()
    assert sizer.range_bytes == MIB
    assert sizer.delivered((4 * MIB, 3 * MIB)) == (4 * MIB // 3, MIB)


def test_a_time_out_halves_ranges_down_to_the_minimum() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    sizer.timed_out()
    assert sizer.range_bytes == 2 * MIB
    for _ in range(20):
        sizer.timed_out()
    assert sizer.range_bytes == MIN_RANGE_BYTES


def test_after_a_time_out_expected_times_do_not_enlarge_ranges() -> None:
    sizer = grown()
    sizer.timed_out()
    sizer.balance(FAST, 1.0)
    assert sizer.range_bytes == 4 * MIB


def test_fast_full_ranges_grow_again_up_to_the_maximum() -> None:
    sizer = grown(7 * MIB)
    sizer.timed_out()
    sizer.succeeded(3 * MIB, 0.1)
    assert sizer.range_bytes == 7 * MIB
    sizer.succeeded(8 * MIB, 0.1)
    assert sizer.range_bytes == 7 * MIB


@pytest.mark.parametrize(("size", "seconds"), [(2 * MIB, 0.1), (4 * MIB, 1.25)])
def test_small_or_slow_ranges_change_no_size(size: int, seconds: float) -> None:
    sizer = grown()
    sizer.timed_out()
    sizer.succeeded(size, seconds)
    assert sizer.range_bytes == 4 * MIB


def test_a_range_within_a_quarter_of_its_time_out_lets_ranges_grow() -> None:
    sizer = grown()
    sizer.timed_out()
    sizer.succeeded(4 * MIB, 1.2)
    assert sizer.range_bytes == 8 * MIB


def test_a_fixed_window_is_whole_without_a_time_out() -> None:
    sizer, window = RangeSizer(8 * MIB, 5.0, 2 * MIB), (64 * MIB, 16 * MIB)
    sizer.succeeded(2 * MIB, 0.1)
    assert sizer.delivered(window) == window
    sizer.timed_out()
    assert sizer.delivered(window) == (4 * MIB, MIB)
    for size in (1, 2, 4):
        sizer.succeeded(size * MIB, 0.1)
    assert sizer.delivered(window) == window, "ranges of the maximum arrive in time again"


def test_a_fixed_window_shrinks_only_after_a_time_out() -> None:
    sizer, window = RangeSizer(8 * MIB, 5.0, 2 * MIB), (32 * MIB, 8 * MIB)
    assert sizer.delivered(window) == window
    sizer.timed_out()
    assert sizer.delivered(window) == (4 * MIB, MIB)
    assert sizer.delivered((MIB, MIB // 2)) == (MIB, MIB // 2)
    sizer.succeeded(MIB, 0.1)
    assert sizer.delivered(window) == (8 * MIB, 2 * MIB)
    sizer.succeeded(2 * MIB, 0.1)
    sizer.succeeded(4 * MIB, 0.1)
    assert sizer.delivered(window) == window


def window(*, in_flight: int = 2, readers: int = 1, chunked: bool = False) -> int:
    return window_bytes(MIB, in_flight=in_flight, readers=readers, chunked=chunked)


@pytest.mark.parametrize(
    ("in_flight", "readers", "chunked", "ranges"),
    [
        (1, 1, False, 8),
        (4, 1, False, 8),
        (5, 1, False, 10),
        (64, 1, False, 128),
        (64, 0, False, 128),
        (64, 15, False, 9),
        (64, 1000, False, 8),
        (1, 1, True, 32),
        (64, 1, True, 128),
    ],
)
def test_a_window_covers_twice_the_partitions_bytes_in_flight(in_flight: int, readers: int, chunked: bool, ranges: int) -> None:
    assert WINDOW_RANGES == 8
    assert window(in_flight=in_flight, readers=readers, chunked=chunked) == ranges * MIB


def reading(seconds: float, transfer_seconds: float = 0.0, *, use: float = 0.01, maximum: int = 64) -> ReadAhead:
    """A range of 1 MiB took ``seconds``, and the application takes ``use`` seconds for 1 MiB."""
    ahead = ReadAhead(maximum)
    ahead.landed(MIB, seconds, transfer_seconds)
    for number in range(512):
        ahead.used(MIB, number, number + use)
    return ahead


def test_a_get_takes_the_latency_and_the_transfer_of_its_bytes() -> None:
    ahead = ReadAhead(64)
    ahead.landed(MIB, 0.05, 0.01)
    assert ahead.seconds(MIB) == pytest.approx(0.05)
    assert ahead.seconds(4 * MIB) == pytest.approx(0.08)
    ahead.landed(4 * MIB, 0.1, 0.02)
    assert ahead.seconds(4 * MIB) == pytest.approx(0.06), "of each part the shortest"
    for _ in range(16):
        ahead.landed(MIB, 0.3, 0.1)
    assert ahead.seconds(2 * MIB) == pytest.approx(0.4), "of the last ones"


def test_a_small_first_range_tells_the_time_of_large_ones() -> None:
    for bytes_per_second, size in [(200e6, 8 * MIB), (150e6, 4 * MIB), (40e6, 2 * MIB)]:
        ahead, sizer = ReadAhead(64), RangeSizer(8 * MIB, 5.0, 2 * MIB)
        transfer = 128 * 1024 / bytes_per_second
        ahead.landed(128 * 1024, 0.02 + transfer, transfer)
        sizer.balance(ahead.seconds, ahead.longest(64 * MIB))
        assert sizer.range_bytes == size


def test_slow_use_of_the_first_records_does_not_keep_ranges_back() -> None:
    ahead = ReadAhead(64)
    ahead.landed(128 * 1024, 0.025, 0.0002)
    ahead.decoded(128 * 1024, 0.0, 0.001)
    ahead.used(128 * 1024, 0.0, 0.03)
    assert ahead.in_flight(2 * MIB) >= 8, "the application had just begun"


def test_a_get_may_take_as_long_as_its_bytes_in_flight_have_memory() -> None:
    assert reading(0.001).longest(64 * MIB) == pytest.approx(0.32, rel=0.01), "64 MiB last 0.64 s, and half are in flight"
    assert reading(0.5, 0.1).longest(64 * MIB) == pytest.approx(0.6), "or hardly longer than to its first byte"


def test_as_many_ranges_are_in_flight_as_are_used_during_one() -> None:
    ahead = reading(0.05, use=0.0201)
    assert ahead.in_flight(MIB) == 1 + 5
    assert ahead.in_flight(2 * MIB) == 1 + 3, "larger ranges last longer"
    assert reading(0.05, 0.05, use=0.0201).in_flight(2 * MIB) == 1 + 5, "and take longer if their transfer takes the time"


def test_an_application_is_expected_to_be_fast() -> None:
    ahead = ReadAhead(64)
    ahead.landed(1_000_000, 0.019, 0.0)
    assert ahead.in_flight(1_000_000) == 1 + 19


def test_the_slower_of_decoding_and_using_counts() -> None:
    ahead = reading(0.05, use=0.001, maximum=16)
    for number in range(512):
        ahead.decoded(MIB, number, number + 0.101)
    assert ahead.in_flight(MIB) == 2


def test_blocks_of_many_partitions_share_the_time_they_are_held() -> None:
    ahead = ReadAhead(16)
    ahead.landed(MIB, 0.05, 0.0)
    for number in range(1, 513):  # all taken at 0, then used one after the other, 20 ms each
        ahead.used(MIB, 0.0, number * 0.0201)
    assert ahead.in_flight(MIB) == 1 + 5
    for _ in range(8):
        ahead.used(MIB, 0.0, 0.1)  # ended earlier, but reported later
    assert ahead.in_flight(MIB) == 1 + 7


def test_the_last_ranges_and_paces_count_most() -> None:
    ahead = reading(0.001, use=0.0101, maximum=16)
    assert ahead.in_flight(MIB) == 2
    for _ in range(16):
        ahead.landed(MIB, 0.02, 0.0)
    assert ahead.in_flight(MIB) == 5
    for number in range(600, 750):
        ahead.used(MIB, number, number + 0.05)
    assert ahead.in_flight(MIB) == 2


def test_all_ranges_are_in_flight_until_the_first_one_landed() -> None:
    ahead = ReadAhead(16)
    ahead.used(MIB, 1.0, 1.01)
    assert ahead.in_flight(MIB) == 16


def test_one_range_at_a_time_stays_one_at_a_time() -> None:
    assert reading(1.0, use=0.1, maximum=1).in_flight(MIB) == 1


def test_a_window_is_sized_for_a_plain_segment_by_default() -> None:
    assert window_bytes(MIB, in_flight=2, readers=1) == window(chunked=False)
