import attrs
import pytest

from kafka_remote_client.fetch.grant_checks import readable_end, refresh_time, refusal, within
from kafka_remote_client.model import NO_EXPIRY, AbortedTransaction, ByteRange, GrantedRange, IsolationLevel, SegmentLocation
from tests.support.locations import location, segment

MIB = 1024 * 1024
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED
FORMATS = ("ApacheKafkaV1",)


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
def test_undecided_records_and_those_past_the_bound_are_not_readable(
    isolation: IsolationLevel, lso: int, high_watermark: int, end_offset: int | None, expected: int
) -> None:
    grant = location(next_offset=200, last_stable_offset=lso, high_watermark=high_watermark)
    assert readable_end(grant, isolation, end_offset) == expected


def test_records_past_the_bound_of_a_read_are_left_out() -> None:
    ranges = (GrantedRange(ByteRange(0, 300)), GrantedRange(ByteRange(300, 600)), GrantedRange(ByteRange(600, 900)))
    told = tuple(attrs.evolve(one, first_offset=offset) for one, offset in zip(ranges, (90, 130, 160), strict=True))
    whole = location(ranges=told)
    assert within(whole, None) is whole
    assert within(whole, 161) is whole
    for bound, left in [(160, 2), (131, 2), (130, 1), (100, 1), (1, 1)]:
        found = within(whole, bound)
        assert (len(found.ranges), found.next_offset) == (left, told[left].first_offset)
    silent = location(ranges=ranges)
    assert within(silent, 100) is silent, "nobody says where they begin"


def test_a_valid_location_is_accepted() -> None:
    assert refusal(location(), 100, COMMITTED, FORMATS, now=0.0) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"log_start_offset": 100},
        {"metadata": segment(start_offset=100)},
        {"metadata": segment(start_offset=0, end_offset=100), "next_offset": 101},
        {"next_offset": 101},
        {"next_offset": 200},
        {"ranges": (GrantedRange(ByteRange(0, 10)), GrantedRange(ByteRange(10, 1000)))},
        {"expires_at": 0.1},
    ],
)
def test_a_location_at_its_limits_is_accepted(changes: dict[str, object]) -> None:
    assert refusal(attrs.evolve(location(), **changes), 100, COMMITTED, FORMATS, now=0.0) is None


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
def test_an_inconsistent_location_is_refused(changes: dict[str, object], reason: str) -> None:
    grant: SegmentLocation = attrs.evolve(location(), **changes)
    assert refusal(grant, 100, COMMITTED, FORMATS, now=7.0) == reason


def test_the_aborted_list_may_be_unknown_for_read_uncommitted() -> None:
    grant = location(aborted_transactions=None)
    assert refusal(grant, 100, UNCOMMITTED, FORMATS, now=0.0) is None


def test_aborted_transactions_are_no_reason_to_refuse_a_location() -> None:
    grant = location(aborted_transactions=(AbortedTransaction(7, 50),))
    assert refusal(grant, 100, COMMITTED, FORMATS, now=0.0) is None
