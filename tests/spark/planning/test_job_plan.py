from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, plan_splits
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.planning.asked_requests import AskedRequests
from kafka_remote_client.spark.planning.job_figures import JobFigures, Prices
from kafka_remote_client.spark.planning.job_plan import Assumptions, JobPlan, estimate_job

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOLD = Assumptions(cores=2, latency_ms=1000, bytes_per_second=100, in_flight=2, range_bytes=400)


def spans(first: int, last: int, *, length: int = 100, size: int = 1000) -> tuple[SegmentSpan, ...]:
    return tuple(SegmentSpan(n * length, (n + 1) * length, size) for n in range(first, last))


def planned(*ranges: OffsetRange, told: Assumptions = TOLD, prices: Prices | None = None, split_bytes: int = 1000) -> JobPlan:
    splits = plan_splits(ranges, split_bytes=split_bytes)
    return estimate_job(ranges, splits, assumptions=told, prices=prices)


def test_default_assumptions_are_one_core_and_kafkas_segments() -> None:
    assert attrs.asdict(Assumptions()) == {
        "cores": 1,
        "latency_ms": 20.0,
        "bytes_per_second": 100_000_000,
        "in_flight": 64,
        "range_bytes": 8 << 20,
        "segment_bytes": 1 << 30,
    }


def test_known_segments_are_counted() -> None:
    found = planned(OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500))
    assert found.segments_exact
    assert found.figures == JobFigures(
        splits=5,
        segments=5,
        segment_bytes=5000,
        gets=15,
        read_bytes=5000,
        records=500,
        dollars=15 / 1000 * 0.0004,
        seconds=33.0,
    )
    assert found.local_bytes == 0
    (partition,) = found.partitions
    assert (partition.topic, partition.start, partition.end, partition.tiered_end) == ("t", 0, 500, 500)
    assert (partition.segments, partition.splits, partition.read_bytes) == (5, 5, 5000)


def test_a_range_reads_its_part_of_the_segments_at_its_ends() -> None:
    found = planned(OffsetRange(T0, 50, 110, spans(0, 5), tiered_end=500))
    assert (found.figures.segments, found.figures.segment_bytes) == (2, 2000)
    assert (found.figures.read_bytes, found.figures.gets) == (600, 3)


def test_ranges_have_the_size_of_the_granted_ones() -> None:
    whole = OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500)
    assert planned(whole).figures.gets == 15
    assert planned(attrs.evolve(whole, range_bytes=100)).figures.gets == 50


def test_a_segment_in_many_splits_is_one_segment() -> None:
    ranges = [OffsetRange(T0, 0, 100, spans(0, 1), tiered_end=100)]
    found = estimate_job(ranges, plan_splits(ranges, min_partitions=4), assumptions=TOLD)
    assert (found.figures.splits, found.figures.segments, found.figures.gets, found.figures.read_bytes) == (4, 1, 4, 1000)


def asked_plan(*asked: AskedRequests, tiered_end: int = 500) -> JobPlan:
    """Returns a plan of five splits, each a segment of 1,000 bytes and an estimated three GETs."""
    ranges = [OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=tiered_end)]
    return estimate_job(ranges, plan_splits(ranges, split_bytes=1000), asked=asked, assumptions=TOLD)


def test_requested_splits_are_planned_as_answered() -> None:
    found = asked_plan(*(AskedRequests(100 * n + 100, n, 1000 + n) for n in range(5)))
    assert found.requests_exact
    assert (found.figures.gets, found.figures.read_bytes) == (10, 5010)
    assert found.partitions[0].read_bytes == 5010
    assert "gets                10" in str(found)


def test_other_splits_are_scaled_by_the_requested_ones() -> None:
    """Two splits were requested: they take twice the GETs, and a tenth more bytes."""
    nothing = [AskedRequests(100 * n) for n in (1, 2, 4)]
    known = [AskedRequests(100, 6, 1100), *nothing[:2], AskedRequests(400, 6, 1100), nothing[2]]
    found = asked_plan(*known)
    assert not found.requests_exact
    assert found.segments_exact
    assert (found.figures.gets, found.figures.read_bytes) == (30, 5500)


