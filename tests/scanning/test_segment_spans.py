from __future__ import annotations

from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.scanning.segment_spans import span_of
from kafka_remote_client.scanning.splits import SegmentSpan
from tests.support.locations import segment


def test_a_segment_that_ends_early_has_its_share_of_the_bytes() -> None:
    found = segment(start_offset=100, end_offset=199, segment_size_in_bytes=1000, max_timestamp_ms=5)
    assert span_of(TieredSegment(found, 100, 200)) == SegmentSpan(100, 200, 1000, 5)
    assert span_of(TieredSegment(found, 120, 150)) == SegmentSpan(120, 150, 300, 5)


def test_an_unknown_timestamp_is_none() -> None:
    found = segment(start_offset=0, end_offset=9, segment_size_in_bytes=10, max_timestamp_ms=-1)
    assert span_of(TieredSegment(found, 0, 10)).max_timestamp is None
