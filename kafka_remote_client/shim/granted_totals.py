"""Counts the granted bytes and ranges of each client and topic. A range is one GET."""

from __future__ import annotations

import threading

__all__ = ["OTHERS", "GrantedTotals"]

OTHERS = ("others", "others")
"""Client and topic of all grants after the first thousand pairs. Clients choose their names, so the pairs are bounded."""

_MAX_PAIRS = 1_000


class GrantedTotals:
    """Sums by client and topic. Thread safe, and of bounded size. All of them add up to the counters of the same name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: dict[tuple[str, str], tuple[int, int]] = {}

    def add(self, client: str, topic: str, *, ranges: int, nbytes: int) -> None:
        """Counts one grant."""
        with self._lock:
            pair = (client, topic)
            if pair not in self._totals and len(self._totals) >= _MAX_PAIRS:
                pair = OTHERS
            known = self._totals.get(pair, (0, 0))
            self._totals[pair] = (known[0] + ranges, known[1] + nbytes)

    def snapshot(self) -> dict[tuple[str, str], tuple[int, int]]:
        """Ranges and bytes by client and topic."""
        with self._lock:
            return dict(sorted(self._totals.items()))
