"""One budget for all bytes that a shim holds for its connections: parts of requests and answers, and bytes not yet sent.

Back-pressure bounds what one connection holds. The budget bounds the sum. When it is exceeded, connections are closed until
a sixteenth of it is free: first those that the broker has not admitted, then those that hold most for longest. A client that
reads is rarely closed, because its bytes do not wait for long. The choice looks at all connections. It frees more than it must,
so that peers which never read and connect again do not cause it for each read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

__all__ = ["BufferBudget", "Holder"]

_FREED = 16
"""The part of the budget that is free after a choice, as a divisor."""


class Holder(Protocol):
    """A connection, as far as the budget is concerned."""

    held: int
    """Its bytes in the budget."""

    admitted: bool
    """Whether the broker serves the client."""

    def waited(self, now: float) -> float:
        """Returns for how many seconds a peer has not read the written bytes."""


_H = TypeVar("_H", bound=Holder)


class BufferBudget:
    """``limit`` in bytes. Used in one event loop."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    @property
    def exceeded(self) -> bool:
        """Whether the connections hold more bytes than the limit."""
        return self.held > self.limit

    def holds(self, holder: Holder, size: int) -> None:
        """Sets the bytes that ``holder`` holds now."""
        self.held += size - holder.held
        holder.held = size

    def victims(self, holders: Iterable[_H], now: float) -> list[_H]:
        """The connections to close, in this order, so that a sixteenth of the budget is free. None within the budget."""
        surplus, chosen = (self.held - self.limit + self.limit // _FREED) if self.exceeded else 0, []
        for holder in sorted(holders, key=lambda one: (one.admitted, -one.held * one.waited(now), -one.held)):
            if surplus <= 0:
                break
            if holder.held:
                surplus -= holder.held
                chosen.append(holder)
        return chosen
