from __future__ import annotations

from collections.abc import Sequence

import attrs

from kafka_remote_client.scanning.splits import OffsetRange
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.planning.known_segments import KnownSegments
from tests.support.spark_cluster import A0, A1

SPANS = (SegmentSpan(0, 10, 1000), SegmentSpan(10, 20, 3000))


class Learner:
    """Knows two segments of each partition; counts the requests."""

    def __init__(self) -> None:
        self.asked: list[list[OffsetRange]] = []
        self.spans: tuple[SegmentSpan, ...] = SPANS

    def __call__(self, ranges: Sequence[OffsetRange]) -> Sequence[OffsetRange]:
        self.asked.append(list(ranges))
        return [attrs.evolve(found, segments=self.spans) for found in ranges]


def test_a_stream_requests_existing_segments_once() -> None:
    learn = Learner()
    known = KnownSegments(learn)
    for start in (0, 7, 29):
        (found,) = known.ranges({A0: start}, {A0: 30}, 1)
        assert found == OffsetRange(A0, start, 30, SPANS)
    assert learn.asked == [[OffsetRange(A0, 0, 30)]]


def test_partitions_with_nothing_to_read_are_left_out() -> None:
    learn = Learner()
    assert KnownSegments(learn).ranges({A0: 30}, {A0: 30, A1: 5}, 1) == []
    assert learn.asked == []


def test_later_offsets_are_requested_if_they_may_exceed_the_limit() -> None:
    learn = Learner()
    known = KnownSegments(learn)
    known.ranges({A0: 0}, {A0: 30}, 1)
    known.ranges({A0: 30}, {A0: 40}, 3000)
    assert len(learn.asked) == 1
    known.ranges({A0: 30}, {A0: 41}, 3000)
    assert learn.asked[1:] == [[OffsetRange(A0, 30, 41)]]


def test_a_new_partition_and_one_that_went_back_are_requested() -> None:
    learn = Learner()
    known = KnownSegments(learn)
    known.ranges({A0: 10}, {A0: 30}, 1)
    known.ranges({A0: 10, A1: 0}, {A0: 30, A1: 5}, 10**9)
    known.ranges({A0: 9}, {A0: 30}, 1)
    assert [[found.topic_partition for found in asked] for asked in learn.asked] == [[A0], [A1], [A0]]


def test_the_last_known_segments_give_the_record_size() -> None:
    learn = Learner()
    known = KnownSegments(learn)
    known.ranges({A0: 0}, {A0: 30}, 1)
    learn.spans = ()
    (found,) = known.ranges({A0: 30}, {A0: 60}, 1)
    assert found.segments == SPANS
