"""Daemon threads, which the system may refuse to start: whoever wants one has to get along without."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["start_thread"]

_log = logging.getLogger(__name__)
_refused: set[str] = set()


def start_thread(name: str, target: Callable[..., object], *args: object) -> threading.Thread | None:
    """A daemon thread that runs ``target(*args)``, or ``None`` where the process can have no more threads.

    A refusal is a warning in the log, once until a thread of that name can be started again.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _log.log(logging.DEBUG if name in _refused else logging.WARNING, "the thread %s cannot be started: %s", name, error)
        _refused.add(name)
        return None
    _refused.discard(name)
    return thread
