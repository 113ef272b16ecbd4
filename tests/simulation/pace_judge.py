"""Judges when a partition leaves a slow store: not before half of its last ranges were slow. judge.py has the rules."""

from __future__ import annotations

from collections import defaultdict, deque
from functools import partial

from tests.simulation.judge import ViolationError

__all__ = ["PaceJudge"]

_REMEMBERED = 16
_FEWEST = 4


class PaceJudge:
    """``sufficient``: bytes per second. A range's pace is that of all GETs in flight with it."""

    def __init__(self, sufficient: int) -> None:
        self._sufficient = sufficient
        self._slow: defaultdict[int, deque[bool]] = defaultdict(partial(deque, maxlen=_REMEMBERED))
        self._may_leave: set[int] = set()

    def landed(self, partition: int, size: int, seconds: float, in_flight: int) -> None:
        """A range has arrived, one of ``in_flight``."""
        slow = self._slow[partition]
        slow.append(size * in_flight < self._sufficient * max(seconds, 1e-6))
        if partition in self._may_leave:
            return
        count = 0
        for number, one in enumerate(reversed(slow), 1):  # older ones may be forgotten after some time
            count += one
            if number >= _FEWEST and 2 * count >= number:
                self._may_leave.add(partition)
                return

    def left(self, partition: int) -> None:
        """A read ends because the broker is faster."""
        if partition not in self._may_leave:
            raise ViolationError("J14", f"partition {partition} leaves a store that was fast enough")
        self._may_leave.discard(partition)
        self._slow[partition].clear()
