"""How large windows and ranges are, and how many ranges are in flight. Pure (no I/O).

Sizes are bytes of the original segment. A *window* is the bytes of one location request; the peer cuts it into ranges, each of
which is one GET.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

__all__ = [
    "MIN_RANGE_BYTES",
    "WINDOW_RANGES",
    "RangeSizer",
    "ReadAhead",
    "first_window",
    "window_bytes",
]

MIN_RANGE_BYTES = 64 * 1024
_FIRST_WINDOW_RANGE_BYTES = 2 * MIN_RANGE_BYTES
_FIRST_WINDOW_RANGES = 2
WINDOW_RANGES = 8
_CHUNKED_WINDOW_RANGES = 32
_FIRST_RANGE_BYTES = 4 * 1024 * 1024
_REMEMBERED = 16
_HARDLY_LONGER = 1.5
_USUAL_SECONDS_PER_BYTE = 2e-9
_PACE_BYTES = 32 * 1024 * 1024


class RangeSizer:
    """The size of a range. A store delivers it well within the read time-out, and the memory has room for enough ranges.

    Large ranges cost fewer GETs. But if the bandwidth of a connection takes most of their time, and the application uses
    records quickly, more bytes must be in flight than the memory holds. A range of half the size takes half the time then, and
    half the memory. So ranges are the largest that a GET is expected to bring in time, and at least ``least`` bytes: the
    permitted number of such ranges fills the memory. Without a measurement they have that size, at most 4 MiB.

    What is expected is wrong where GETs time out. Then a range is half as large, and twice as large again after each full range
    that takes less than a quarter of the time-out.
    """

    def __init__(self, maximum: int, timeout_seconds: float, least: int = MIN_RANGE_BYTES) -> None:
        self._maximum = self._deliverable = maximum
        self._least = min(maximum, max(MIN_RANGE_BYTES, least))
        self._in_time = timeout_seconds / 4
        self._balanced = min(self._least, _FIRST_RANGE_BYTES)

    @property
    def maximum(self) -> int:
        return self._maximum

    @property
    def range_bytes(self) -> int:
        return min(self._deliverable, self._balanced)

    def succeeded(self, size: int, seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds``."""
        if size * 2 > self._deliverable and seconds < self._in_time:
            self._deliverable = min(self._maximum, self._deliverable * 2)

    def timed_out(self) -> None:
        """A range did not end in time."""
        self._deliverable = max(MIN_RANGE_BYTES, self.range_bytes // 2)

    def delivered(self, window: tuple[int, int]) -> tuple[int, int]:
        """A fixed window and its range size. After a time-out ranges are at most as large as the store can deliver in time."""
        whole, size = window
        if self._deliverable == self._maximum or size <= self._deliverable:
            return window
        return whole * self._deliverable // size, self._deliverable

    def balance(self, seconds: Callable[[int], float], longest: float) -> None:
        """A GET of a size is expected to take ``seconds(size)``, and may take ``longest`` if the memory is to have room."""
        size, longest = self._maximum, min(longest, self._in_time)
        while size > self._least and seconds(size) > longest:
            size = max(self._least, size // 2)
        self._balanced = size


class ReadAhead:
    """The expected time of a GET, and the number of GETs in flight: as many as the application uses ranges during one.

    ::

        seconds of a GET = seconds to the first byte + bytes * seconds per byte
        in flight        = 1 + 2 * seconds of a GET / seconds that the records of such a range last

    Both parts of the time are the shortest of the last GETs, because time that GETs take from each other is not the store's.
    How long records last follows from the rate of decoding or of the application, whichever is slower. Both are expected to be
    500 MB/s at first, because the first records tell little. Twice, because ranges take different times. Without a measurement
    of the store, as many are in flight as allowed.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._first_bytes: deque[float] = deque(maxlen=_REMEMBERED)
        self._transfers: deque[float] = deque(maxlen=_REMEMBERED)
        self._first_byte = self._transfer = math.inf
        self._decoding = _Pace()
        self._using = _Pace()

    def landed(self, size: int, seconds: float, transfer_seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds``, of these ``transfer_seconds`` from its first byte to the last."""
        self._first_bytes.append(seconds - transfer_seconds)
        self._transfers.append(transfer_seconds / size)
        self._first_byte, self._transfer = min(self._first_bytes), min(self._transfers)

    def decoded(self, size: int, begun: float, ended: float) -> None:
        """Decoding of ``size`` bytes ran from ``begun`` to ``ended``."""
        self._decoding.add(size, begun, ended)

    def used(self, size: int, taken: float, given_back: float) -> None:
        """The owner had a block of ``size`` bytes from ``taken`` to ``given_back``."""
        self._using.add(size, taken, given_back)

    def seconds(self, size: int) -> float:
        """The expected time of a GET of ``size`` bytes, after one has landed."""
        return self._first_byte + size * self._transfer

    def longest(self, room: float) -> float:
        """Seconds that a GET may take, so that all bytes in flight have ``room``; or hardly longer than to its first byte.

        With less than that, smaller ranges would cost GETs and gain nothing.
        """
        return max(room * self._seconds_per_byte / 2, _HARDLY_LONGER * self._first_byte)

    def in_flight(self, range_bytes: int) -> int:
        """Returns the number of ranges of that size to have in flight, at least 2 if allowed."""
        if not self._first_bytes:
            return self._maximum
        lasts = range_bytes * self._seconds_per_byte
        return min(self._maximum, 1 + max(1, math.ceil(2 * self.seconds(range_bytes) / lasts)))

    @property
    def _seconds_per_byte(self) -> float:
        return max(self._decoding.seconds_per_byte, self._using.seconds_per_byte)


class _Pace:
    """Seconds per byte of all partitions together, of the last 32 MiB or so. Overlapping time counts once."""

    def __init__(self) -> None:
        self.seconds_per_byte = _USUAL_SECONDS_PER_BYTE
        self._until = -math.inf

    def add(self, size: int, begun: float, ended: float) -> None:
        seconds = max(0.0, ended - max(begun, self._until))
        self._until = max(ended, self._until)
        self.seconds_per_byte = (self.seconds_per_byte * _PACE_BYTES + seconds) / (_PACE_BYTES + size)


def first_window(*, few_readers: bool) -> tuple[int, int]:
    """Returns the bytes of the first window of a read, and of one of its ranges.

    It has two ranges, which a slow connection brings side by side. Where many partitions are read it has one: their ranges are
    side by side already, and each GET costs CPU time.
    """
    return _FIRST_WINDOW_RANGE_BYTES * (_FIRST_WINDOW_RANGES if few_readers else 1), _FIRST_WINDOW_RANGE_BYTES


def window_bytes(range_bytes: int, *, in_flight: int, readers: int, chunked: bool = False) -> int:
    """Returns the window that one of ``readers`` partitions requests: WINDOW_RANGES ranges, or more for more in flight.

    It has twice a partition's share of the bytes in flight. Windows of chunked segments are long, because a chunk that two
    windows touch is read twice. A window holds no memory: ranges do.
    """
    share = -(-2 * in_flight // max(1, readers))
    return range_bytes * max(WINDOW_RANGES, share, _CHUNKED_WINDOW_RANGES if chunked else 0)
