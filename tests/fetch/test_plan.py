import attrs
import pytest

from kafka_remote_client.fetch.plan import (
    MIN_RANGE_BYTES,
    WINDOW_RANGES,
    RangeSizer,
    ReadAhead,
    readable_end,
    refresh_time,
    refusal,
    window_bytes,
)
from kafka_remote_client.model import NO_EXPIRY, AbortedTransaction, ByteRange, GrantedRange, IsolationLevel, SegmentLocation
from tests.support.locations import location, segment

MIB = 1024 * 1024
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FORMATS = ("ApacheKafkaV1",)


def test_ranges_grow_while_full_ones_are_fast_and_never_past_the_maximum() -> None:
    sizer = RangeSizer(8 * MIB, 5.0)
    assert (sizer.range_bytes, sizer.maximum) == (4 * MIB, 8 * MIB)
    sizer.succeeded(4 * MIB, 0.1)
    assert sizer.range_bytes == 8 * MIB
    sizer.succeeded(8 * MIB, 0.1)
    assert sizer.range_bytes == 8 * MIB


@pytest.mark.parametrize(("size", "seconds"), [(2 * MIB, 0.1), (4 * MIB, 1.25)])
def test_a_small_or_slow_range_proves_nothing(size: int, seconds: float) -> None:
    sizer = RangeSizer(8 * MIB, 5.0)
    sizer.succeeded(size, seconds)
    assert sizer.range_bytes == 4 * MIB


def test_ranges_are_halved_by_a_timeout_down_to_the_minimum() -> None:
    sizer = RangeSizer(8 * MIB, 5.0)
    sizer.timed_out()
    assert sizer.range_bytes == 2 * MIB
    for _ in range(20):
        sizer.timed_out()
    assert sizer.range_bytes == MIN_RANGE_BYTES


def test_a_small_maximum_holds_from_the_start() -> None:
    assert RangeSizer(MIN_RANGE_BYTES, 5.0).range_bytes == MIN_RANGE_BYTES


def window(
    range_bytes: int = 8 * MIB, *, in_flight: int = 2, memory: int = 1024 * MIB, readers: int = 1, chunked: bool = False
) -> int:
    return window_bytes(range_bytes, 8 * MIB, in_flight=in_flight, buffer_memory=memory, readers=readers, chunked=chunked)


@pytest.mark.parametrize(
    ("memory", "readers", "expected"),
    [
        (1024 * MIB, 1, 32 * MIB),
        (64 * MIB, 4, 16 * MIB),
        (64 * MIB, 0, 32 * MIB),
        (64 * MIB, 1000, 16 * MIB),
        (100, 1000, MIN_RANGE_BYTES),
    ],
)
def test_a_window_is_eight_ranges_within_a_share_of_the_memory(memory: int, readers: int, expected: int) -> None:
    assert WINDOW_RANGES == 8
    assert window(4 * MIB, memory=memory, readers=readers, chunked=True) == expected


@pytest.mark.parametrize(
    ("in_flight", "chunked", "ranges"),
    [(1, False, 8), (4, False, 8), (8, False, 16), (20, False, 40), (1, True, 32), (20, True, 40)],
)
def test_a_window_of_full_ranges_covers_twice_what_is_in_flight_and_many_chunks(
    in_flight: int, chunked: bool, ranges: int
) -> None:
    assert window(in_flight=in_flight, chunked=chunked) == ranges * 8 * MIB


def test_as_many_ranges_fly_as_are_used_up_while_one_is_on_its_way() -> None:
    ahead = ReadAhead(16)
    assert ahead.in_flight(MIB) == 16
    ahead.landed(0.05)
    ahead.decoded(MIB, 7.0, 7.002)
    assert ahead.in_flight(MIB) == 16, "nobody has used anything yet"
    ahead.used(MIB, 7.1, 7.12)
    assert ahead.in_flight(MIB) == 1 + 5
    assert ahead.in_flight(2 * MIB) == 1 + 3, "larger ranges last longer"


def test_is_measured_once_a_range_has_landed() -> None:
    before, after = ReadAhead(16), ReadAhead(16)
    after.landed(0.05)
    assert (before.is_measured, after.is_measured) == (False, True)


def test_the_slower_of_decoding_and_using_counts() -> None:
    ahead = ReadAhead(16)
    ahead.landed(0.05)
    ahead.used(MIB, 1.0, 1.001)
    ahead.decoded(MIB, 1.0, 1.1)
    assert ahead.in_flight(MIB) == 2


