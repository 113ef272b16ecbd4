import pytest

from kafka_remote_client.fetch.range_sizes import (
    FIRST_WINDOW,
    MIN_RANGE_BYTES,
    WINDOW_RANGES,
    RangeSizer,
    ReadAhead,
    window_bytes,
)
from kafka_remote_client.model import IsolationLevel

MIB = 1024 * 1024
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FORMATS = ("ApacheKafkaV1",)


def test_fast_full_ranges_grow_up_to_the_maximum() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    assert (sizer.range_bytes, sizer.maximum) == (4 * MIB, 8 * MIB)
    sizer.balance(0.0, 1.0)
    sizer.succeeded(4 * MIB, 0.1, 0.1)
    assert sizer.range_bytes == 8 * MIB
    sizer.succeeded(8 * MIB, 0.1, 0.1)
    assert sizer.range_bytes == 8 * MIB


@pytest.mark.parametrize(("size", "seconds"), [(2 * MIB, 0.1), (4 * MIB, 1.25)])
def test_small_or_slow_ranges_change_no_size(size: int, seconds: float) -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    sizer.balance(0.0, 1.0)
    sizer.succeeded(size, seconds, seconds)
    assert sizer.range_bytes == 4 * MIB


def test_a_range_within_a_quarter_of_its_time_out_lets_ranges_grow() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    sizer.balance(0.0, 1.0)
    sizer.succeeded(4 * MIB, 1.2, 1.2)
    assert sizer.range_bytes == 8 * MIB


def test_a_time_out_halves_ranges_down_to_the_minimum() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    sizer.timed_out()
    assert sizer.range_bytes == 2 * MIB
    for _ in range(20):
        sizer.timed_out()
    assert sizer.range_bytes == MIN_RANGE_BYTES


def test_a_small_maximum_applies_from_the_start() -> None:
    assert RangeSizer(MIN_RANGE_BYTES, 5.0).range_bytes == MIN_RANGE_BYTES


def test_initial_ranges_fit_the_memory_if_all_are_in_flight() -> None:
    assert RangeSizer(8 * MIB, 5.0, 2 * MIB).range_bytes == 2 * MIB
    assert RangeSizer(8 * MIB, 5.0, 100 * MIB).range_bytes == 4 * MIB
    assert RangeSizer(8 * MIB, 5.0, 100).range_bytes == MIN_RANGE_BYTES


def test_the_first_window_has_two_ranges_of_twice_the_least_size() -> None:
    assert FIRST_WINDOW == (4 * MIN_RANGE_BYTES, 2 * MIN_RANGE_BYTES)


@pytest.mark.parametrize(("transfer", "size"), [(0.01, 4 * MIB), (0.013, 2 * MIB), (0.02, 2 * MIB)])
def test_ranges_grow_by_the_bytes_that_twice_the_size_needs(transfer: float, size: int) -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 2 * MIB)
    sizer.succeeded(2 * MIB, 0.02, transfer)
    sizer.balance(40.0, 64.0)
    assert sizer.range_bytes == size


