"""Each line of the table in fetch/preference.py: events and decisions. A segment here has 5 bytes per offset."""

from __future__ import annotations

import pytest

from kafka_remote_client.fetch.preference import BrokerPreference, Place
from tests.support.locations import segment

KEY, OTHER = ("orders", 0), ("orders", 1)
SLOW = 1000
STAY = 10.0


class Partitions:
    """A preference, and partitions that read at a given throughput."""

    def __init__(self, slow: int = SLOW) -> None:
        self.now = 1000.0
        self.preference = BrokerPreference(slow, STAY)

    def reads(
        self, pace: float, *, ranges: int = 4, seconds: float = 1.0, in_flight: int = 1, key: tuple[str, int] = KEY
    ) -> None:
        """Adds ranges with the bytes of that throughput, one after the other."""
        for _ in range(ranges):
            self.now += seconds / in_flight
            size = round(pace * seconds / in_flight)
            self.preference.landed(key, segment(), size, seconds, in_flight=in_flight, now=self.now)

    def leaves(self, key: tuple[str, int] = KEY) -> bool:
        return self.preference.leaves(key, self.now)

    def by_broker(self, pace: float, seconds: float, key: tuple[str, int] = KEY, offset: int = 100) -> bool:
        """Leaves the store at ``offset`` and lets the broker read on. Returns whether the partition goes back to the store."""
        self.preference.left(key, offset, self.now)
        self.now += seconds
        return self.preference.returns(key, offset + round(pace * seconds / 5), self.now)

    def left_for_good(self, key: tuple[str, int] = KEY) -> None:
        """Leaves the store, which gives 100 bytes a second; the broker gives 10000."""
        self.reads(100, key=key)
        assert self.leaves(key)
        assert not self.by_broker(10_000, 2.0, key)


@pytest.fixture
def tried() -> Partitions:
    return Partitions()


def test_a_partition_never_read_stays_at_the_store(tried: Partitions) -> None:
    assert not tried.leaves()
    assert tried.preference.returns(KEY, 7, tried.now)


def test_a_partition_never_leaves_a_store_that_is_fast_enough(tried: Partitions) -> None:
    tried.reads(SLOW, ranges=100)
    assert not tried.leaves()


def test_a_setting_of_zero_turns_the_preference_off() -> None:
    off = Partitions(slow=0)
    off.reads(1, ranges=100)
    assert not off.leaves()


@pytest.mark.parametrize(
    ("ranges", "seconds", "leaves"),
    [(3, 10.0, False), (4, 0.4, False), (4, 0.5, True), (5, 0.4, True)],
    ids=["three ranges", "too short a time", "both", "more ranges, shorter"],
)
def test_few_ranges_or_a_short_time_decide_nothing(tried: Partitions, ranges: int, seconds: float, leaves: bool) -> None:
    tried.reads(100, ranges=ranges, seconds=seconds)
    assert tried.leaves() is leaves


def test_old_ranges_do_not_count(tried: Partitions) -> None:
    tried.reads(100)
    tried.now += 60.0
    assert not tried.leaves()
    tried.reads(100)
    assert tried.leaves()


@pytest.mark.parametrize(("seconds", "leaves"), [(57.0, True), (57.5, False)], ids=["a minute old", "older"])
def test_ranges_count_for_a_minute(tried: Partitions, seconds: float, leaves: bool) -> None:
    tried.reads(100)
    tried.now += seconds  # since the last of four ranges, one a second
    assert tried.leaves() is leaves


def test_the_last_sixteen_ranges_count(tried: Partitions) -> None:
    tried.reads(100, ranges=9)
    tried.reads(5000, ranges=8)
    assert not tried.leaves(), "half of them are fast, so the median is"


def test_long_ranges_give_the_same_throughput(tried: Partitions) -> None:
    tried.reads(SLOW - 1, seconds=3.0)
    assert tried.leaves()


