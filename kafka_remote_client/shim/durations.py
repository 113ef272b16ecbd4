"""Durations as counts by upper bound, the form of a Prometheus histogram."""

from __future__ import annotations

import threading
from bisect import bisect_left

__all__ = ["BOUNDS", "Durations"]

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds; what is longer counts above all of them."""


class Durations:
    """Counts durations in seconds. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """One more of this length."""
        with self._lock:
            self._counts[bisect_left(BOUNDS, seconds)] += 1
            self._sum += seconds

    def snapshot(self) -> tuple[list[int], float]:
        """Returns the number of durations up to each bound and in total, as one list; and their sum."""
        with self._lock:
            total, cumulated = 0, []
            for count in self._counts:
                total += count
                cumulated.append(total)
            return cumulated, self._sum
