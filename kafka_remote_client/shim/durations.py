"""Durations as counts by upper bound, the form of a Prometheus histogram."""

from __future__ import annotations

import threading

from kafka_remote_client.metrics import BOUNDS, Histogram

__all__ = ["BOUNDS", "Durations"]


class Durations:
    """Counts durations in seconds by the upper bounds ``BOUNDS``. Thread safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histogram = Histogram()

    def add(self, seconds: float) -> None:
        """Counts one duration."""
        with self._lock:
            self._histogram.add(seconds)

    def snapshot(self) -> tuple[list[int], float]:
        """Returns the number of durations up to each bound and in total, as one list; and their sum."""
        with self._lock:
            return list(self._histogram.cumulated().values()), self._histogram.sum
