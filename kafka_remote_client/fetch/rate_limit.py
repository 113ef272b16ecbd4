"""The client's own limits of bytes and GETs per second. Pure: the caller passes the time.

Theory of operation. A bucket holds at most the tokens of one second and fills at that rate. If it has any tokens, even one,
the next range may go; the range then pays in full, and the bucket may owe. So a range larger than the bucket is not
stuck, the mean rate is exact, and a burst is at most one second's tokens and one range.

A range that may not go yet waits like one without memory: it is not requested, so no time-out runs, and
the partition keeps its route.
"""

from __future__ import annotations

__all__ = ["RateLimits", "TokenBucket"]


class TokenBucket:
    """``per_second`` tokens a second. ``now`` is always monotonic seconds."""

    def __init__(self, per_second: float) -> None:
        self._rate = per_second
        self._tokens = max(1.0, per_second)
        self._at: float | None = None

    def delay(self, now: float) -> float:
        """Seconds until something may be taken; 0 = now."""
        self._fill(now)
        return 0.0 if self._tokens > 0 else (_LEAST_TOKENS - self._tokens) / self._rate

    def take(self, amount: float, now: float) -> None:
        """Takes ``amount``, even if there is less."""
        self._fill(now)
        self._tokens -= amount

    def _fill(self, now: float) -> None:
        if self._at is not None:
            self._tokens = min(max(1.0, self._rate), self._tokens + self._rate * max(0.0, now - self._at))
        self._at = now


_LEAST_TOKENS = 1e-6
"""The smallest amount after a delay: more than zero, despite rounding."""


class RateLimits:
    """Both limits of one consumer, and the time that they delayed it. ``None`` = no limit."""

    def __init__(self, bytes_per_second: int | None, requests_per_second: int | None) -> None:
        self._bytes = None if bytes_per_second is None else TokenBucket(bytes_per_second)
        self._requests = None if requests_per_second is None else TokenBucket(requests_per_second)
        self._buckets = tuple(bucket for bucket in (self._bytes, self._requests) if bucket is not None)
        self._held_since: float | None = None

    def delay(self, now: float) -> float:
        """Seconds until the next range may be requested; 0 = now. Call it when a range is due, because it counts the wait."""
        delay = self.left(now)
        if delay > 0 and self._held_since is None:
            self._held_since = now
        return delay

    def left(self, now: float) -> float:
        """The same, without a particular caller."""
        return max(bucket.delay(now) for bucket in self._buckets) if self._buckets else 0.0

    def take(self, size: int, now: float) -> float:
        """A range of ``size`` bytes is requested. Returns the seconds for which it, or the one that it replaces, waited."""
        if self._bytes is not None:
            self._bytes.take(size, now)
        if self._requests is not None:
            self._requests.take(1, now)
        held = 0.0 if self._held_since is None else max(0.0, now - self._held_since)
        self._held_since = None
        return held
