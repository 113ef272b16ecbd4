"""Follows the breaker of a store by the results of GETs, where each result that counts is known. judge.py has the rules.

A store that throttles, or a fetcher that is given up, changes the breaker at times that only the scheduler knows. In scenarios
with one of these faults nothing is judged here.
"""

from __future__ import annotations

import math
from collections import deque

from tests.simulation.judge import ViolationError

__all__ = ["BreakerJudge"]

_FAILURE_WINDOW_SECONDS = 10.0


class BreakerJudge:
    """``failures`` within 10 s open it for ``reset`` seconds. Then one GET in so many seconds tries the store."""

    def __init__(self, failures: int, reset: float) -> None:
        self._most = failures
        self._reset = reset
        self._failures: deque[float] = deque()
        self._is_open = self._tries = False
        self._refuses_until = -math.inf

    def sends(self, name: str, now: float) -> None:
        """A GET begins."""
        if not self._is_open:
            return
        if now < self._refuses_until:
            left = self._refuses_until - now
            raise ViolationError("J11", f"{name}: a GET is sent to a failed store, {left:.3f} s before the next is allowed")
        self._tries = True
        self._refuses_until = now + self._reset

    def succeeded(self, now: float) -> None:
        """A GET brings its range. One from before the breaker opened says nothing."""
        if not self._is_open or self._tries:
            self._is_open = self._tries = False
            self._refuses_until = min(self._refuses_until, now)
            self._failures.clear()

    def failed(self, now: float) -> None:
        """A GET fails in a way that counts against the store."""
        if self._is_open and not self._tries:
            return
        self._failures.append(now)
        while self._failures[0] < now - _FAILURE_WINDOW_SECONDS:
            self._failures.popleft()
        if self._tries or len(self._failures) >= self._most:
            self._is_open, self._tries = True, False
            self._refuses_until = now + self._reset
            self._failures.clear()

    def refused(self, name: str, opened_at: float) -> None:
        """A read that was opened then ends because the breaker is open."""
        if self._refuses_until < opened_at:
            raise ViolationError("J11", f"{name}: it ends because of an open breaker, and the store may be asked")
