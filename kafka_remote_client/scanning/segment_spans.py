"""The segments of a tier as a plan knows them. Pure."""

from __future__ import annotations

from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.scanning.splits import SegmentSpan

__all__ = ["span_of"]


def span_of(segment: TieredSegment) -> SegmentSpan:
    """The offsets of a segment that belong to the log, with bytes in proportion."""
    metadata = segment.metadata
    whole = metadata.end_offset + 1 - metadata.start_offset
    size = metadata.segment_size_in_bytes * (segment.end - segment.start) // whole
    youngest = metadata.max_timestamp_ms if metadata.max_timestamp_ms >= 0 else None
    return SegmentSpan(segment.start, segment.end, size, youngest)
