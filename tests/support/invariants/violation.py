"""One violation of an invariant, with everything needed to find the bug."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from tests.support.history import Event, Key

__all__ = ["Violation", "violation"]


@attrs.frozen
class Violation:
    """``offsets`` are those concerned, ``events`` the numbers of the events that show it (in ``History.events``)."""

    invariant: str
    text: str
    consumer: str = ""
    key: Key | None = None
    offsets: tuple[int, ...] = ()
    events: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = "" if self.key is None else f" {self.key[0]}-{self.key[1]}"
        offsets = "" if not self.offsets else f" at {_short(self.offsets)}"
        events = "" if not self.events else f" (events {_short(self.events)})"
        return f"{self.invariant}: {self.consumer}{where}{offsets}: {self.text}{events}"


def violation(
    invariant: str, text: str, *events: Event | None, consumer: str = "", key: Key | None = None, offsets: Iterable[int] = ()
) -> Violation:
    """Returns a violation by these events."""
    numbers = tuple(event.number for event in events if event is not None)
    owner = consumer or next((event.consumer for event in events if event is not None), "")
    return Violation(invariant, text, owner, key, tuple(offsets), numbers)


def _short(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return shown if len(numbers) <= 8 else f"{shown} … {numbers[-1]} ({len(numbers)})"
