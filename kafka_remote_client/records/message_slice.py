"""A slice of messages, and the ``poll`` that returns them one by one; the pure twin of ``_kernel_slice.pxi``.

Nearly all calls of ``poll`` return the next message of a slice. In Python such a call costs more than to build the message, so
the kernel has a compiled ``poll`` for this case only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import ldexp
from typing import Any

from confluent_kafka import Message

__all__ = ["MessageSlice", "slice_poll"]


class MessageSlice:
    """``messages``: all of the slice, of which ``taken`` were delivered. ``due``: the owner must run before the next one.

    Calls are atomic, so two threads never take the same message, and no message is taken after :meth:`stop`.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.due = False
        self._waiting: list[Message] = []
        self._step = threading.Lock()

    @property
    def taken(self) -> int:
        """How many messages were delivered."""
        return len(self.messages) - len(self._waiting)

    def begin(self, messages: list[Message]) -> None:
        """Replaces the slice. The caller must not change the list afterwards."""
        with self._step:
            self.messages, self._waiting = messages, messages[::-1]

    def take(self) -> Message | None:
        """The next message; None at the end."""
        with self._step:
            return self._waiting.pop() if self._waiting else None

    def stop(self) -> list[Message]:
        """Removes the messages that were not taken from the slice, and returns them in order."""
        with self._step:
            waiting = self._waiting[::-1]
            self.messages, self._waiting = self.messages[: self.taken], []
            return waiting


def slice_poll(queue: str, slowly: str) -> Callable[..., Message | None]:
    """``poll`` for a class with a :class:`MessageSlice` as its attribute ``queue`` and a method ``slowly(timeout)``."""

    def poll(self: Any, timeout: float = -1) -> Message | None:
        """As confluent_kafka's, from both tiers in turn. Raises TypeError for a timeout that is not a real number."""
        seconds = ldexp(timeout, 0)
        handed_out: MessageSlice = getattr(self, queue)
        if not handed_out.due:
            message = handed_out.take()
            if message is not None:  # a message without a value is falsy
                return message
        found: Message | None = getattr(self, slowly)(seconds)
        return found

    return poll