def test_blocks_of_many_partitions_that_are_held_side_by_side_take_their_time_together() -> None:
    ahead = ReadAhead(16)
    ahead.landed(0.05)
    for number in range(1, 25):  # all taken at 0, then used up one after the other, 20 ms each
        ahead.used(MIB, 0.0, number * 0.02)
    assert ahead.in_flight(MIB) == 1 + 5
    ahead.used(MIB, 0.0, 0.1)  # one that ended earlier, and is told later
    assert ahead.in_flight(MIB) == 1 + 6


def test_the_last_ranges_and_paces_count_most() -> None:
    ahead = ReadAhead(16)
    ahead.landed(0.001)
    ahead.used(MIB, 1.0, 1.01)
    assert ahead.in_flight(MIB) == 2
    for _ in range(16):
        ahead.landed(0.02)
    assert ahead.in_flight(MIB) == 5
    for number in range(2, 60):
        ahead.used(MIB, number, number + 0.05)
    assert ahead.in_flight(MIB) == 2


def test_one_at_a_time_is_one_at_a_time() -> None:
    ahead = ReadAhead(1)
    ahead.landed(1.0)
    ahead.used(MIB, 1.0, 1.1)
    assert ahead.in_flight(MIB) == 1


def test_urls_are_refreshed_at_half_of_their_life() -> None:
    assert refresh_time(100.0, 220.0) == 160.0
    assert refresh_time(100.0, NO_EXPIRY) == NO_EXPIRY


@pytest.mark.parametrize(
    ("isolation", "lso", "high_watermark", "end_offset", "expected"),
    [
        (COMMITTED, -1, -1, None, 200),
        (COMMITTED, 150, 180, None, 150),
        (UNCOMMITTED, 150, 180, None, 180),
        (COMMITTED, 500, 500, None, 200),
        (COMMITTED, 500, 500, 130, 130),
        (UNCOMMITTED, 120, 125, 130, 125),
    ],
)
def test_nothing_undecided_or_past_the_bound_is_readable(
    isolation: IsolationLevel, lso: int, high_watermark: int, end_offset: int | None, expected: int
) -> None:
    grant = location(next_offset=200, last_stable_offset=lso, high_watermark=high_watermark)
    assert readable_end(grant, isolation, end_offset) == expected


def test_a_sound_location_is_not_refused() -> None:
    assert refusal(location(), 100, COMMITTED, FORMATS, now=0.0) is None


def _ranges(*bounds: tuple[int, int]) -> tuple[GrantedRange, ...]:
    return tuple(GrantedRange(ByteRange(start, end)) for start, end in bounds)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": "Iceberg"}, "unsupported-format"),
        ({"fetch_offset": 99}, "other-offset"),
        ({"fetch_offset": 101}, "other-offset"),
        ({"metadata": segment(start_offset=101)}, "bad-location"),
        ({"metadata": segment(start_offset=0, end_offset=99), "next_offset": 100}, "bad-location"),
        ({"log_start_offset": 101}, "bad-location"),
        ({"next_offset": 100}, "bad-location"),
        ({"next_offset": 201}, "bad-location"),
        ({"ranges": ()}, "bad-location"),
        ({"ranges": _ranges((0, 10), (11, 20))}, "bad-location"),
        ({"ranges": _ranges((0, 10), (5, 20))}, "bad-location"),
        ({"ranges": _ranges((0, 1001))}, "bad-location"),
        ({"aborted_transactions": None}, "aborted-transactions-unknown"),
        ({"expires_at": 7.0}, "expired"),
    ],
)
def test_a_location_that_leaves_a_doubt_is_refused(changes: dict[str, object], reason: str) -> None:
    grant: SegmentLocation = attrs.evolve(location(), **changes)
    assert refusal(grant, 100, COMMITTED, FORMATS, now=7.0) == reason


def test_the_aborted_list_may_be_unknown_for_read_uncommitted() -> None:
    grant = location(aborted_transactions=None)
    assert refusal(grant, 100, UNCOMMITTED, FORMATS, now=0.0) is None


def test_an_aborted_list_says_nothing_against_a_location() -> None:
    grant = location(aborted_transactions=(AbortedTransaction(7, 50),))
    assert refusal(grant, 100, COMMITTED, FORMATS, now=0.0) is None
