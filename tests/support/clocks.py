"""A clock that moves with each call."""

from __future__ import annotations

from tests.support.locations import ManualClock

__all__ = ["TickingClock"]


class TickingClock(ManualClock):
    """Moves by ``tick`` seconds at each call, so that a deadline ends after a known number of calls."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self._tick = tick

    def monotonic(self) -> float:
        self.now += self._tick
        return self.now
