"""Signals that stop or reload a command that runs until then."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ArrivedSignals", "stop_signals"]

_HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ArrivedSignals:
    """The signals of a command in the order in which they arrive."""

    def __init__(self, numbers: socket.socket) -> None:
        self._numbers = numbers

    def get(self, timeout: float | None = None) -> int:
        """Waits for the next one. Raises TimeoutError if none arrives for ``timeout`` seconds."""
        self._numbers.settimeout(timeout)
        while (number := self._numbers.recv(1)[0]) not in _HANDLED:
            pass
        return number


@contextmanager
def stop_signals() -> Iterator[ArrivedSignals]:
    """Handles SIGINT, SIGTERM and SIGHUP from now on, and gives those that arrive. Enter it in the main thread.

    The same signal to stop ends the process if it comes again. The other one does not: a terminal and a parent process may send
    one each for the same purpose.

    A Python handler runs in the main thread once that goes on. So it cannot end a wait there if the system gives the signal to
    another thread, or just before the main thread begins to wait. The wake-up file descriptor gets the number at once.
    """
    numbers, wake_up = socket.socketpair()
    with numbers, wake_up:
        wake_up.setblocking(False)
        signal.set_wakeup_fd(wake_up.fileno(), warn_on_full_buffer=False)
        for number in _HANDLED:
            signal.signal(number, _arrived)
        try:
            yield ArrivedSignals(numbers)
        finally:
            signal.set_wakeup_fd(-1)


def _arrived(number: int, _frame: object) -> None:
    if number != signal.SIGHUP:
        signal.signal(number, signal.SIG_DFL)
