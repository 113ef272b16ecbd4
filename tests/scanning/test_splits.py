from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, Split, joined, plan_splits
from kafka_remote_client.segment_spans import SegmentSpan

TP = TopicPartition("t", 0)


def bounds(splits: list[Split]) -> list[tuple[int, int]]:
    return [(split.start, split.end) for split in splits]


def segments(*ends: int, size: int = 100, start: int = 0) -> list[SegmentSpan]:
    return [SegmentSpan(first, last, size) for first, last in pairwise((start, *ends))]


def test_small_segments_share_a_split_and_large_ones_have_their_own() -> None:
    spans = [SegmentSpan(0, 10, 40), SegmentSpan(10, 20, 60), SegmentSpan(20, 30, 500), SegmentSpan(30, 40, 10)]
    splits = plan_splits([OffsetRange(TP, 0, 40, spans)], split_bytes=100)
    assert bounds(splits) == [(0, 20), (20, 30), (30, 40)]
    assert [split.size_in_bytes for split in splits] == [100, 500, 10]


def test_a_range_that_cuts_segments_counts_its_share() -> None:
    splits = plan_splits([OffsetRange(TP, 5, 15, segments(10, 20))], split_bytes=1000)
    assert splits == [Split(TP, 5, 15, 100)]
    assert splits[0].offsets == 10


def test_the_local_tail_is_estimated_by_the_tier() -> None:
    splits = plan_splits([OffsetRange(TP, 0, 30, segments(10, 20))], split_bytes=100)
    assert splits == [Split(TP, 0, 10, 100), Split(TP, 10, 20, 100), Split(TP, 20, 30, 100)]


def test_gaps_between_segments_are_planned() -> None:
    spans = [SegmentSpan(0, 10, 100), SegmentSpan(20, 30, 100)]
    assert bounds(plan_splits([OffsetRange(TP, 0, 30, spans)], split_bytes=100)) == [(0, 10), (10, 20), (20, 30)]


def test_overlapping_segments_are_read_once() -> None:
    spans = [SegmentSpan(0, 15, 100), SegmentSpan(10, 20, 100), SegmentSpan(12, 14, 100)]
    assert bounds(plan_splits([OffsetRange(TP, 0, 20, spans)], split_bytes=1)) == [(0, 15), (15, 20)]


def test_a_partition_without_segments_is_one_split_sized_by_the_others() -> None:
    other = TopicPartition("t", 1)
    splits = plan_splits([OffsetRange(TP, 0, 10, segments(10)), OffsetRange(other, 0, 50)])
    assert splits[1] == Split(other, 0, 50, 500)
    assert plan_splits([OffsetRange(other, 0, 2)]) == [Split(other, 0, 2, 2048)]


def test_empty_ranges_give_no_split() -> None:
    assert plan_splits([OffsetRange(TP, 5, 5), OffsetRange(TP, 9, 3)], min_partitions=4) == []


def test_min_partitions_first_uses_the_bounds_of_segments() -> None:
    assert bounds(plan_splits([OffsetRange(TP, 0, 40, segments(10, 20, 30, 40))], min_partitions=2)) == [(0, 20), (20, 40)]


def test_min_partitions_cuts_the_largest_inside() -> None:
    spans = [SegmentSpan(0, 100, 900), SegmentSpan(100, 110, 100)]
    splits = plan_splits([OffsetRange(TP, 0, 110, spans)], split_bytes=100, min_partitions=4)
    assert bounds(splits) == [(0, 33), (33, 66), (66, 100), (100, 110)]
    assert sum(split.size_in_bytes for split in splits) == 1000


def test_min_partitions_never_exceeds_the_offsets() -> None:
    assert bounds(plan_splits([OffsetRange(TP, 0, 3)], min_partitions=10)) == [(0, 1), (1, 2), (2, 3)]


def test_max_records_bounds_every_split() -> None:
    splits = plan_splits([OffsetRange(TP, 0, 40, segments(10, 15, 40))], max_records=20)
    assert bounds(splits) == [(0, 15), (15, 27), (27, 40)]


