"""What to ask for, and whether an answer may be used. Pure (no I/O).

Sizes are bytes of the original segment. A *window* is what one location request asks for; the peer cuts it into ranges, each of
which is one GET.
"""

from __future__ import annotations

import math
from collections import deque

from kafka_remote_client.model import UNKNOWN_OFFSET, IsolationLevel, SegmentLocation

__all__ = [
    "MIN_RANGE_BYTES",
    "WINDOW_RANGES",
    "RangeSizer",
    "ReadAhead",
    "readable_end",
    "refresh_time",
    "refusal",
    "window_bytes",
]

MIN_RANGE_BYTES = 64 * 1024
WINDOW_RANGES = 8
_CHUNKED_WINDOW_RANGES = 32
_MOST_SHARES = 4
_FIRST_RANGE_BYTES = 4 * 1024 * 1024
_REMEMBERED = 16
_FADE = 0.9


class RangeSizer:
    """The size of a range that one store can deliver well within the read time-out.

    Starts at 4 MiB, doubles while full ranges take less than a quarter of the time-out, halves on a time-out.
    """

    def __init__(self, maximum: int, timeout_seconds: float) -> None:
        self._maximum = maximum
        self._timeout = timeout_seconds
        self.range_bytes = min(maximum, _FIRST_RANGE_BYTES)

    @property
    def maximum(self) -> int:
        return self._maximum

    def succeeded(self, size: int, seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds``."""
        if size * 2 > self.range_bytes and seconds * 4 < self._timeout:
            self.range_bytes = min(self._maximum, self.range_bytes * 2)

    def timed_out(self) -> None:
        """A range did not end in time."""
        self.range_bytes = max(MIN_RANGE_BYTES, self.range_bytes // 2)


class ReadAhead:
    """How many ranges fly at once: as many as are used up while one is on its way (latency times bandwidth).

    ::

        in flight = 1 + 2 * seconds from request to last byte / seconds that the records of such a range last

    Bandwidth is what is done with the records: decoding, or the application, whichever is slower. The time of a range is the
    shortest of the last ones: what ranges in flight take from each other is no latency. Twice, because no two ranges take the
    same time. Until something was measured, and where the store is the slower part, as many fly as are allowed.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._range_seconds: deque[float] = deque(maxlen=_REMEMBERED)
        self._decoding = _Pace()
        self._using = _Pace()

    @property
    def is_measured(self) -> bool:
        """Whether any range has landed."""
        return bool(self._range_seconds)

    def landed(self, seconds: float) -> None:
        """A range took so long from request to last byte."""
        self._range_seconds.append(seconds)

    def decoded(self, size: int, begun: float, ended: float) -> None:
        """So many bytes were decoded from ``begun`` to ``ended``."""
        self._decoding.add(size, begun, ended)

    def used(self, size: int, taken: float, given_back: float) -> None:
        """The owner had a block of so many bytes from ``taken`` to ``given_back``."""
        self._using.add(size, taken, given_back)

    def in_flight(self, range_bytes: int) -> int:
        """Ranges of that size to have in flight, at least 2 where so many are allowed."""
        lasts = range_bytes * max(self._decoding.seconds_per_byte, self._using.seconds_per_byte)
        if not self._range_seconds or self._using.seconds_per_byte == 0.0:
            return self._maximum
        return min(self._maximum, 1 + max(1, math.ceil(2 * min(self._range_seconds) / lasts)))


class _Pace:
    """Seconds per byte of all partitions together, the last ones counting most. Time that two spans share counts once."""

    def __init__(self) -> None:
        self._bytes = 0.0
        self._seconds = 0.0
        self._until = -math.inf

    def add(self, size: int, begun: float, ended: float) -> None:
        self._bytes = self._bytes * _FADE + size
        self._seconds = self._seconds * _FADE + max(0.0, ended - max(begun, self._until))
        self._until = max(ended, self._until)

    @property
    def seconds_per_byte(self) -> float:
        return self._seconds / self._bytes if self._bytes else 0.0


def window_bytes(
    range_bytes: int, maximum: int, *, in_flight: int, buffer_memory: int, readers: int, chunked: bool = False
) -> int:
    """The window that one of ``readers`` partitions asks for.

    A peer cuts a window in WINDOW_RANGES ranges, up to the size of range that it gives at most. So a window is how a client
    says how large its ranges are to be: ``range_bytes`` each, and all of them within a share of the memory. Only where full
    ranges (``maximum``) are wanted it may be longer: to cover what is in flight twice; and because a chunk that two windows
    touch is read twice, windows of chunked segments are so long that this costs little. A window holds no memory: ranges do.
    """
    share = buffer_memory // min(max(1, readers), _MOST_SHARES)
    window = min(range_bytes * WINDOW_RANGES, share)
    if window < maximum * WINDOW_RANGES:
        return max(MIN_RANGE_BYTES, window)
    return maximum * max(WINDOW_RANGES, 2 * in_flight, _CHUNKED_WINDOW_RANGES if chunked else 0)


def refresh_time(received_at: float, expires_at: float) -> float:
    """From when on ranges of a location get new URLs before they are asked for: half of the life that was left."""
    return received_at + (expires_at - received_at) / 2


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
