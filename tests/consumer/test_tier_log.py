from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import HealthCheck, given, settings

from kafka_remote_client.consumer.tier_log import PARTITIONS, SPANS, Tier, TierLog, TierLogs

REMOTE, BROKER = Tier.REMOTE, Tier.BROKER
KEY = ("orders", 0)


def tiers_of(log: TierLog, offsets: range, position: int) -> list[Tier | None]:
    return [log.tier(offset, position) for offset in offsets]


def test_values_read_as_what_they_are() -> None:
    assert [str(tier) for tier in Tier] == ["remote", "broker"]
    assert REMOTE == "remote"


def test_the_tiers_take_turns_and_nothing_past_the_position_was_delivered() -> None:
    log = TierLog()
    log.begin(REMOTE, 0)
    log.begin(BROKER, 3)
    assert tiers_of(log, range(7), 5) == [REMOTE] * 3 + [BROKER] * 2 + [None] * 2
    assert tiers_of(log, range(4), 2) == [REMOTE] * 2 + [None] * 2
    assert log.tier(0, -1001) is None


def test_record_taken_back_counts_for_the_tier_that_delivers_it() -> None:
    log = TierLog()
    log.begin(REMOTE, 0)
    log.begin(BROKER, 5)
    log.begin(BROKER, 3)  # 3 and 4 were gathered from the store, and not handed out
    assert tiers_of(log, range(6), 6) == [REMOTE] * 3 + [BROKER] * 3
    log.begin(REMOTE, 0)
    assert tiers_of(log, range(2), 2) == [REMOTE] * 2


def test_the_latest_delivery_counts() -> None:
    log = TierLog()
    log.begin(REMOTE, 0)
    log.seal(6)
    log.leave()
    log.begin(BROKER, 2)
    assert tiers_of(log, range(7), 4) == [REMOTE] * 2 + [BROKER] * 2 + [REMOTE] * 2 + [None]
    log.seal(4)
    log.leave()
    assert tiers_of(log, range(7), -1001) == [REMOTE] * 2 + [BROKER] * 2 + [REMOTE] * 2 + [None]


def test_a_run_that_continues_after_it_was_sealed_is_reported_once() -> None:
    log = TierLog()
    log.begin(REMOTE, 0)
    log.begin(BROKER, 3)
    for position in (2, 4, 6):
        log.seal(position)
    log.leave()
    assert tiers_of(log, range(7), 0) == [REMOTE] * 3 + [BROKER] * 3 + [None]


def test_an_unplaced_range_is_nothing_until_its_first_record_has_come() -> None:
    log = TierLog()
    log.begin(BROKER, None)
    assert log.unplaced
    assert log.tier(7, 9) is None
    log.place(5)
    assert tiers_of(log, range(4, 8), 7) == [None, BROKER, BROKER, None]
    log.place(0)
    assert log.tier(4, 7) is None, "it was placed before"


def test_an_unplaced_range_of_which_nothing_came_leaves_no_trace() -> None:
    log = TierLog()
    log.begin(BROKER, None)
    log.begin(REMOTE, 3)
    assert tiers_of(log, range(2, 6), 5) == [None, REMOTE, REMOTE, None]
    log.begin(BROKER, None)
    assert not log.unplaced, "a run is under way"


def test_a_run_that_begins_where_the_last_one_ended_goes_on_with_its_range() -> None:
    log = TierLog()
    for position in range(1, 3 * SPANS):
        log.begin(REMOTE, position - 1)
        log.seal(position)
        log.leave()
    assert set(tiers_of(log, range(3 * SPANS - 1), -1)) == {REMOTE}


def test_the_oldest_ranges_are_forgotten() -> None:
    log = TierLog()
    for start in range(0, 10 * (SPANS + 3), 10):
        log.begin(REMOTE, start)
        log.seal(start + 1)
        log.leave()
    assert tiers_of(log, range(0, 31, 10), -1) == [None, None, None, REMOTE]


def test_a_run_of_many_turns_forgets_its_oldest_too() -> None:
    log = TierLog()
    turns = 3 * SPANS
    for start in range(turns):
        log.begin((REMOTE, BROKER)[start % 2], start)
    answers = tiers_of(log, range(turns), turns)
    known = [answer for answer in answers if answer is not None]
    assert SPANS <= len(known) < turns
    assert answers[-len(known) :] == [(REMOTE, BROKER)[start % 2] for start in range(turns)][-len(known) :]