def test_a_trial_may_begin_when_the_clock_begins(tried: Partitions) -> None:
    tried.now = -4.0
    tried.reads(100)
    assert tried.now == 0.0
    assert tried.leaves()


def test_the_median_counts_so_one_stall_does_not(tried: Partitions) -> None:
    tried.reads(5000, ranges=3)
    tried.reads(1, ranges=1, seconds=30.0)
    assert not tried.leaves()


def test_ranges_in_flight_together_share_the_time(tried: Partitions) -> None:
    # Each takes 8 s for 2000 bytes, and the store gives 8 of them in that time: 2000 bytes a second.
    tried.reads(2000, ranges=16, seconds=8.0, in_flight=8)
    assert not tried.leaves()


def test_a_trial_lasts_two_seconds(tried: Partitions) -> None:
    tried.reads(100)
    assert tried.leaves()
    assert tried.preference.left(KEY, 100, tried.now) == 2.0
    assert not tried.preference.returns(KEY, 100, tried.now + 1.9)
    assert tried.preference.returns(KEY, 100, tried.now + 2.0)


@pytest.mark.parametrize(("pace", "returns"), [(0, True), (200, True), (210, False)], ids=["none", "twice", "more"])
def test_only_a_broker_that_is_more_than_twice_as_fast_is_preferred(tried: Partitions, pace: float, returns: bool) -> None:
    tried.reads(100)
    assert tried.leaves()
    assert tried.by_broker(pace, 2.0) is returns


def test_an_offset_that_goes_back_measures_no_throughput(tried: Partitions) -> None:
    tried.reads(1)  # an offset more in these two seconds would be faster than that
    assert tried.leaves()
    tried.preference.left(KEY, 100, tried.now)
    assert tried.preference.returns(KEY, 50, tried.now + 2.0)


@pytest.mark.parametrize("start", [0, 100])
@pytest.mark.parametrize(("offset", "returns"), [(8000, True), (8001, False)])
def test_the_segment_tells_the_bytes_of_an_offset(tried: Partitions, start: int, offset: int, returns: bool) -> None:
    part = segment(start_offset=start, end_offset=start + 199)
    for at in range(4):
        tried.preference.landed(KEY, part, 100, 1.0, in_flight=1, now=float(at))
    assert tried.preference.leaves(KEY, 3.0)
    tried.preference.left(KEY, 0, 3.0)
    assert tried.preference.returns(KEY, offset, 203.0) is returns


def test_one_partition_at_a_time_is_on_trial(tried: Partitions) -> None:
    tried.reads(100)
    tried.reads(100, key=OTHER)
    assert tried.leaves()
    assert not tried.leaves(OTHER)
    assert not tried.by_broker(10_000, 2.0)
    assert tried.leaves(OTHER)


def test_a_trial_without_a_result_ends(tried: Partitions) -> None:
    tried.reads(100)
    assert tried.leaves()
    tried.now += 56.0
    tried.reads(100, key=OTHER)  # for four seconds
    assert not tried.preference.leaves(OTHER, tried.now - 0.1)
    assert tried.leaves(OTHER)


def test_trials_without_a_gain_become_rare(tried: Partitions) -> None:
    pauses = []
    for _ in range(7):
        tried.reads(100)
        begun = tried.now
        while not tried.leaves():
            tried.reads(100, ranges=1)
        pauses.append(round(tried.now - begun))
        assert tried.by_broker(100, 2.0)
    assert pauses == [0, 26, 56, 116, 236, 476, 596]  # each shorter by the 4 s of the new measurement


def test_a_trial_with_a_gain_allows_the_next_at_once(tried: Partitions) -> None:
    tried.reads(100)
    assert tried.leaves()
    assert tried.by_broker(100, 2.0)
    tried.now += 30.0
    tried.left_for_good()
    tried.reads(100, key=OTHER)
    assert tried.leaves(OTHER)


