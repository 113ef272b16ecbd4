"""Signals that stop or reload a command that runs until then."""

from __future__ import annotations

import signal
from queue import SimpleQueue

__all__ = ["stop_signals"]


def stop_signals() -> SimpleQueue[int]:
    """Handles SIGINT, SIGTERM and SIGHUP from now on, and returns the queue of those that arrive.

    A second signal to stop ends the process. Call it in the main thread.
    """
    arrived: SimpleQueue[int] = SimpleQueue()

    def put(number: int, _frame: object) -> None:
        if number != signal.SIGHUP:
            signal.signal(number, signal.SIG_DFL)
        arrived.put(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, put)
    return arrived