def test_a_partly_requested_split_is_scaled() -> None:
    found = asked_plan(AskedRequests(50, 3, 500), *(AskedRequests(100 * n, 0, 0) for n in range(1, 5)))
    assert (found.figures.gets, found.figures.splits) == (3 + 3 + 18, 5)
    assert found.figures.read_bytes == 5000


def test_answers_without_a_grant_cost_nothing() -> None:
    found = asked_plan(*(AskedRequests(100 * n + 100) for n in range(5)))
    assert found.requests_exact
    assert (found.figures.gets, found.figures.read_bytes) == (0, 0)


def test_local_offsets_need_no_request() -> None:
    found = asked_plan(*(AskedRequests(100 * n + 100, 1, 1000) for n in range(4)), AskedRequests(400), tiered_end=400)
    assert found.requests_exact
    assert (found.figures.gets, found.local_bytes) == (4, 1000)


def test_segments_that_filters_leave_out_are_not_counted() -> None:
    ranges = [OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500)]
    kept = [split for split in plan_splits(ranges, split_bytes=1000) if split.start in {100, 400}]
    found = estimate_job(ranges, kept, assumptions=TOLD)
    assert (found.figures.segments, found.figures.segment_bytes, found.figures.gets) == (2, 2000, 6)
    assert (found.figures.read_bytes, found.local_bytes, found.figures.splits) == (2000, 0, 2)


def test_between_known_segments_the_average_one_is_assumed() -> None:
    found = planned(OffsetRange(T0, 0, 1000, (*spans(0, 2), *spans(8, 9)), tiered_end=1000))
    assert not found.segments_exact
    assert (found.figures.segments, found.figures.segment_bytes, found.figures.read_bytes) == (10, 10_000, 10_000)
    assert found.figures.gets == 30


def test_a_partition_without_known_segments_uses_those_of_others() -> None:
    found = planned(OffsetRange(T0, 0, 300, spans(0, 3), tiered_end=300), OffsetRange(T1, 0, 1000, tiered_end=1000))
    assert not found.segments_exact
    assert [partition.segments for partition in found.partitions] == [3, 10]
    assert [partition.read_bytes for partition in found.partitions] == [3000, 10_000]


def test_without_known_segments_kafkas_defaults_are_assumed() -> None:
    told = Assumptions(segment_bytes=1024 * 1000, range_bytes=1024 * 500)
    found = planned(OffsetRange(T0, 0, 3000, tiered_end=3000), told=told, split_bytes=1 << 30)
    assert (found.figures.segments, found.figures.read_bytes, found.figures.gets) == (3, 3 * 1024 * 1000, 6)


def test_local_offsets_cost_no_get() -> None:
    found = planned(OffsetRange(T0, 300, 500, (), tiered_end=300), OffsetRange(T1, 0, 200, spans(0, 1), tiered_end=100))
    assert found.segments_exact
    assert (found.figures.segments, found.figures.gets) == (1, 3)
    assert found.local_bytes == 3000
    assert [partition.tiered_end for partition in found.partitions] == [300, 100]


def test_a_tier_of_unknown_end_ends_with_the_last_known_segment() -> None:
    found = planned(OffsetRange(T0, 0, 500, spans(0, 2)), OffsetRange(T1, 0, 100))
    assert (found.figures.segments, found.figures.read_bytes, found.local_bytes) == (2, 2000, 4000)


def test_an_empty_range_costs_nothing() -> None:
    found = planned(OffsetRange(T0, 5, 5), OffsetRange(T1, 7, 7, spans(0, 3), tiered_end=300))
    assert found.figures == JobFigures(0, 0, 0, 0, 0, 0, 0.0, 0.0)
    assert [partition.splits for partition in found.partitions] == [0, 0]


def test_the_slower_of_bytes_and_gets_determines_the_time() -> None:
    one = OffsetRange(T0, 0, 100, spans(0, 1), tiered_end=100)
    assert planned(one).figures.seconds == 11.0
    assert planned(one, told=attrs.evolve(TOLD, bytes_per_second=1e9)).figures.seconds == 3.0
    assert planned(one, told=attrs.evolve(TOLD, bytes_per_second=1e9, in_flight=3)).figures.seconds == 2.0


