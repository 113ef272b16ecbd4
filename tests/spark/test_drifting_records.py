"""Plans of logs with changing record sizes and more segments than the driver requests, compared with the exact list."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import NotRemote, PartitionOffsets, TopicPartition
from kafka_remote_client.scanning.splits import OffsetRange, Split, plan_splits
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.planning.job_plan import Assumptions, JobPlan, estimate_job
from kafka_remote_client.spark.planning.micro_batch import batch_end_by_bytes
from kafka_remote_client.spark.planning.segment_probes import DEFAULT_BUDGET, with_segments
from tests.support.locations import ManualClock, location, segment
from tests.support.one_by_one import OneByOne

TP = TopicPartition("orders", 0)
COUNT = 4000
SEGMENT_BYTES = 1_000_000
RANGE_BYTES = 400_000
TOLD = Assumptions(cores=4, range_bytes=RANGE_BYTES)

DRIFTS: Mapping[str, Callable[[float], float]] = {
    "growing": lambda place: 100 * 100**place,
    "shrinking": lambda place: 10_000 / 100**place,
    "jumping": lambda place: 100 if place < 0.5 else 10_000,
    "swelling": lambda place: 100 * 100 ** (1 - abs(2 * place - 1)),
    "constant": lambda place: 1000,
}
"""The size of a record by its place in the log, from 0 to 1."""


@attrs.frozen
class DriftingLog(OneByOne):
    """COUNT segments of SEGMENT_BYTES each; all of them are tiered."""

    spans: Sequence[SegmentSpan]
    asked: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, drift: str) -> DriftingLog:
        spans, at = [], 0
        for number in range(COUNT):
            end = at + max(1, round(SEGMENT_BYTES / DRIFTS[drift](number / COUNT)))
            spans.append(SegmentSpan(at, end, SEGMENT_BYTES))
            at = end
        return cls(spans)

    @property
    def end(self) -> int:
        return self.spans[-1].end

    @property
    def exact(self) -> OffsetRange:
        return OffsetRange(TP, 0, self.end, self.spans, tiered_end=self.end, range_bytes=RANGE_BYTES)

    def answer(self, question: LocationQuestion, deadline: object) -> Any:
        offset = question.offset
        self.asked.append(offset)
        number = bisect_right(self.spans, offset, key=lambda span: span.start) - 1
        span = self.spans[number]
        if offset >= span.end:
            return NotRemote("local")
        found = segment(start_offset=span.start, end_offset=span.end - 1, segment_size_in_bytes=span.size_in_bytes)
        return location(metadata=found, fetch_offset=offset, next_offset=span.end)

    def offsets_of(self, partitions: Sequence[tuple[str, int]], deadline: object) -> Mapping[tuple[str, int], Any]:
        return dict.fromkeys(partitions, PartitionOffsets(latest_tiered=self.end - 1))

    def learnt(self, split_bytes: int) -> OffsetRange:
        source: Any = self
        (found,) = with_segments(
            source, [OffsetRange(TP, 0, self.end)], split_bytes=split_bytes, clock=ManualClock(), timeout=1
        )
        return attrs.evolve(found, range_bytes=RANGE_BYTES)


def planned(found: OffsetRange, splits: Sequence[Split]) -> JobPlan:
    return estimate_job([found], splits, assumptions=TOLD)


def bytes_in(log: DriftingLog, start: int, end: int) -> float:
    """Returns the bytes of the offsets in the log, by the exact list."""
    first = bisect_right(log.spans, start, key=lambda span: span.start) - 1
    total = 0.0
    for span in log.spans[first:]:
        if span.start >= end:
            break
        total += span.size_in_bytes * (min(end, span.end) - max(start, span.start)) / (span.end - span.start)
    return total


@pytest.mark.parametrize("drift", DRIFTS)
def test_figures_of_a_plan_are_close_to_those_of_the_exact_list(drift: str) -> None:
    log = DriftingLog.of(drift)
    found = log.learnt(split_bytes=1)
    assert len(log.asked) <= DEFAULT_BUDGET
    splits = plan_splits([found], split_bytes=10 * SEGMENT_BYTES)
    figures = planned(found, splits).figures
    exact = planned(log.exact, splits).figures
    assert figures.segments == pytest.approx(exact.segments, rel=0.1)
    assert figures.read_bytes == pytest.approx(exact.read_bytes, rel=0.1)
    assert figures.segment_bytes == pytest.approx(exact.segment_bytes, rel=0.1)
    assert figures.gets == pytest.approx(exact.gets, rel=0.15)
    assert figures.dollars == pytest.approx(exact.dollars, rel=0.15)


@pytest.mark.parametrize("drift", DRIFTS)
def test_splits_have_about_the_requested_bytes(drift: str) -> None:
    log = DriftingLog.of(drift)
    split_bytes = 20 * SEGMENT_BYTES
    splits = plan_splits([log.learnt(split_bytes)], split_bytes=split_bytes)
    assert COUNT / 20 <= len(splits) <= 1.5 * COUNT / 20
    sizes = sorted(bytes_in(log, split.start, split.end) for split in splits)
    assert split_bytes / 2 <= sizes[len(sizes) // 2] <= split_bytes
    assert sizes[-1] <= 2 * split_bytes


@pytest.mark.parametrize("drift", DRIFTS)
def test_a_batch_limited_in_bytes_is_close_to_its_limit(drift: str) -> None:
    log = DriftingLog.of(drift)
    limit = 400 * SEGMENT_BYTES
    end = batch_end_by_bytes([log.learnt(limit)], limit)[TP]
    assert bytes_in(log, 0, end) == pytest.approx(limit, rel=0.2)


def test_an_exact_list_is_not_estimated() -> None:
    log = DriftingLog(DriftingLog.of("growing").spans[:100])
    found = log.learnt(split_bytes=1)
    assert [(span.start, span.end) for span in found.segments] == [(span.start, span.end) for span in log.spans]
    assert planned(found, plan_splits([found])).segments_exact
