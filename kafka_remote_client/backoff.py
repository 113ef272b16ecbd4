"""How long something that failed is left alone: twice as long each time, up to a maximum, spread by a quarter."""

from __future__ import annotations

from kafka_remote_client.clock import Clock

__all__ = ["Backoff"]

_SPREAD = 0.25


class Backoff:
    """How long to leave something alone after it failed: doubles from ``first`` to ``maximum`` seconds until it succeeds.

    What fails after it was in use for longer than ``maximum`` fails for the first time again.
    """

    __slots__ = ("_clock", "_failures", "_first", "_maximum", "_until")

    def __init__(self, clock: Clock, first: float, maximum: float) -> None:
        self._clock = clock
        self._first = first
        self._maximum = maximum
        self._failures = 0
        self._until = 0.0

    @property
    def waiting(self) -> bool:
        """Whether it is still to be left alone."""
        return self._failures > 0 and self._clock.monotonic() < self._until

    def failed(self) -> float:
        """It failed: the seconds for which it is left alone now."""
        if self._failures and self._clock.monotonic() - self._until > self._maximum:
            self._failures = 0
        # Bounded, so that the power stays a float after years of failures.
        longest = min(self._maximum, self._first * 2.0 ** min(self._failures, 32))
        seconds = longest * (1 - _SPREAD * self._clock.jitter())
        self._failures += 1
        self._until = self._clock.monotonic() + seconds
        return seconds

    def succeeded(self) -> None:
        """It works again: the next failure is the first one."""
        self._failures = 0