def test_half_of_an_odd_size_is_a_whole_number_of_bytes() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 2 * MIB + 1)
    sizer.timed_out()
    assert sizer.range_bytes == MIB
    assert sizer.delivered((4 * MIB, 3 * MIB)) == (4 * MIB // 3, MIB)
    grown = RangeSizer(4 * MIB + 3, 5.0, MIB)
    grown.succeeded(MIB, 0.1, 0.1)
    grown.succeeded(2 * MIB, 0.1, 0.1)
    grown.succeeded(4 * MIB, 0.1, 0.1)
    sizes = []
    for wanted in (1.0, 1.0, 1.0, 9.0):
        grown.balance(wanted, 8.0)
        sizes.append(grown.range_bytes)
    assert sizes == [2 * MIB, 4 * MIB, 4 * MIB + 3, 2 * MIB + 1]


def test_a_fixed_window_is_whole_without_a_time_out() -> None:
    sizer, window = RangeSizer(8 * MIB, 5.0, 2 * MIB), (64 * MIB, 16 * MIB)
    sizer.succeeded(2 * MIB, 0.1, 0.1)
    assert sizer.delivered(window) == window
    sizer.timed_out()
    assert sizer.delivered(window) == (4 * MIB, MIB)
    for size in (1, 2, 4):
        sizer.succeeded(size * MIB, 0.1, 0.1)
    assert sizer.delivered(window) == window, "ranges of the maximum arrive in time again"


def test_a_fixed_window_shrinks_only_after_a_time_out() -> None:
    sizer, window = RangeSizer(8 * MIB, 5.0, 2 * MIB), (32 * MIB, 8 * MIB)
    assert sizer.delivered(window) == window
    sizer.timed_out()
    assert sizer.delivered(window) == (4 * MIB, MIB)
    assert sizer.delivered((MIB, MIB // 2)) == (MIB, MIB // 2)
    sizer.succeeded(MIB, 0.1, 0.1)
    assert sizer.delivered(window) == (8 * MIB, 2 * MIB)
    sizer.succeeded(2 * MIB, 0.1, 0.1)
    sizer.succeeded(4 * MIB, 0.1, 0.1)
    assert sizer.delivered(window) == window


def grown(least: int = 2 * MIB) -> RangeSizer:
    """Ranges of 4 MiB, with a store that could deliver 8."""
    sizer = RangeSizer(8 * MIB, 5.0, least)
    sizer.succeeded(2 * MIB, 0.1, 0.1)
    sizer.succeeded(4 * MIB, 0.1, 0.1)
    assert sizer.balance(1.0, 2.0)
    assert sizer.range_bytes == 4 * MIB
    return sizer


def test_ranges_grow_only_if_twice_the_size_fits() -> None:
    sizer = grown()
    assert not sizer.balance(5.0, 9.0)
    assert sizer.range_bytes == 4 * MIB
    assert sizer.balance(5.0, 10.0)
    assert sizer.range_bytes == 8 * MIB
    assert not sizer.balance(0.0, 10.0), "they are as large as they may be"
    assert not sizer.balance(10.0, 10.0), "the wanted bytes fit"


def test_ranges_shrink_if_more_bytes_are_in_flight_than_fit() -> None:
    sizer = grown()
    assert sizer.balance(11.0, 10.0)
    assert sizer.range_bytes == 2 * MIB
    assert not sizer.balance(11.0, 10.0), "all that may fly fit at this size"


ROOM = 64.0 * MIB
"""The memory for bytes in flight."""


class Reading:
    """A sizer that is always short of memory, with a store of 50 ms latency."""

    def __init__(self, maximum: int = 8 * MIB) -> None:
        self.sizer = RangeSizer(maximum, 5.0, 2 * MIB)
        for _ in range(2):
            self.sizer.succeeded(4 * MIB, 0.05, 0.0)

    def arrive(self, mebibytes: int, seconds: float, transfer_seconds: float, room: float = ROOM) -> list[int]:
        """GETs of the current size. Returns the sizes that they change to, in MiB."""
        sizes = []
        arrived = 0
        while arrived < mebibytes << 20:
            size = self.sizer.range_bytes
            arrived += size
            self.sizer.succeeded(size, seconds, transfer_seconds)
            if self.sizer.balance(2 * room, room):
                sizes.append(self.sizer.range_bytes // MIB)
        return sizes


def test_ranges_grow_though_memory_is_short_if_latency_takes_the_time() -> None:
    reading = Reading()
    assert reading.arrive(126, 0.055, 0.005) == []
    assert reading.arrive(2, 0.055, 0.005) == [4], "as many bytes as the whole memory"
    assert reading.arrive(128, 0.06, 0.008) == [8]
    assert reading.arrive(640, 0.06, 0.008) == [], "they are as large as they may be"


def test_ranges_do_not_grow_if_their_transfer_takes_the_time() -> None:
    assert Reading().arrive(1024, 0.055, 0.01) == []


def test_ranges_do_not_grow_if_too_few_of_them_fit() -> None:
    assert Reading().arrive(1024, 0.055, 0.0, room=15.0 * MIB) == []
    assert Reading().arrive(32, 0.055, 0.0, room=16.0 * MIB) == [4]


def test_ranges_grow_to_what_the_store_delivers_but_not_past_the_maximum() -> None:
    assert Reading(3 * MIB).arrive(1024, 0.055, 0.0) == []
    reading = Reading()
    reading.sizer.timed_out()
    reading.sizer.succeeded(MIB, 0.1, 0.1)
    assert reading.arrive(126, 2.0, 0.0) == []


def test_ranges_shrink_again_if_twice_the_size_takes_longer() -> None:
    reading = Reading()
    assert reading.arrive(128, 0.05, 0.0) == [4]
    assert reading.arrive(124, 0.06, 0.0) == []
    assert reading.arrive(4, 0.06, 0.0) == [2]


def test_each_failed_trial_doubles_the_time_to_the_next() -> None:
    reading = Reading()
    assert reading.arrive(128, 0.05, 0.0) == [4]
    for whole in (256, 512, 1024, 2048, 4096, 8192, 8192):
        assert reading.arrive(128, 0.06, 0.0) == [2]
        assert reading.arrive(whole - 2, 0.05, 0.0) == []
        assert reading.arrive(2, 0.05, 0.0) == [4]
    assert reading.arrive(256, 0.05, 0.0) == [8]


def test_kept_ranges_shrink_only_if_they_take_much_longer() -> None:
    reading = Reading(4 * MIB)
    assert reading.arrive(256, 0.05, 0.0) == [4]
    assert reading.arrive(1024, 0.07, 0.0) == [], "a busy machine has such times"
    assert reading.arrive(1024, 0.1, 0.05)[0] == 2
    assert reading.arrive(1024, 0.1, 0.05) == []


def test_the_next_trial_after_kept_ranges_comes_without_a_pause() -> None:
    reading = Reading(4 * MIB)
    assert reading.arrive(256, 0.05, 0.0) == [4]
    while reading.arrive(4, 0.2, 0.1) != [2]:
        pass
    assert reading.arrive(126, 0.05, 0.0) == []
    assert reading.arrive(2, 0.05, 0.0) == [4]


def test_a_trial_needs_as_many_bytes_as_the_whole_memory() -> None:
    reading = Reading()
    assert reading.arrive(128, 0.05, 0.0, room=ROOM + 0.5) == [], "a byte is missing"
    assert reading.arrive(2, 0.05, 0.0, room=ROOM + 0.5) == [4]


def test_a_trial_follows_if_transfer_takes_all_of_the_longer_time() -> None:
    assert Reading().arrive(128, 1.0, 0.15) == [4]
    assert Reading().arrive(128, 1.0, 0.1501) == []


def test_ranges_that_take_exactly_the_longest_time_keep_their_size() -> None:
    for seconds, shrinks in [(0.0625 * 1.15, False), (0.0625 * 1.150001, True)]:
        reading = Reading()
        assert reading.arrive(128, 0.0625, 0.0) == [4]
        reading.sizer.succeeded(4 * MIB, seconds, 0.0)
        assert reading.sizer.balance(2.0, 1.0) == shrinks


@pytest.mark.parametrize(("size", "changes"), [(MIB, False), (MIB + 1, True), (3 * MIB, True), (4 * MIB, False)])
def test_only_ranges_of_about_the_size_lead_to_a_trial(size: int, changes: bool) -> None:
    sizer = Reading().sizer
    for _ in range(128):
        sizer.succeeded(size, 0.05, 0.0)
    assert sizer.balance(2 * ROOM, ROOM) == changes


def test_memory_does_not_enlarge_ranges_that_a_slow_store_made_small() -> None:
    sizer = RangeSizer(8 * MIB, 5.0, 4 * MIB)
    for _ in range(3):
        sizer.timed_out()
    assert not sizer.balance(11.0, 10.0)
    assert not sizer.balance(1.0, 10.0)
    assert sizer.range_bytes == MIB // 2


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


def test_as_many_ranges_are_in_flight_as_are_used_during_one() -> None:
    ahead = ReadAhead(64)
    assert ahead.in_flight(MIB) == 64
    ahead.landed(MIB, 0.05)
    ahead.decoded(MIB, 7.0, 7.002)
    assert ahead.in_flight(MIB) == 64, "nobody has used anything yet"
    ahead.used(MIB, 7.1, 7.12)
    assert ahead.in_flight(MIB) == 1 + 5
    assert ahead.in_flight(2 * MIB) == 1 + 3, "larger ranges last longer"


def test_the_slower_of_decoding_and_using_counts() -> None:
    ahead = ReadAhead(16)
    ahead.landed(MIB, 0.05)
    ahead.used(MIB, 1.0, 1.001)
    ahead.decoded(MIB, 1.0, 1.1)
    assert ahead.in_flight(MIB) == 2


def test_blocks_of_many_partitions_share_the_time_they_are_held() -> None:
    ahead = ReadAhead(16)
    ahead.landed(MIB, 0.05)
    for number in range(1, 25):  # all taken at 0, then used one after the other, 20 ms each
        ahead.used(MIB, 0.0, number * 0.02)
    assert ahead.in_flight(MIB) == 1 + 5
    ahead.used(MIB, 0.0, 0.1)  # ended earlier, but reported later
    assert ahead.in_flight(MIB) == 1 + 6


def test_the_last_ranges_and_paces_count_most() -> None:
    ahead = ReadAhead(16)
    ahead.landed(MIB, 0.001)
    ahead.used(MIB, 1.0, 1.01)
    assert ahead.in_flight(MIB) == 2
    for _ in range(16):
        ahead.landed(MIB, 0.02)
    assert ahead.in_flight(MIB) == 5
    for number in range(2, 60):
        ahead.used(MIB, number, number + 0.05)
    assert ahead.in_flight(MIB) == 2


def test_all_ranges_are_in_flight_until_the_first_one_landed() -> None:
    ahead = ReadAhead(16)
    ahead.used(MIB, 1.0, 1.01)
    assert ahead.in_flight(MIB) == 16


def test_one_range_at_a_time_stays_one_at_a_time() -> None:
    ahead = ReadAhead(1)
    ahead.landed(MIB, 1.0)
    ahead.used(MIB, 1.0, 1.1)
    assert ahead.in_flight(MIB) == 1


def test_ranges_of_about_the_size_count_first() -> None:
    ahead = ReadAhead(64)
    ahead.used(MIB, 1.0, 1.01)
    ahead.landed(MIB // 4, 0.01)
    assert ahead.in_flight(MIB) == 1 + 2, "there is nothing better"
    ahead.landed(MIB, 0.05)
    assert ahead.in_flight(MIB) == 1 + 10
    assert ahead.in_flight(MIB // 4) == 1 + 8


def test_bytes_in_flight_follow_from_ranges_of_that_size() -> None:
    ahead = ReadAhead(64)
    assert ahead.wanted_bytes(MIB) is None
    ahead.landed(MIB, 0.05)
    assert ahead.wanted_bytes(MIB) is None, "nobody has used anything yet"
    ahead.used(MIB, 1.0, 1.01)
    assert ahead.wanted_bytes(MIB) == pytest.approx(10 * MIB)
    assert ahead.wanted_bytes(2 * MIB) is None, "ranges of another size"
    assert ahead.wanted_bytes(MIB // 2) is None
    assert ahead.wanted_bytes(2 * MIB - 1) == pytest.approx(10 * MIB)
    assert ahead.wanted_bytes(MIB // 2 + 1) == pytest.approx(10 * MIB)


def test_all_ranges_count_if_none_has_the_size() -> None:
    ahead = ReadAhead(64)
    ahead.used(MIB, 1.0, 1.01)
    for _ in range(15):
        ahead.landed(4 * MIB, 0.05)
    assert ahead.wanted_bytes(MIB) is None
    ahead.landed(4 * MIB, 0.05)
    assert ahead.wanted_bytes(MIB) == pytest.approx(10 * MIB)
    ahead.resized()
    for _ in range(16):
        assert ahead.wanted_bytes(MIB) is None, "these may have been asked for before"
        ahead.landed(4 * MIB, 0.05)
    assert ahead.wanted_bytes(MIB) == pytest.approx(10 * MIB)


def test_a_window_is_sized_for_a_plain_segment_by_default() -> None:
    assert window_bytes(MIB, in_flight=2, readers=1) == window(chunked=False)
