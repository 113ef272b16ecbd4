from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import ByteRange, GrantedRange, IsolationLevel, NotRemote, PartitionOffsets, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, plan_splits
from kafka_remote_client.segment_spans import SegmentSpan, SegmentSpans
from kafka_remote_client.spark.planning.segment_probes import probe_offsets, with_segments
from tests.support.locations import ManualClock, location, segment
from tests.support.one_by_one import OneByOne

TP = TopicPartition("orders", 0)
OTHER = TopicPartition("orders", 1)
LENGTH, SIZE, COUNT = 100, 1000, 50


class FakeSource(OneByOne):
    """COUNT segments of LENGTH offsets and SIZE bytes; later offsets are local."""

    def __init__(self, *, offsets: object = None, failing: frozenset[int] = frozenset()) -> None:
        self._offsets = PartitionOffsets(latest_tiered=LENGTH * COUNT - 1) if offsets is None else offsets
        self._failing = failing
        self._lock = threading.Lock()
        self.asked: list[int] = []
        self.windows: list[int] = []
        self.max_timestamp = 1_700_000_000_000
        self.cuts: tuple[int, ...] = (0, SIZE)

    def answer(self, question: LocationQuestion, deadline: object) -> Any:
        offset = question.offset
        assert question.isolation_level is IsolationLevel.READ_UNCOMMITTED
        with self._lock:
            self.asked.append(offset)
            self.windows.append(question.max_bytes)
        number = offset // LENGTH
        if number in self._failing:
            raise LocationError("no answer")
        if number >= COUNT:
            return NotRemote("local")
        found = segment(
            start_offset=number * LENGTH,
            end_offset=number * LENGTH + LENGTH - 1,
            segment_size_in_bytes=SIZE,
            max_timestamp_ms=self.max_timestamp,
        )
        ranges = tuple(GrantedRange(ByteRange(*bounds)) for bounds in pairwise(self.cuts))
        return location(metadata=found, fetch_offset=offset, ranges=ranges, next_offset=found.end_offset + 1)

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], Any]:
        return dict.fromkeys(partitions, self._offsets)


class ListingSource(FakeSource):
    """The same with a list of segments of the partitions ``listed``."""

    def __init__(self, *listed: TopicPartition) -> None:
        super().__init__()
        self._listed = listed
        self.lists: list[Sequence[tuple[str, int]]] = []

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], Any]:
        self.lists.append(partitions)
        starts = range(0, COUNT * LENGTH, LENGTH)
        return dict.fromkeys(self._listed, SegmentSpans(SegmentSpan(start, start + LENGTH, SIZE, 0) for start in starts))


def learnt(source: FakeSource, *ranges: OffsetRange, split_bytes: int = SIZE, budget: int = 512) -> list[OffsetRange]:
    found: Any = source
    return with_segments(found, ranges, split_bytes=split_bytes, clock=ManualClock(), timeout=1.0, budget=budget)


