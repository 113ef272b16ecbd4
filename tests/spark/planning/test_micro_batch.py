from __future__ import annotations

import logging
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.offsets.data_loss import DataLoss, DataLossError
from kafka_remote_client.spark.planning.micro_batch import (
    available,
    batch_end,
    batch_end_by_bytes,
    delay_seconds,
    stream_ranges,
)

A, B, C = (TopicPartition("t", number) for number in range(3))


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("2 min", 120), ("500", 0.5), ("500ms", 0.5), (" 1H ", 3600), ("0s", 0)]
)
def test_times_are_read_as_spark_writes_them(text: str, seconds: float) -> None:
    assert delay_seconds("maxTriggerDelay", text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "-1s", "1.5s", "1 year"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="maxTriggerDelay must be a time such as 15m"):
        delay_seconds("maxTriggerDelay", text)


def test_the_available_offsets_are_those_after_the_start() -> None:
    assert available({A: 5, B: 10}, {A: 8, B: 7, C: 99}) == 3


def test_without_a_limit_a_batch_ends_where_the_log_does() -> None:
    assert batch_end({A: 0}, {A: 10}, None) == {A: 10}
    assert batch_end({A: 0}, {A: 10}, 10) == {A: 10}


def test_each_partition_gets_its_share_and_none_is_starved() -> None:
    assert batch_end({A: 0, B: 100, C: 0}, {A: 900, B: 200, C: 1}, 100) == {A: 89, B: 109, C: 1}


def test_a_partition_without_new_offsets_keeps_its_place() -> None:
    assert batch_end({A: 0, B: 7, C: 9}, {A: 100, B: 7, C: 5}, 10) == {A: 10, B: 7, C: 5}


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([A, B, C]), st.tuples(st.integers(0, 1000), st.integers(0, 1000))), st.integers(1, 100))
def test_batches_reach_the_end_within_their_limit(sizes: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    start = {partition: begin for partition, (begin, _) in sizes.items()}
    end = {partition: begin + size for partition, (begin, size) in sizes.items()}
    steps = 0
    while start != end:
        following = batch_end(start, end, limit)
        assert all(start[partition] <= following[partition] <= end[partition] for partition in end)
        assert 0 < available(start, following) <= limit + len(sizes)
        start = following
        steps += 1
        assert steps <= 3000


def test_a_batch_has_the_ranges_of_its_partitions() -> None:
    found = stream_ranges({A: 5, B: 10}, {A: 8, B: 10, C: 4}, {C: 0}, DataLoss())
    assert found == [OffsetRange(A, 5, 8), OffsetRange(C, 0, 4)]


@pytest.mark.parametrize(
    ("start", "end", "log_starts", "complaint", "left"),
    [
        ({A: 5, B: 1}, {A: 8}, {}, "partitions are gone (deleted, or no longer subscribed): t-1", [OffsetRange(A, 5, 8)]),
        ({}, {A: 8}, {A: 3}, "t-0 is new and begins at offset 3, not at 0", [OffsetRange(A, 3, 8)]),
        ({A: 9}, {A: 8}, {}, "t-0: the log end moved back from 9 to 8", []),
    ],
)
def test_lost_offsets_fail_or_are_logged(
    caplog: pytest.LogCaptureFixture,
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    log_starts: dict[TopicPartition, int],
    complaint: str,
    left: list[OffsetRange],
) -> None:
    with pytest.raises(DataLossError, match=re.escape(complaint)):
        stream_ranges(start, end, log_starts, DataLoss())
    with caplog.at_level(logging.WARNING):
        assert stream_ranges(start, end, log_starts, DataLoss(fail=False)) == left
    assert complaint in caplog.text


def test_a_limit_in_bytes_is_shared_in_proportion_to_bytes() -> None:
    ranges = [
        OffsetRange(A, 0, 30, (SegmentSpan(0, 10, 1000), SegmentSpan(10, 20, 3000), SegmentSpan(20, 30, 1000))),
        OffsetRange(B, 5, 15, (SegmentSpan(0, 20, 10_000),)),
        OffsetRange(B, 9, 9),
    ]
    assert batch_end_by_bytes(ranges, 10_000) == {A: 30, B: 15}
    assert batch_end_by_bytes(ranges, 5000) == {A: 15, B: 10}
    assert batch_end_by_bytes(ranges, 8000) == {A: 20, B: 13}
    assert batch_end_by_bytes(ranges, 1) == {A: 1, B: 6}
    assert batch_end_by_bytes([], 1) == {}


def test_unknown_sizes_are_estimated() -> None:
    assert batch_end_by_bytes([OffsetRange(A, 0, 10)], 5 * 1024) == {A: 5}
    assert batch_end_by_bytes([OffsetRange(A, 0, 40, (SegmentSpan(0, 10, 100),))], 300) == {A: 30}
    assert batch_end_by_bytes([OffsetRange(A, 0, 40, (SegmentSpan(0, 10, 0),))], 1) == {A: 40}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 999)), max_size=9),
    st.integers(0, 40),
    st.integers(1, 40),
    st.integers(1, 3000),
)
def test_a_limit_in_bytes_always_advances_to_the_end(cells: list[tuple[int, int]], start: int, length: int, limit: int) -> None:
    spans, at = [], 0
    for offsets, size in cells:
        spans.append(SegmentSpan(at, at + offsets, size))
        at += offsets
    end, steps = start + length, 0
    while start < end:
        (reached,) = batch_end_by_bytes([OffsetRange(A, start, end, tuple(spans))], limit).values()
        assert start < reached <= end
        start, steps = reached, steps + 1
    assert steps <= length


def test_a_partition_without_a_start_counts_as_read_under_a_limit() -> None:
    assert batch_end({A: 0}, {A: 100, B: 50}, 10) == {A: 10, B: 50}
