"""How large windows and ranges are, and how many ranges are in flight. Pure (no I/O).

Sizes are bytes of the original segment. A *window* is the bytes of one location request; the peer cuts it into ranges, each of
which is one GET.
"""

from __future__ import annotations

import math
from collections import deque

__all__ = [
    "FIRST_WINDOW",
    "MIN_RANGE_BYTES",
    "WINDOW_RANGES",
    "RangeSizer",
    "ReadAhead",
    "window_bytes",
]

MIN_RANGE_BYTES = 64 * 1024
FIRST_WINDOW = (4 * MIN_RANGE_BYTES, 2 * MIN_RANGE_BYTES)
"""Bytes of the first window of a read, and of one of its ranges."""
WINDOW_RANGES = 8
_CHUNKED_WINDOW_RANGES = 32
_FIRST_RANGE_BYTES = 4 * 1024 * 1024
_REMEMBERED = 16
_FADE = 0.9
_SLOW_FADE = 0.97
_HARDLY_LONGER = 1.15
_MUCH_LONGER = 1.5
_FEWEST_RANGES = 4
_LONGEST_PAUSE = 64


class RangeSizer:
    """The size of a range. A store delivers it well within the read time-out, and the memory has room for enough ranges.

    The first bound doubles while full ranges take less than a quarter of the time-out, and halves on a time-out. The second
    bound is a balance. Large ranges cost fewer GETs. But if a store is slow or far away, and the application uses records
    quickly, more bytes must be in flight than the memory holds. Then shorter GETs help. If the bandwidth of a connection takes
    most of their time, a GET of half the size is shorter, and twice as many are in flight. If the latency of the store does,
    all sizes take the same time, and large ranges cost least. So the sizer tries twice the size where the time from first to
    last byte is short, and stays there if GETs take hardly longer. Both bounds start at ``least``, or at 4 MiB. The permitted
    number of ranges of ``least`` bytes fills the memory.
    """

    def __init__(self, maximum: int, timeout_seconds: float, least: int = MIN_RANGE_BYTES) -> None:
        self._maximum = maximum
        self._least = min(maximum, max(MIN_RANGE_BYTES, least))
        self._timeout = timeout_seconds
        self._deliverable = self._balanced = min(self._least, _FIRST_RANGE_BYTES)
        self._slow = False  # from a time-out until ranges of the maximum arrive in time
        self._times = _Times(self.range_bytes)
        self._longest: float = 0.0
        """Mean seconds of a GET up to which ranges keep a doubled size though memory is short; 0: they do not keep it."""
        self._kept = False
        """Whether the doubled size has been compared with the one before, and was not slower."""
        self._pause = 1
        """How often the memory is filled before the next trial. Each trial that fails doubles it."""

    @property
    def maximum(self) -> int:
        return self._maximum

    @property
    def range_bytes(self) -> int:
        return min(self._deliverable, self._balanced)

    def succeeded(self, size: int, seconds: float, transfer_seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds``, of these ``transfer_seconds`` from its first byte to the last."""
        self._times.add(size, seconds, transfer_seconds)
        if size * 2 > self._deliverable and seconds * 4 < self._timeout:
            self._deliverable = min(self._maximum, self._deliverable * 2)
            self._slow = self._slow and self._deliverable < self._maximum

    def timed_out(self) -> None:
        """A range did not end in time."""
        self._deliverable = max(MIN_RANGE_BYTES, self.range_bytes // 2)
        self._slow = True

    def delivered(self, window: tuple[int, int]) -> tuple[int, int]:
        """A fixed window and its range size. After a time-out ranges are at most as large as the store can deliver in time."""
        whole, size = window
        if not self._slow or size <= self._deliverable:
            return window
        return whole * self._deliverable // size, self._deliverable

    def balance(self, wanted: float, room: float) -> bool:
        """Ranges of this size need ``wanted`` bytes in flight, and have ``room`` bytes. Returns whether the size changes.

        Ranges grow only if they do not shrink again immediately: if the bytes in flight that twice the size needs have room.
        These are twice as many where the transfer takes all of a GET's time, and fewer where latency takes some of it.
        """
        before = self.range_bytes
        if wanted > room:
            self._balanced = self._size_if_memory_is_short(before, room)
        elif wanted * self._times.longer_if_doubled <= room:
            self._longest = 0.0
            self._balanced = min(self._maximum, 2 * before)
        if self.range_bytes == before:
            return False
        self._times = _Times(self.range_bytes)
        return True

    def _size_if_memory_is_short(self, size: int, room: float) -> int:
        """Returns half the size, or the same, or as a trial twice the size. ``room`` is half of the memory."""
        times, smaller = self._times, max(min(self._least, size), size // 2)
        enough = times.bytes >= 2 * room
        if smaller < size and (not self._longest or (enough and times.mean > self._longest)):
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause) if self._longest and not self._kept else 1
            self._longest = 0.0
            return smaller
        if enough and self._longest and not self._kept:
            self._kept, self._longest, self._pause = True, _MUCH_LONGER * times.mean, 1
        fits = 2 * size <= min(self._maximum, self._deliverable) and 2 * size * _FEWEST_RANGES <= room
        if not fits or times.bytes < 2 * room * self._pause or not times.hardly_longer_if_doubled:
            return size
        self._kept, self._longest = False, _HARDLY_LONGER * times.mean
        return 2 * size


class _Times:
    """The last GETs of about one size: their bytes, their mean and shortest time, and the shortest transfer, in seconds."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.bytes = 0
        self._bytes = self._seconds = 0.0
        self._shortest = self._shortest_transfer = math.inf

    def add(self, size: int, seconds: float, transfer_seconds: float) -> None:
        if not self._size < 2 * size < 4 * self._size:
            return
        self.bytes += size
        self._bytes = self._bytes * _SLOW_FADE + size
        self._seconds = self._seconds * _SLOW_FADE + seconds * size
        self._shortest = min(seconds, self._shortest)
        self._shortest_transfer = min(transfer_seconds, self._shortest_transfer)

    @property
    def mean(self) -> float:
        return self._seconds / self._bytes

    @property
    def hardly_longer_if_doubled(self) -> bool:
        """Whether GETs of twice the size are expected to take about the same time: only the transfer takes twice as long."""
        return self.longer_if_doubled <= _HARDLY_LONGER

    @property
    def longer_if_doubled(self) -> float:
        """How many times as long GETs of twice the size are expected to take; 2 without a measurement."""
        if not 0.0 < self._shortest < math.inf:
            return 2.0
        return 1.0 + min(1.0, self._shortest_transfer / self._shortest)


class ReadAhead:
    """The number of ranges in flight: as many as the application uses during one GET (latency times bandwidth).

    ::

        in flight = 1 + 2 * seconds from request to last byte / seconds that the records of such a range last

    Bandwidth is the rate of decoding or of the application, whichever is slower. The time of a range is the shortest of the
    last ones, because time that ranges in flight take from each other is not latency. Twice, because ranges take different
    times. Without a measurement, and if the store is the slower part, as many are in flight as allowed.
    """

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._landed: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED)
        self._since_resized = 0
        self._decoding = _Pace()
        self._using = _Pace()

    def landed(self, size: int, seconds: float) -> None:
        """A range of ``size`` bytes took ``seconds`` from request to last byte."""
        self._landed.append((size, seconds))
        self._since_resized += 1

    def resized(self) -> None:
        """Ranges have another size from now on, so earlier times are less useful."""
        self._since_resized = 0

    def decoded(self, size: int, begun: float, ended: float) -> None:
        """Decoding of ``size`` bytes ran from ``begun`` to ``ended``."""
        self._decoding.add(size, begun, ended)

    def used(self, size: int, taken: float, given_back: float) -> None:
        """The owner had a block of ``size`` bytes from ``taken`` to ``given_back``."""
        self._using.add(size, taken, given_back)

    def in_flight(self, range_bytes: int) -> int:
        """Returns the number of ranges of that size to have in flight, at least 2 if allowed."""
        if not self._landed or self._using.seconds_per_byte == 0.0:
            return self._maximum
        seconds = min(seconds for _, seconds in self._like(range_bytes) or self._landed)
        return min(self._maximum, 1 + max(1, math.ceil(2 * seconds / (range_bytes * self._seconds_per_byte))))

    def wanted_bytes(self, range_bytes: int) -> float | None:
        """Returns the bytes to have in flight in ranges of that size; ``None`` without a measurement of such ranges.

        If ranges do not get that size (chunks are larger), all of the last ones count.
        """
        like = self._like(range_bytes) or (self._landed if self._since_resized >= _REMEMBERED else ())
        if not like or self._using.seconds_per_byte == 0.0:
            return None
        return 2 * min(seconds for _, seconds in like) / self._seconds_per_byte

    def _like(self, range_bytes: int) -> list[tuple[int, float]]:
        """Returns those of the last ranges that have about that size."""
        return [(size, seconds) for size, seconds in self._landed if range_bytes < 2 * size < 4 * range_bytes]

    @property
    def _seconds_per_byte(self) -> float:
        return max(self._decoding.seconds_per_byte, self._using.seconds_per_byte)


class _Pace:
    """Seconds per byte of all partitions together, weighted towards the last ones. Overlapping time counts once."""

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


def window_bytes(range_bytes: int, *, in_flight: int, readers: int, chunked: bool = False) -> int:
    """Returns the window that one of ``readers`` partitions requests: WINDOW_RANGES ranges, or more for more in flight.

    It has twice a partition's share of the bytes in flight. Windows of chunked segments are long, because a chunk that two
    windows touch is read twice. A window holds no memory: ranges do.
    """
    share = -(-2 * in_flight // max(1, readers))
    return range_bytes * max(WINDOW_RANGES, share, _CHUNKED_WINDOW_RANGES if chunked else 0)
