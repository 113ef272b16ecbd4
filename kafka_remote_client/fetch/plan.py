"""What to ask for, and whether an answer may be used. Pure (no I/O).

Sizes are bytes of the original segment. A *window* is what one location request asks for; the peer cuts it into ranges, each of
which is one GET.
"""

from __future__ import annotations

from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, SegmentLocation

__all__ = ["MIN_RANGE_BYTES", "WINDOW_RANGES", "RangeSizer", "readable_end", "refusal", "window_bytes"]

MIN_RANGE_BYTES = 64 * 1024
WINDOW_RANGES = 8
_FIRST_RANGE_BYTES = 4 * 1024 * 1024


class RangeSizer:
    """The size of a range that one store can deliver well within the read time-out.

    Starts at 4 MiB, doubles while full ranges take less than a quarter of the time-out, halves on a time-out.
    """

    def __init__(self, maximum: int, timeout_seconds: float) -> None:
        self._maximum = maximum
        self._timeout = timeout_seconds
        self.range_bytes = min(maximum, _FIRST_RANGE_BYTES)

    def succeeded(self, size: int, seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds``."""
        if size * 2 > self.range_bytes and seconds * 4 < self._timeout:
            self.range_bytes = min(self._maximum, self.range_bytes * 2)

    def timed_out(self) -> None:
        """A range did not end in time."""
        self.range_bytes = max(MIN_RANGE_BYTES, self.range_bytes // 2)


def window_bytes(range_bytes: int, buffer_memory: int, readers: int) -> int:
    """The window that one of ``readers`` partitions asks for: WINDOW_RANGES ranges, within its share of the memory."""
    share = buffer_memory // max(1, readers)
    return max(MIN_RANGE_BYTES, min(range_bytes * WINDOW_RANGES, share))


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
    """Why this grant must not be used for a read from ``offset``, as a short reason; ``None`` when it may."""
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