def test_a_partition_returns_after_its_stay_and_is_measured_again(tried: Partitions) -> None:
    tried.left_for_good()
    assert not tried.preference.returns(KEY, 9000, tried.now + STAY - 0.1)
    assert tried.preference.returns(KEY, 9000, tried.now + STAY)
    tried.reads(100, ranges=3)
    assert not tried.leaves()
    tried.reads(100, ranges=1)
    assert tried.leaves()


def test_stays_double_up_to_a_minute_while_the_store_stays_slow(tried: Partitions) -> None:
    tried.left_for_good()
    tried.now += STAY
    assert tried.preference.returns(KEY, 100_000, tried.now)
    stays = []
    for _ in range(4):
        tried.reads(100)
        assert tried.leaves()
        stays.append(tried.preference.left(KEY, 100, tried.now))
        tried.now += stays[-1]
        assert tried.preference.returns(KEY, 100_000, tried.now)
    assert stays == [20.0, 40.0, 60.0, 60.0]


def test_a_known_throughput_of_the_broker_needs_no_trial(tried: Partitions) -> None:
    tried.left_for_good()
    tried.now += STAY
    assert tried.preference.returns(KEY, 100_000, tried.now)
    tried.reads(100, key=OTHER)
    assert tried.leaves(OTHER)  # on trial from here on
    tried.reads(100)
    assert tried.leaves()


def test_a_store_that_recovered_is_kept_and_the_broker_is_forgotten(tried: Partitions) -> None:
    tried.left_for_good()
    tried.now += STAY
    assert tried.preference.returns(KEY, 100_000, tried.now)
    tried.reads(5000, ranges=16)
    assert not tried.leaves()
    tried.reads(100, ranges=16)
    assert tried.leaves()
    assert tried.preference.left(KEY, 100, tried.now) == 2.0  # another trial


def test_a_store_within_the_factor_of_the_broker_is_kept(tried: Partitions) -> None:
    tried.reads(100)
    assert tried.leaves()
    assert not tried.by_broker(900, 2.0)
    tried.now += STAY
    assert tried.preference.returns(KEY, 100 + round(900 * (2.0 + STAY) / 5), tried.now)
    tried.reads(100, key=OTHER)
    assert tried.leaves(OTHER)  # so that no other trial can begin
    tried.reads(500, ranges=16)
    assert not tried.leaves()
    tried.reads(450, ranges=16)
    assert not tried.leaves(), "the broker is not more than twice as fast"
    tried.reads(449, ranges=16)
    assert tried.leaves()


def test_a_pause_while_the_broker_reads_leads_to_another_trial(tried: Partitions) -> None:
    tried.left_for_good()
    tried.now += STAY
    assert tried.preference.returns(KEY, 4000, tried.now)  # at the same offset: the broker seems to give nothing
    tried.reads(100)
    assert tried.leaves()
    assert tried.preference.left(KEY, 4000, tried.now) == 2.0


def test_a_measured_read_marks_a_partition_as_read_from_the_store(tried: Partitions) -> None:
    tried.left_for_good()
    tried.reads(100, ranges=3)  # the application has called seek
    assert tried.preference.returns(KEY, 7, tried.now)
    assert tried.preference._partitions[KEY].place is Place.STORE
    assert not tried.leaves()
    tried.reads(100, ranges=1)
    assert tried.leaves()


def test_the_first_stay_is_as_long_as_the_setting(tried: Partitions) -> None:
    tried.preference = BrokerPreference(SLOW, 0.5)
    tried.left_for_good()
    assert not tried.preference.returns(KEY, 10_000, tried.now + 0.4)
    tried.now += 0.6
    assert tried.preference.returns(KEY, 10_000, tried.now)
    tried.reads(5000, ranges=16)
    assert not tried.leaves()
    tried.reads(100, ranges=12)
    tried.left_for_good()
    assert tried.preference.returns(KEY, 10_000, tried.now + 0.6), "the store was fast meanwhile: stays begin anew"
