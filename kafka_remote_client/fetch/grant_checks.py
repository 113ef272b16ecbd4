"""Whether a grant may be used, up to which offset, and when its URLs are renewed. Pure (no I/O).

References: docs/design.md, "Checks before delivery".
"""

from __future__ import annotations

import attrs

from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, SegmentLocation

__all__ = ["readable_end", "refresh_time", "refusal", "within"]


def refresh_time(received_at: float, expires_at: float) -> float:
    """Returns the time from which ranges of a location get new URLs before a request: half of the remaining life."""
    return received_at + (expires_at - received_at) / 2


def within(location: SegmentLocation, end_offset: int | None) -> SegmentLocation:
    """Returns the location without the ranges that have no record below ``end_offset``, if they have start offsets.

    The first range stays. The rest is read and counted as if no more had been granted. So a peer with wrong start offsets
    is detected: the read does not reach the location's end.
    """
    if end_offset is None:
        return location
    for number, granted in enumerate(location.ranges[1:], 1):
        if granted.first_offset is not None and granted.first_offset >= end_offset:
            return attrs.evolve(location, ranges=location.ranges[:number], next_offset=granted.first_offset)
    return location


def readable_end(location: SegmentLocation, isolation_level: IsolationLevel, end_offset: int | None) -> int:
    """The first offset that may not be delivered from this grant.

    The aborted list covers nothing from ``next_offset`` on, and nothing at or past the last stable offset (read_committed) or
    the high watermark is decided.
    """
    end = location.next_offset
    bound = location.last_stable_offset if isolation_level is IsolationLevel.READ_COMMITTED else location.high_watermark
    if bound != UNKNOWN_OFFSET:
        end = min(end, bound)
    return end if end_offset is None else min(end, end_offset)


def refusal(
    location: SegmentLocation, offset: int, isolation_level: IsolationLevel, formats: tuple[str, ...], now: float
) -> str | None:
    """Returns why this grant must not be used for a read from ``offset``, as a short reason; ``None`` if it may."""
    if location.format not in formats:
        return "unsupported-format"
    if location.fetch_offset != offset:
        return "other-offset"
    if not _covers(location, offset):
        return "bad-location"
    if isolation_level is IsolationLevel.READ_COMMITTED and location.aborted_transactions is None:
        return "aborted-transactions-unknown"
    if location.expires_at <= now:
        return "expired"
    return None


def _covers(location: SegmentLocation, offset: int) -> bool:
    """The segment holds the offset, the log has not moved past it, and the ranges tile a part of the segment."""
    segment = location.metadata
    if not segment.start_offset <= offset <= segment.end_offset or location.log_start_offset > offset:
        return False
    if not offset < location.next_offset <= segment.end_offset + 1 or not location.ranges:
        return False
    at = location.ranges[0].range.start
    for granted in location.ranges:
        if granted.range.start != at:
            return False
        at = granted.range.end
    return at <= segment.segment_size_in_bytes
