"""Plans: splits with ids, bytes and GETs; segments that cannot match are pruned."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.predicate import column
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import (
    ScanPlan,
    TieredPartition,
    TimeBounds,
    plan_scan,
    segments_in,
    time_bounds,
    with_live_rest,
)
from kafka_remote_client.segment_spans import SegmentSpan

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SEGMENTS = tuple(SegmentSpan(start, start + 100, 10_000, 1_000 + start) for start in range(0, 400, 100))
"""The youngest record of [100, 200) has the timestamp 1100, and so on."""


def tiered(partition: TopicPartition = T0, **more: Any) -> TieredPartition:
    return TieredPartition(partition, 0, 400, SEGMENTS, **more)


def planned(*partitions: TieredPartition, range_bytes: int = 4_000, **scan: Any) -> ScanPlan:
    return plan_scan(Scan(topics="t", **scan), partitions or (tiered(),), range_bytes=range_bytes)


def offsets(plan: ScanPlan) -> list[tuple[int, int]]:
    return [(split.start, split.end) for split in plan.splits]


def test_splits_end_at_segment_ends_and_have_bytes_and_gets() -> None:
    plan = planned(tiered(T1), tiered(T0), split_bytes=20_000)
    assert [split.id for split in plan.splits] == ["t-0-0-200", "t-0-200-400", "t-1-0-200", "t-1-200-400"]
    assert [(split.size_in_bytes, split.gets) for split in plan.splits] == [(20_000, 6)] * 4
    assert (plan.read_bytes, plan.gets, plan.segments, plan.known_segments) == (80_000, 24, 8, 8)
    assert str(plan) == "4 splits of 2 partitions: about 80,000 bytes in 24 GETs, 8 of 8 segments"
    assert plan.ends == {T0: 400, T1: 400}


def test_the_same_scan_of_the_same_tier_has_the_same_ids() -> None:
    assert [split.id for split in planned().splits] == [split.id for split in planned().splits] == ["t-0-0-400"]


def test_offset_bounds_limit_the_plan_and_set_its_ends() -> None:
    plan = planned(start_offset=150, end_offset={T0: 250})
    assert offsets(plan) == [(150, 250)]
    assert (plan.read_bytes, plan.gets, plan.ends) == (10_000, 4, {T0: 250})
    assert planned(start_offset=900).splits == ()
    assert planned(start_offset=900).ends == {T0: 900}


def test_offsets_beyond_the_tier_are_not_read() -> None:
    part = TieredPartition(T0, 100, 400, SEGMENTS[1:])
    plan = planned(part, start_offset=10, end_offset={T0: 900})
    assert offsets(plan) == [(100, 400)]
    assert plan.ends == {T0: 400}


def test_segments_that_are_too_old_are_left_out() -> None:
    plan = planned(since=1_150)
    assert offsets(plan) == [(200, 400)]
    assert (plan.segments, plan.known_segments) == (2, 4)
    assert offsets(planned(since=1_200)) == [(200, 400)], "the youngest record is old enough"
    assert offsets(planned(since=1_201)) == [(300, 400)]


def test_segments_between_offsets_are_left_out() -> None:
    plan = planned(predicate=column("offset").is_in([5, 17, 350]))
    assert offsets(plan) == [(5, 18), (350, 351)]
    assert [split.gets for split in plan.splits] == [1, 1]
    assert plan.segments == 2


def test_a_partition_that_cannot_match_is_left_out() -> None:
    plan = planned(tiered(T0), tiered(T1), predicate=column("partition") == 1)
    assert [split.id for split in plan.splits] == ["t-1-0-400"]
    assert plan.ends == {T0: 400, T1: 400}


def test_looked_up_times_cut_segments() -> None:
    assert offsets(planned(tiered(first_young_enough=130, first_too_young=270))) == [(130, 270)]
    assert offsets(planned(tiered(first_young_enough=400))) == []
    assert offsets(planned(tiered(first_young_enough=130), start_offset=140)) == [(140, 400)]
    assert offsets(planned(tiered(first_too_young=270), end_offset={T0: 250})) == [(0, 250)]


def test_offsets_without_a_known_segment_are_planned() -> None:
    holes = TieredPartition(T0, 0, 400, (SEGMENTS[0], SEGMENTS[3]))
    assert offsets(planned(holes)) == [(0, 400)]
    assert offsets(planned(holes, predicate=column("offset") == 150)) == [(150, 151)]
    assert planned(holes, predicate=column("offset") == 150).gets == 0
    assert offsets(planned(TieredPartition(T0, 0, 0))) == []


def test_impossible_timestamps_are_not_looked_up() -> None:
    assert offsets(planned(since=1_150, until=1_150)) == []
    assert time_bounds(Scan(topics="t", since=5, until=5, out_of_order=timedelta(0))) == TimeBounds()


def test_a_segment_without_a_known_time_is_read() -> None:
    unknown = TieredPartition(T0, 0, 100, (SegmentSpan(0, 100, 10_000),))
    assert offsets(planned(unknown, since=5_000)) == [(0, 100)]


@pytest.mark.parametrize(
    ("scan", "expected"),
    [
        ({}, TimeBounds()),
        ({"since": 5}, TimeBounds(5)),
        ({"until": 9}, TimeBounds()),
        ({"since": 5, "until": 9, "out_of_order": timedelta(0)}, TimeBounds(5, 9)),
        ({"until": 9, "out_of_order": timedelta(microseconds=1)}, TimeBounds(None, 10)),
        ({"predicate": column("timestamp") <= 9, "out_of_order": timedelta(milliseconds=2)}, TimeBounds(None, 12)),
        ({"predicate": column("timestamp") > 5, "since": 2}, TimeBounds(6)),
        ({"predicate": (column("timestamp") > 5) | (column("offset") == 1)}, TimeBounds()),
    ],
    ids=str,
)
def test_times_to_look_up_follow_from_the_filter(scan: dict[str, Any], expected: TimeBounds) -> None:
    assert time_bounds(Scan(topics="t", **scan)) == expected


def test_segments_of_a_range_are_found_by_bisection() -> None:
    assert segments_in(150, 300, SEGMENTS) == [(150, 200, SEGMENTS[1]), (200, 300, SEGMENTS[2])]
    assert segments_in(400, 500, SEGMENTS) == []


def test_live_records_are_planned_after_the_tier() -> None:
    known = with_live_rest(tiered(first_too_young=400), 50, 500)
    assert (known.start, known.end, known.tiered_end, known.first_too_young) == (50, 500, 400, None)
    plan = planned(known, live=True, split_bytes=20_000)
    assert offsets(plan) == [(50, 200), (200, 400), (400, 500)]
    assert plan.ends == {T0: 500}
    assert (plan.read_bytes, plan.broker_bytes) == (45_000, 10_000)
    assert str(plan).endswith("4 of 4 segments, about 10,000 bytes of them from the brokers")
    assert planned(live=True).broker_bytes == 0


def test_all_of_a_partition_without_segments_is_live() -> None:
    known = with_live_rest(TieredPartition(T0, 0, 0), 7, 57)
    plan = planned(known, live=True, since=10**9)
    assert offsets(plan) == [(7, 57)]
    assert plan.broker_bytes == plan.read_bytes > 0
    assert planned(with_live_rest(TieredPartition(T0, 0, 0), 7, 7), live=True).ends == {T0: 7}


def test_live_records_are_planned_for_any_time_bound() -> None:
    late = with_live_rest(tiered(first_young_enough=400), 0, 450)
    assert offsets(planned(late, live=True, since=10**9)) == [(400, 450)]
    early = with_live_rest(tiered(first_too_young=150), 0, 450)
    assert offsets(planned(early, live=True, until=1_100)) == [(0, 150)]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (tiered(first_young_enough=250), [(300, 400)]),
        (TieredPartition(T0, 0, 400, (SEGMENTS[0], SEGMENTS[3]), first_young_enough=310), [(100, 400)]),
        (with_live_rest(TieredPartition(T0, 200, 400, SEGMENTS[2:], first_young_enough=310), 0, 400), [(0, 200), (300, 400)]),
    ],
)
def test_offsets_without_a_segment_are_planned_for_any_time(known: TieredPartition, expected: list[tuple[int, int]]) -> None:
    plan = planned(known, live=True, since=1_250)
    assert offsets(plan) == expected
