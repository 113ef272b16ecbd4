"""A slice of messages that are handed out one by one, and the ``poll`` that does so; the pure twin of ``_kernel_slice.pxi``.

Nearly all calls of ``poll`` are for the next message of a slice. In Python such a call costs more than to build the message,
so there is a compiled one, with nothing but this in it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import ldexp
from typing import Any

from confluent_kafka import Message

__all__ = ["MessageSlice", "slice_poll"]


class MessageSlice:
    """``messages``: all of the slice, of which ``taken`` were delivered. ``due``: the owner needs control before the next one.

    Each call is one step to other threads, so two of them never take the same message, and none is taken after :meth:`stop`.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.due = False
        self._waiting: list[Message] = []
        self._step = threading.Lock()

    @property
    def taken(self) -> int:
        """How many messages were handed out."""
        return len(self.messages) - len(self._waiting)

    def begin(self, messages: list[Message]) -> None:
        """Replaces the slice. The list must not change from now on."""
        with self._step:
            self.messages, self._waiting = messages, messages[::-1]

    def take(self) -> Message | None:
        """The next message; ``None`` where there is none left."""
        with self._step:
            return self._waiting.pop() if self._waiting else None

    def stop(self) -> list[Message]:
        """Gives the messages that wait, in their order; from now on the slice is as if it had ended before them."""
        with self._step:
            waiting = self._waiting[::-1]
            self.messages, self._waiting = self.messages[: self.taken], []
            return waiting


def slice_poll(queue: str, slowly: str) -> Callable[..., Message | None]:
    """``poll`` for a class whose objects have a :class:`MessageSlice` as ``queue`` and a method ``slowly(timeout)``.

    The class names both itself, so nothing here depends on what a consumer calls its parts.
    """

    def poll(self: Any, timeout: float = -1) -> Message | None:
        """As confluent_kafka's, from both tiers in turn. Raises TypeError for a time that is no real number."""
        seconds = ldexp(timeout, 0)
        handed_out: MessageSlice = getattr(self, queue)
        if not handed_out.due:
            message = handed_out.take()
            if message is not None:  # a message without a value is falsy
                return message
        found: Message | None = getattr(self, slowly)(seconds)
        return found

    return poll
