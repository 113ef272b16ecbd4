"""The queue of readers that may have work. Finding the next one does not depend on the number of readers. Pure (no I/O).

Theory of operation. A reader is in one of three states:

=======  ==========================================  ===========================================
state    reason                                      end of the state
=======  ==========================================  ===========================================
asked    an event concerned it                       it is taken, to ask for its next command
held     it needs a range, and no budget was free    budget is free; the longest waiting reader is first. Or its
                                                     time has come: it may now need something else
nowhere  it needs nothing until the next event       an event: :meth:`ReadyQueue.add`
=======  ==========================================  ===========================================

So the queue examines a reader once per event, independent of the number of readers, and no reader overtakes another that
waits for budget, unless it needs none.
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
        """Whether any reader waits for a turn or for budget."""
        return bool(self._asked or self._held)

    @property
    def has_turns(self) -> bool:
        """Whether any reader waits for a turn, and not for budget."""
        return bool(self._asked)

    def add(self, one: _T) -> None:
        """An event concerned ``one``: it gets a turn, once. A reader that waits for budget keeps its place."""
        if one not in self._held:
            self._asked.setdefault(one, None)

    def add_later(self, one: _T, at: float) -> None:
        """``one`` gets a turn at the time ``at``."""
        heapq.heappush(self._later, (at, next(self._numbers), one))

    def discard(self, one: _T) -> None:
        """``one`` gets no more turns, unless it is added again."""
        self._asked.pop(one, None)
        self._held.pop(one, None)

    def wake(self, now: float) -> None:
        """Gives a turn to those whose time has come, also if they wait for budget."""
        while self._later and self._later[0][0] <= now:
            _, _, one = heapq.heappop(self._later)
            self._held.pop(one, None)
            self.add(one)

    def patience(self, now: float, longest: float) -> float:
        """Seconds until the next reader's time, from 0 up to ``longest``."""
        return min(longest, max(0.0, self._later[0][0] - now)) if self._later else longest

    def take(self, *, budget: bool) -> _T | None:
        """Returns the next reader in turn; with ``budget``, readers that wait for it come first."""
        waiting = self._held if budget and self._held else self._asked
        return waiting.popitem(last=False)[0] if waiting else None

    def hold(self, one: _T, *, first: bool) -> None:
        """There is no budget for the request of ``one``. ``first``: it goes before the others, as it had already waited."""
        self._held[one] = None
        if first:
            self._held.move_to_end(one, last=False)
