from __future__ import annotations

import pytest

from kafka_remote_client.protocol.segment_list import SegmentEntry
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.segment_spans import SegmentSpan, SegmentSpans
from tests.support.locations import segment


def test_a_segment_that_ends_early_has_its_share_of_the_bytes() -> None:
    found = segment(start_offset=100, end_offset=199, segment_size_in_bytes=1000, max_timestamp_ms=5)
    assert TieredSegment(found, 100, 200).span == SegmentSpan(100, 200, 1000, 5)
    assert TieredSegment(found, 120, 150).span == SegmentSpan(120, 150, 300, 5)


def test_an_unknown_timestamp_is_none() -> None:
    found = segment(start_offset=0, end_offset=9, segment_size_in_bytes=10, max_timestamp_ms=-1)
    assert TieredSegment(found, 0, 10).span.max_timestamp is None


SPANS = [SegmentSpan(0, 10, 100, 5), SegmentSpan(10, 30, 200), SegmentSpan(40, 50, 300, 0)]


def test_packed_spans_are_a_sequence_of_the_same_spans() -> None:
    packed = SegmentSpans(SPANS)
    assert (len(packed), list(packed), packed[1], packed[-1]) == (3, SPANS, SPANS[1], SPANS[2])
    assert list(packed[1:]) == SPANS[1:]
    assert packed == SegmentSpans(SPANS) != SegmentSpans(SPANS[:2])
    assert packed != SPANS
    assert not SegmentSpans()
    assert repr(SegmentSpans(SPANS[:1])) == f"SegmentSpans([{SPANS[0]!r}])"


def test_a_span_takes_32_bytes() -> None:
    packed = SegmentSpans(SegmentSpan(n, n + 1, 1) for n in range(1000))
    assert packed.nbytes == 32_000


@pytest.mark.parametrize(
    ("start", "end", "kept"),
    [(0, 50, [0, 1, 2]), (9, 41, [0, 1, 2]), (10, 40, [1]), (0, 40, [0, 1]), (10, 60, [1, 2]), (50, 60, []), (30, 40, [])],
)
def test_spans_within_a_range_are_those_with_offsets_in_it(start: int, end: int, kept: list[int]) -> None:
    assert list(SegmentSpans(SPANS).within(start, end)) == [SPANS[place] for place in kept]


def test_listed_entries_become_the_spans_of_their_segments() -> None:
    found = segment(start_offset=100, end_offset=199, segment_size_in_bytes=1001, max_timestamp_ms=-1)
    packed = SegmentSpans()
    packed.add([SegmentEntry(bytes(16), 100, 199, 120, 151, 3, -1, 1001)])
    assert packed == SegmentSpans([TieredSegment(found, 120, 151).span])
    assert packed[0] == SegmentSpan(120, 151, 310)