def test_partition_taken_up_first_is_forgotten_first() -> None:
    logs = TierLogs()
    for partition in range(PARTITIONS + 1):
        logs.begin(("orders", partition), REMOTE, 0)
    assert logs.tier(("orders", 0), 0, 1) is None
    assert logs.tier(("orders", 1), 0, 1) is REMOTE
    assert logs.tier(("payments", 1), 0, 1) is None


def test_what_delivers_is_told_which_partitions_are_unplaced() -> None:
    logs = TierLogs()
    logs.begin(KEY, BROKER, None)
    assert logs.unplaced == {KEY}
    logs.place(KEY, 4)
    assert not logs.unplaced
    assert logs.tier(KEY, 4, 5) is BROKER
    logs.seal(KEY, 5)
    logs.leave(KEY)
    assert logs.tier(KEY, 4, -1) is BROKER
    logs.begin(KEY, BROKER, None)
    logs.leave(KEY)
    assert not logs.unplaced
    logs.begin(KEY, BROKER, None)
    logs.begin(KEY, REMOTE, 3)
    assert not logs.unplaced


def test_a_partition_that_was_never_taken_up_has_nothing_to_keep() -> None:
    logs = TierLogs()
    logs.place(KEY, 1)
    logs.seal(KEY, 1)
    logs.leave(KEY)
    assert logs.tier(KEY, 0, 1) is None


_UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
_TIERS = st.sampled_from(Tier)
_STEPS = st.one_of(
    st.tuples(st.just("gather"), st.integers(1, 6)),
    st.tuples(st.just("hand out"), st.integers(1, 6)),
    st.tuples(st.just("route"), _TIERS),
    st.tuples(st.just("take back"), _TIERS),
    st.tuples(st.just("seek"), st.tuples(_TIERS, st.integers(0, 40))),
    st.tuples(st.just("seek to nowhere"), st.integers(0, 40)),
)


class _Delivered:
    """A partition, its log, and a naive model: the tier that last delivered each offset."""

    def __init__(self) -> None:
        self.log = TierLog()
        self.truth: dict[int, Tier] = {}
        self.route = BROKER
        self.gathered: list[tuple[int, Tier]] = []
        self.next_offset = 0
        self.position = -1
        self.log.begin(BROKER, 0)

    def gather(self, count: int) -> None:
        self.gathered += [(offset, self.route) for offset in range(self.next_offset, self.next_offset + count)]
        self.next_offset += count

    def hand_out(self, count: int) -> None:
        for offset, tier in self.gathered[:count]:
            self.log.place(offset)
            self.truth[offset], self.position = tier, offset + 1
        del self.gathered[:count]

    def go(self, tier: Tier) -> None:
        if not (self.log.unplaced and self.gathered):
            self.route = tier
            self.log.begin(tier, self.next_offset)

    def take_back(self, tier: Tier) -> None:
        if self.gathered:
            self.next_offset = self.gathered[0][0]
            self.gathered.clear()
            self.go(tier)

    def seek(self, tier: Tier, offset: int, start: int | None) -> None:
        self.log.seal(self.position)
        self.log.leave()
        self.route, self.next_offset, self.position = tier, offset, -1
        self.gathered.clear()
        self.log.begin(tier, start)

    def do(self, step: tuple[str, object]) -> None:
        match step:
            case "gather", int(count):
                self.gather(count)
            case "hand out", int(count):
                self.hand_out(count)
            case "route", Tier() as tier:
                self.go(tier)
            case "take back", Tier() as tier:
                self.take_back(tier)
            case "seek", (Tier() as tier, int(offset)):
                self.seek(tier, offset, offset)
            case "seek to nowhere", int(offset):
                self.seek(BROKER, offset, None)
            case _:
                raise AssertionError(step)


@_UNHURRIED
@given(st.lists(_STEPS, max_size=SPANS // 2))
def test_agrees_with_a_table_of_all_records(steps: list[tuple[str, object]]) -> None:
    delivered = _Delivered()
    for step in steps:
        delivered.do(step)
        expected = [delivered.truth.get(offset) for offset in range(delivered.next_offset + 60)]
        assert tiers_of(delivered.log, range(len(expected)), delivered.position) == expected


@_UNHURRIED
@given(st.lists(_STEPS, min_size=SPANS, max_size=3 * SPANS))
def test_what_it_does_not_know_any_more_it_says_nothing_of(steps: list[tuple[str, object]]) -> None:
    delivered = _Delivered()
    for step in steps:
        delivered.do(step)
    for offset, tier in delivered.truth.items():
        assert delivered.log.tier(offset, delivered.position) in (tier, None)
