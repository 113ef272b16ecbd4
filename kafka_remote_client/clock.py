"""The only place with time and randomness, so that tests can own both.

``time.time``, ``time.monotonic``, ``time.sleep`` and ``random`` are banned elsewhere by the linter.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Protocol

__all__ = ["Clock", "Deadline", "SystemClock"]


class Clock(Protocol):
    """Time in seconds, sleep, and random fractions."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    def time_ms(self) -> int:
        """Wall clock: milliseconds since the Unix epoch."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Waits until ``event`` is set or ``seconds`` have passed; True when it was set."""

    def jitter(self) -> float:
        """A random number in [0, 1)."""


class SystemClock:
    """The machine's own clock and random generator."""

    def monotonic(self) -> float:
        return time.monotonic()

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(max(0.0, seconds))

    def jitter(self) -> float:
        return random.random()  # noqa: S311 - spreads retries, guards nothing


class Deadline:
    """A point on the monotonic clock by which a whole operation has to be over."""

    __slots__ = ("_at", "_clock")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._at = clock.monotonic() + seconds

    @property
    def at(self) -> float:
        return self._at

    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self._at - self._clock.monotonic())

    def expired(self) -> bool:
        return self._clock.monotonic() >= self._at