def test_plans_a_hundred_thousand_segments_in_linear_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    made = Split.__init__

    def counted(self: Split, *values: object, **more: object) -> None:
        nonlocal steps
        steps += 1
        made(self, *values, **more)

    monkeypatch.setattr(Split, "__init__", counted)
    spans = segments(*range(1000, 100_001_000, 1000), size=1 << 20)
    splits = plan_splits([OffsetRange(TP, 0, 100_000_000, spans)], min_partitions=5000)
    assert len(spans) == 100_000
    assert len(splits) >= 5000
    assert steps <= 3 * len(spans)


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 30), st.integers(0, 10_000)), max_size=8)


def _spans(gaps: list[tuple[int, int, int]]) -> list[SegmentSpan]:
    spans, at = [], 0
    for gap, length, size in gaps:
        spans.append(SegmentSpan(at + gap, at + gap + length, size))
        at += gap + length
    return spans


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(-5, 300), SPANS), max_size=4),
    st.integers(1, 20_000),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 50),
)
def test_splits_tile_the_ranges_and_keep_to_their_bounds(
    wanted: list[tuple[int, int, list[tuple[int, int, int]]]],
    split_bytes: int,
    min_partitions: int | None,
    max_records: int | None,
) -> None:
    ranges = [
        OffsetRange(TopicPartition("t", number), start, start + length, _spans(gaps))
        for number, (start, length, gaps) in enumerate(wanted)
    ]
    splits = plan_splits(ranges, split_bytes=split_bytes, min_partitions=min_partitions, max_records=max_records)
    read = [(split.topic_partition, offset) for split in splits for offset in range(split.start, split.end)]
    assert read == [(found.topic_partition, offset) for found in ranges for offset in range(found.start, found.end)]
    assert all(split.offsets > 0 and split.size_in_bytes >= 0 for split in splits)
    assert max_records is None or all(split.offsets <= max_records for split in splits)
    assert min_partitions is None or len(splits) >= min(min_partitions, len(read))


@settings(deadline=None)
@given(SPANS, st.integers(1, 20_000))
def test_a_segment_is_cut_only_on_request(gaps: list[tuple[int, int, int]], split_bytes: int) -> None:
    spans = _spans(gaps)
    splits = plan_splits([OffsetRange(TP, 0, 500, spans)], split_bytes=split_bytes)
    bounds = {bound for split in splits for bound in (split.start, split.end)} - {500}
    assert not any(span.start < bound < min(span.end, 500) for span in spans for bound in bounds)


def test_offsets_without_a_known_segment_are_cut_by_size() -> None:
    """With very many segments there is no look-up for each one, and local records have no segment."""
    far_apart = [SegmentSpan(0, 10, 1000), SegmentSpan(500, 510, 1000)]
    splits = plan_splits([OffsetRange(TP, 0, 1000, far_apart)], split_bytes=10_000)
    assert [(split.start, split.end) for split in splits[:2]] == [(0, 10), (10, 108)]
    assert all(split.size_in_bytes <= 10_000 for split in splits)
    assert len(splits) == 12
    assert len(plan_splits([OffsetRange(TP, 0, 3)], split_bytes=1)) == 3


def test_adjacent_splits_of_exactly_max_records_are_joined() -> None:
    spans = segments(10, 20, 30)
    assert bounds(plan_splits([OffsetRange(TP, 0, 30, spans)], split_bytes=1000, max_records=20)) == [(0, 20), (20, 30)]


def test_neighbours_of_one_kind_are_joined() -> None:
    other = TopicPartition("t", 1)
    splits = [
        Split(TP, 0, 10, 100, gets=2),
        Split(TP, 10, 20, 50, gets=1),
        Split(TP, 20, 30, 40, gets=3),  # another kind
        Split(TP, 31, 40, 30, gets=3),  # after a gap
        Split(TP, 40, 50, 20),
        Split(other, 50, 60, 10, gets=1),
    ]
    found = list(joined(splits, lambda split: split.start == 20))
    assert [(one.topic_partition, one.start, one.end) for one in found] == [
        (TP, 0, 20),
        (TP, 20, 30),
        (TP, 31, 50),
        (other, 50, 60),
    ]
    assert [(one.size_in_bytes, one.gets) for one in found] == [(150, 3), (40, 3), (50, None), (10, 1)]
    assert list(joined([], bool)) == []