def starts(found: OffsetRange) -> list[int]:
    return [span.start // LENGTH for span in found.segments]


def test_finds_every_segment_if_each_is_a_split() -> None:
    (found,) = learnt(FakeSource(), OffsetRange(TP, 0, 6000))
    assert starts(found) == list(range(COUNT))
    assert found.segments[0] == SegmentSpan(0, LENGTH, SIZE, 1_700_000_000_000)
    assert found.tiered_end == LENGTH * COUNT


def test_sends_about_one_request_per_split_for_small_segments() -> None:
    source = FakeSource()
    (found,) = learnt(source, OffsetRange(TP, 0, 6000), split_bytes=10 * SIZE)
    assert len(source.asked) <= 6
    splits = plan_splits([found], split_bytes=10 * SIZE)
    assert {split.start % LENGTH for split in splits} == {0}
    assert len(splits) in range(5, 9)


def test_a_budget_bounds_the_requests() -> None:
    source = FakeSource()
    learnt(source, OffsetRange(TP, 0, 6000), OffsetRange(TopicPartition("orders", 1), 0, 6000), budget=12)
    assert len(source.asked) <= 12


def test_nothing_is_requested_if_nothing_is_tiered() -> None:
    source = FakeSource()
    ranges = [OffsetRange(TP, 5000, 6000), OffsetRange(TP, 7, 7)]
    assert learnt(source, *ranges) == [attrs.evolve(found, tiered_end=5000) for found in ranges]
    assert source.asked == []
    assert learnt(source, OffsetRange(TP, 7, 7)) == [OffsetRange(TP, 7, 7)]


@pytest.mark.parametrize("offsets", [LocationError("no answer"), PartitionOffsets()])
def test_with_an_unknown_end_of_the_tier_all_is_requested(offsets: object) -> None:
    (found,) = learnt(FakeSource(offsets=offsets), OffsetRange(TP, 4900, 5200))
    assert starts(found) == [49]
    assert found.tiered_end is None


def test_partitions_without_an_answer_are_left_out() -> None:
    (found,) = learnt(FakeSource(failing=frozenset({3, 4})), OffsetRange(TP, 0, 6000))
    assert starts(found) == [0, 1, 2, *range(5, COUNT)]
    (found,) = learnt(FakeSource(failing=frozenset({0})), OffsetRange(TP, 0, 6000))
    assert found.segments == ()


def test_a_range_may_begin_inside_a_segment() -> None:
    (found,) = learnt(FakeSource(), OffsetRange(TP, 150, 420))
    assert starts(found) == [1, 2, 3, 4]


def test_the_first_location_shows_how_large_ranges_are() -> None:
    source = FakeSource()
    (found,) = learnt(source, OffsetRange(TP, 0, 6000))
    assert found.range_bytes is None
    source.cuts = (0, 400, 800, SIZE)
    (found,) = learnt(source, OffsetRange(TP, 0, 6000))
    assert found.range_bytes == 400
    assert max(source.windows) == 64 << 20


def test_a_location_may_lack_a_timestamp() -> None:
    source = FakeSource()
    source.max_timestamp = -1
    (found,) = learnt(source, OffsetRange(TP, 0, 6000))
    assert {span.max_timestamp for span in found.segments} == {None}


def test_offsets_of_requests_are_spread_over_the_range() -> None:
    first = SegmentSpan(0, 100, 1000)
    assert probe_offsets(first, 500, 1000, 99) == [100, 200, 300, 400]
    assert probe_offsets(first, 500, 2000, 99) == [100, 300]
    assert probe_offsets(first, 450, 1000, 99) == [100, 200, 300, 400]
    assert probe_offsets(first, 500, 1, 2) == [100, 300]
    assert probe_offsets(first, 102, 1, 99) == [100]
    assert probe_offsets(first, 100, 1, 99) == []
    assert probe_offsets(first, 500, 1, 0) == []
    assert probe_offsets(SegmentSpan(0, 10, 0), 20, 5, 99) == [10]
    assert probe_offsets(SegmentSpan(0, 10, 1000), 12, 1, 99) == [10]


def test_listed_segments_need_no_location_request() -> None:
    source = ListingSource(TP, OTHER)
    first, second = learnt(source, OffsetRange(TP, 0, 6000), OffsetRange(OTHER, 250, 420), split_bytes=10 * SIZE)
    assert (source.asked, source.lists) == ([], [[TP, OTHER]])
    assert starts(first) == list(range(COUNT))
    assert starts(second) == [2, 3, 4]
    assert first.tiered_end == LENGTH * COUNT
    assert [split.end for split in plan_splits([second], split_bytes=SIZE)] == [300, 400, 420]


def test_partitions_that_are_not_listed_are_asked() -> None:
    source = ListingSource(OTHER)
    first, second = learnt(source, OffsetRange(TP, 0, 6000), OffsetRange(OTHER, 0, 6000), budget=20)
    assert 2 < len(source.asked) <= 20
    assert len(first.segments) < COUNT == len(second.segments)
    assert (first.range_bytes, second.range_bytes) == (None, None)


def test_a_partition_without_a_listed_segment_is_not_asked() -> None:
    source = ListingSource(TP)
    (found,) = learnt(source, OffsetRange(TP, LENGTH * COUNT, 6000))
    assert (source.asked, found.segments) == ([], ())
