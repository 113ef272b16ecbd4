"""The events of a model in virtual time, in the order of their times, and in the order in which they were added."""

from __future__ import annotations

import heapq
import itertools
import math
from typing import Generic, TypeVar

__all__ = ["EventQueue"]

_Event = TypeVar("_Event")


class EventQueue(Generic[_Event]):
    """Times are in seconds. ``next_at``: of the next event, infinite without one."""

    def __init__(self) -> None:
        self._events: list[tuple[float, int, _Event]] = []
        self._numbers = itertools.count()
        self.next_at = math.inf

    def __bool__(self) -> bool:
        """Whether there is an event."""
        return bool(self._events)

    def add(self, at: float, event: _Event) -> None:
        """``event`` happens at that time."""
        heapq.heappush(self._events, (at, next(self._numbers), event))
        if at < self.next_at:
            self.next_at = at

    def pop(self) -> tuple[float, _Event]:
        """Removes the next event and returns it with its time."""
        at, _, event = heapq.heappop(self._events)
        self.next_at = self._events[0][0] if self._events else math.inf
        return at, event
