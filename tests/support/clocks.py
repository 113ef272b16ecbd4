"""A clock that moves whenever it is looked at."""

from __future__ import annotations

from tests.support.locations import ManualClock

__all__ = ["TickingClock"]


class TickingClock(ManualClock):
    """Moves by ``tick`` seconds at each look, so that a deadline ends after so many looks."""

    def __init__(self, tick: float) -> None:
        super().__init__()
        self._tick = tick

    def monotonic(self) -> float:
        self.now += self._tick
        return self.now
