"""The number of GETs per second that a store accepts, derived from its 503s. Pure: the caller passes the time.

Theory of operation. Nothing is limited before the first 503. A 503 sets the limit to four fifths of the rate at which the store
answered within the last second. 503s of the next half second are answers to GETs that were in flight, and do not count. The
limit grows by a twentieth each second, so that the client notices when the store accepts more. It ends when it has grown
tenfold. GETs are paced: each waits for the interval of the one before it.

References: additive increase, multiplicative decrease (RFC 5681, section 3.1); docs/reliability.md.
"""

from __future__ import annotations

from collections import deque

__all__ = ["RequestRate"]

_WINDOW_SECONDS = 1.0
_CUT = 0.8
_SETTLE_SECONDS = 0.5
_REST_SECONDS = 0.25
"""Seconds without requests after a 503, because the store counts recent requests."""
_GROWTH_PER_SECOND = 1.05
_FORGOTTEN = 10.0
_LEAST = 10.0


class RequestRate:
    """Not thread-safe: the engine's lock guards it. ``now`` is always monotonic seconds."""

    def __init__(self) -> None:
        self._answered: deque[float] = deque()
        self._base: float | None = None
        self._cut_at = 0.0
        self._next = 0.0

    def answered(self, now: float) -> None:
        """A GET brought its range."""
        self._answered.append(now)
        self._forget(now)

    def throttled(self, now: float) -> bool:
        """A GET got a 503. Returns whether the limit becomes lower."""
        if self._base is not None and now < self._cut_at + _SETTLE_SECONDS:
            return False
        self._forget(now)
        self._base = max(_LEAST, _CUT * len(self._answered) / _WINDOW_SECONDS)
        self._cut_at = now
        self._next = now + _REST_SECONDS
        return True

    def limit(self, now: float) -> float | None:
        """GETs per second; ``None`` = no limit."""
        if self._base is None:
            return None
        limit = self._base * _GROWTH_PER_SECOND ** (now - self._cut_at)
        if limit >= _FORGOTTEN * self._base:
            self._base = None
            return None
        return float(limit)

    def delay(self, now: float) -> float:
        """Seconds until the next GET may be sent; 0 = now."""
        return 0.0 if self.limit(now) is None else max(0.0, self._next - now)

    def sent(self, now: float) -> None:
        """A GET is sent."""
        limit = self.limit(now)
        if limit is not None:
            self._next = max(now, self._next) + 1 / limit

    def _forget(self, now: float) -> None:
        while self._answered and self._answered[0] <= now - _WINDOW_SECONDS:
            self._answered.popleft()
