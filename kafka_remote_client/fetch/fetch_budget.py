"""Decides whether one more range may be requested now, and the sizes of ranges and windows. Pure (no I/O).

A range needs a free place among those in flight, memory, its share of the client's own rate limits, and of the rate that the
store accepts. If a limit is smaller than a range, ranges are as small as the limit, so that none costs more than about a
second of it. The memory is that of the range and its records (columns and decompressed data), estimated from the last ones.
"""

from __future__ import annotations

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.grant_read import RangeRead
from kafka_remote_client.fetch.memory import MemoryBudget
from kafka_remote_client.fetch.range_sizes import RangeSizer, ReadAhead, window_bytes
from kafka_remote_client.fetch.rate_limit import RateLimits
from kafka_remote_client.fetch.request_rate import RequestRate

__all__ = ["FetchBudget"]

_FADE = 0.9
_IN_FLIGHT_SHARE = 0.5  # of the memory: the other half is for records that wait
_FEW_READERS = 4
_RESERVE_SHARE = 8  # memory for one hedge is kept if a range takes at most an eighth of all


class FetchBudget:
    """The shared budget of all ranges of one engine. Not thread-safe: the engine's lock guards it."""

    def __init__(self, config: RemoteFetchConfig) -> None:
        self.memory = MemoryBudget(config.buffer_memory)
        self.read_ahead = ReadAhead(config.max_in_flight)
        limit = config.max_bytes_per_second
        largest = config.range_bytes if limit is None else min(config.range_bytes, limit)
        self.sizer = RangeSizer(largest, config.read_timeout_ms / 1000, config.buffer_memory // config.max_in_flight)
        self._limits = RateLimits(limit, config.max_requests_per_second)
        self.request_rate = RequestRate()
        self._range_bytes = self._held_bytes = 0.0
        self._most_in_flight = config.max_in_flight
        self._hedges = config.hedge_max_percent > 0
        self.readers = 0
        """The number of partitions that are read, which share the memory."""

    @property
    def most_in_flight(self) -> int:
        """The number of ranges of full size that may be in flight, estimated from the last ones."""
        return self.read_ahead.in_flight(self.sizer.range_bytes)

    def has_for(self, needs: int, in_flight: int, now: float, has_memory: bool = False) -> bool:
        """Whether a range that needs that much memory may be requested while ``in_flight`` others are in flight.

        ``has_memory``: it has the memory, from an attempt that failed. More small ranges than full ones may be in flight: a
        small segment is one range.
        """
        if not self.has_room_for(needs, has_memory, in_flight):
            return False
        return self.request_rate.delay(now) == 0 and self._limits.delay(now) == 0

    def has_room_for(self, needs: int, has_memory: bool, in_flight: int) -> bool:
        """The same without the limits on rates, which depend on time."""
        reserve = needs if self._hedges and needs * _RESERVE_SHARE <= self.memory.limit else 0
        size = min(self.sizer.range_bytes, max(1, round(needs / self._growth)))
        if in_flight >= self.read_ahead.in_flight(size):
            return False
        return has_memory or self.memory.fits(needs + reserve)

    def has_for_hedge(self, needs: int, in_flight: int, now: float) -> bool:
        """The same for a hedge. It may use the reserved memory, because other work may wait for the late range."""
        if in_flight >= self._most_in_flight or not self.memory.fits(needs):
            return False
        return self.request_rate.delay(now) == 0 and self._limits.left(now) == 0

    def take(self, read: RangeRead, now: float) -> int:
        """The range is requested. Returns the milliseconds for which the rate limits delayed it."""
        if read.lease is None:
            read.needs = self.needs(read)
            self.memory.force(read.needs)
        self.request_rate.sent(now)
        return round(1000 * self._limits.take(read.size, now))

    def take_for_hedge(self, read: RangeRead, now: float) -> None:
        """A range in flight is requested again."""
        self.memory.force(read.needs)
        self.request_rate.sent(now)
        self._limits.take(read.size, now)

    def needs(self, read: RangeRead) -> int:
        """Returns the memory to take for a range and its records."""
        return read.needs or round(read.size * self._growth)

    def landed(self, size: int, seconds: float, transfer_seconds: float) -> None:
        """A range of ``size`` bytes arrived after ``seconds``, of these ``transfer_seconds`` from its first byte to the last.

        The next ranges may have another size.
        """
        self.sizer.succeeded(size, seconds)
        self.read_ahead.landed(size, seconds, transfer_seconds)
        room = self.memory.limit * _IN_FLIGHT_SHARE / self._growth
        self.sizer.balance(self.read_ahead.seconds, self.read_ahead.longest(room))

    def decoded(self, size: int, held: int, begun: float, ended: float) -> None:
        """A range of ``size`` bytes was decoded from ``begun`` to ``ended``; its records hold ``held`` bytes."""
        self.read_ahead.decoded(size, begun, ended)
        self._range_bytes = self._range_bytes * _FADE + size
        self._held_bytes = self._held_bytes * _FADE + held

    @property
    def _growth(self) -> float:
        """The memory of a range and its records divided by the bytes of the range: 1 or more, estimated from the last ones."""
        return self._held_bytes / self._range_bytes if self._held_bytes > self._range_bytes else 1.0

    def patience(self, now: float, longest: float) -> float:
        """Seconds after which there may be room without an event, at most ``longest``."""
        return min(max(self._limits.left(now), self.request_rate.delay(now)) or longest, longest)

    @property
    def few_readers(self) -> bool:
        """Whether so few partitions are read that locations may be requested before it is certain that they are needed."""
        return self.readers <= _FEW_READERS

    def window(self, *, chunked: bool, short: bool = False) -> tuple[int, int]:
        """Returns the window that each partition requests, and the size of its ranges; ``short``: with the fewest ranges."""
        size = self.sizer.range_bytes
        if short:
            return window_bytes(size, in_flight=0, readers=1, chunked=chunked), size
        return window_bytes(size, in_flight=self.most_in_flight, readers=self.readers, chunked=chunked), size