def test_a_task_goes_to_the_core_that_is_free_first() -> None:
    long, short = SegmentSpan(0, 100, 10_000), SegmentSpan(100, 200, 900)
    ranges = OffsetRange(T0, 0, 200, (long, short), tiered_end=200), OffsetRange(T1, 0, 100, (short,), tiered_end=100)
    assert planned(*ranges).figures.seconds == 101.0
    assert planned(*ranges, told=attrs.evolve(TOLD, cores=1)).figures.seconds == 121.0


def test_prices_are_the_given_ones() -> None:
    found = planned(OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500), prices=Prices(per_1000_gets=1.0, per_gb=1e6))
    assert found.figures.dollars == pytest.approx(0.015 + 5.0)
    assert found.counted({"remote-fetch-request-total": 1000, "remote-fetch-bytes-total": 0}).dollars == 1.0


def test_a_plan_is_shown_with_its_assumptions() -> None:
    found = planned(OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500))
    text = str(found)
    assert "gets               ~15" in text
    assert "seconds          ~33.0" in text
    assert "Partitions: 1. About 0 bytes come through the broker." in text
    assert "2 cores of 0.0001 MB/s each, 1000 ms a GET, 2 at once" in text
    assert "$0.0004 for 1,000 GETs, $0 for a GB" in text
    assert "segments            ~3" in str(planned(OffsetRange(T0, 0, 300, spans(0, 1), tiered_end=300)))


def test_a_plan_is_compared_with_the_counters() -> None:
    found = planned(OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500))
    counted = found.counted({"remote-fetch-request-total": 16, "remote-fetch-bytes-total": 5100}, splits=5, seconds=30.0)
    lines = found.compared_with(counted).splitlines()
    assert lines[0].split() == ["planned", "counted"]
    assert lines[4].split() == ["gets", "~15", "16"]
    assert lines[8].split() == ["seconds", "~33.0", "30.0"]


def test_a_plan_is_json() -> None:
    found = json.loads(json.dumps(planned(OffsetRange(T0, 0, 500, spans(0, 5), tiered_end=500)).as_dict()))
    assert found["figures"]["gets"] == 15
    assert found["segments_exact"] is True
    assert found["partitions"][0]["topic"] == "t"
    assert found["assumptions"]["cores"] == 2
    assert found["prices"] == {"per_1000_gets": 0.0004, "per_gb": 0.0}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 5000), st.booleans()), max_size=12),
    st.integers(0, 400),
    st.integers(0, 400),
    st.one_of(st.none(), st.integers(0, 600)),
    st.integers(1, 6000),
    st.one_of(st.none(), st.integers(1, 9)),
)
@example(cells=[(15, 0, True)], start=15, length=308, tiered_end=323, split_bytes=1, min_partitions=2)
def test_all_read_bytes_are_counted_once(
    cells: list[tuple[int, int, bool]],
    start: int,
    length: int,
    tiered_end: int | None,
    split_bytes: int,
    min_partitions: int | None,
) -> None:
    known, at = [], 0
    for offsets, size, seen in cells:
        if seen:
            known.append(SegmentSpan(at, at + offsets, size))
        at += offsets
    ranges = [OffsetRange(T0, start, start + length, tuple(known), tiered_end)]
    splits = plan_splits(ranges, split_bytes=split_bytes, min_partitions=min_partitions)
    found = estimate_job(ranges, splits, assumptions=TOLD)
    figures = found.figures
    assert figures.records == length
    assert figures.splits == len(splits)
    assert figures.segments is not None
    assert figures.segment_bytes is not None
    assert figures.segments <= figures.gets
    # Each split rounds its part of a segment.
    assert figures.read_bytes <= figures.segment_bytes + len(splits)
    assert found.local_bytes >= 0
    assert (figures.gets == 0) == (figures.segments == 0)


@pytest.mark.parametrize(("tiered_end", "planned_end"), [(40, 50), (80, 80), (500, 110)])
def test_the_end_of_the_tier_is_within_the_range(tiered_end: int, planned_end: int) -> None:
    found = planned(OffsetRange(T0, 50, 110, spans(0, 5), tiered_end=tiered_end))
    assert [partition.tiered_end for partition in found.partitions] == [planned_end]
