"""Whose turn it is: readers that may have something to do, each found without looking at the others. Pure (no I/O).

Theory of operation. A reader is in one of three places:

=======  ==========================================  ===========================================
place    it is there because                         it leaves when
=======  ==========================================  ===========================================
asked    something happened to it                    it is taken, to be asked what it wants
held     it wants a range, and no budget was free    budget is free; the one that waited longest
nowhere  it wants nothing until something happens    something happens: :meth:`ReadyQueue.add`
=======  ==========================================  ===========================================

So a reader is looked at as often as something happens to it, whatever the number of readers, and none overtakes another that
waits for budget.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

__all__ = ["ReadyQueue"]

_T = TypeVar("_T", bound=Hashable)


class ReadyQueue(Generic[_T]):
    """Not thread-safe: the engine's lock guards it. Times are seconds on the monotonic clock."""

    def __init__(self) -> None:
        self._asked: OrderedDict[_T, None] = OrderedDict()
        self._held: OrderedDict[_T, None] = OrderedDict()
        self._later: list[tuple[float, int, _T]] = []
        self._numbers = count()

    def __bool__(self) -> bool:
        """Whether anybody is waiting for a turn or for budget."""
        return bool(self._asked or self._held)

    def add(self, one: _T) -> None:
        """Something happened to ``one``: it gets a turn, once. One that waits for budget keeps its place."""
        if one not in self._held:
            self._asked.setdefault(one, None)

    def add_later(self, one: _T, at: float) -> None:
        """``one`` gets a turn once it is ``at``."""
        heapq.heappush(self._later, (at, next(self._numbers), one))

    def discard(self, one: _T) -> None:
        """``one`` gets no turn any more, unless it is added again."""
        self._asked.pop(one, None)
        self._held.pop(one, None)

    def wake(self, now: float) -> None:
        """Adds those whose time has come."""
        while self._later and self._later[0][0] <= now:
            self.add(heapq.heappop(self._later)[2])

    def patience(self, now: float, longest: float) -> float:
        """Seconds until somebody's time comes, from 0 up to ``longest``."""
        return min(longest, max(0.0, self._later[0][0] - now)) if self._later else longest

    def take(self, *, budget: bool) -> _T | None:
        """The next one to be asked; with ``budget`` those come first that wait for it. Asked again once it is added again."""
        waiting = self._held if budget and self._held else self._asked
        return waiting.popitem(last=False)[0] if waiting else None

    def hold(self, one: _T, *, first: bool) -> None:
        """There is no budget for what ``one`` wants. ``first``: it had waited already."""
        self._held[one] = None
        if first:
            self._held.move_to_end(one, last=False)
