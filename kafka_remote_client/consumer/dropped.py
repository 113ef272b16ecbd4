"""A consumer that is dropped without close(): it is freed at once, and its engine is closed soon after.

Freed at once: the consumer's parts have only weak references to it. A cycle would keep it, with its connections and its place
in the group, until a cyclic collection. The engine has no callbacks of the application, which may refer to the consumer: the
finalizer has the engine, so such a consumer would never be freed (held_exceptions.py).

Closed soon after: a finalizer runs in the thread that drops the last reference, or that runs a cyclic collection. That may
be a worker that holds the engine's lock, or any thread in the middle of ``threading`` itself. So it takes no lock and starts no
thread. It puts the engine into a queue (``SimpleQueue.put`` is reentrant), and one daemon thread for all
consumers of the process closes it. Engines of consumers that live to the end of the process are closed at its exit.

References: ``queue.SimpleQueue``, ``weakref.finalize``.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from queue import SimpleQueue
from typing import Any, Protocol

from kafka_remote_client.threads import start_thread

__all__ = ["Closeable", "close_when_dropped"]

_log = logging.getLogger(__name__)


class Closeable(Protocol):
    """An engine."""

    def close(self) -> None:
        """Ends its threads. May be called twice."""


class _Closer:
    """The queue and the thread of one process."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Creates the queue, also in a forked child, whose copied queue belongs to a thread that it does not have."""
        self._dropped: SimpleQueue[Closeable] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._at_exit = self._exiting = False

    def start(self) -> None:
        """Starts the thread if there is none. If that fails, the next consumer tries again."""
        with self._guard:
            if self._thread is None:
                self._thread = start_thread("kafka-remote-closer", self._run, self._dropped)
            if not self._at_exit:
                self._at_exit = True
                # weakref registered its exit handler at the first finalizer, so this one runs before it.
                atexit.register(self._exit)

    def drop(self, engine: Closeable) -> None:
        """The finalizer. At the end of the process it closes the engine itself: nothing would wait for the thread."""
        if self._exiting:
            engine.close()
        else:
            self._dropped.put(engine)

    def _exit(self) -> None:
        self._exiting = True

    @staticmethod
    def _run(dropped: SimpleQueue[Closeable]) -> None:
        while True:
            engine = dropped.get()
            try:
                engine.close()
            except Exception:  # noqa: BLE001 - a defect; the next engine must still be closed
                _log.exception("closing the engine of a dropped consumer failed")
            del engine


_closer = _Closer()


def close_when_dropped(owner: object, engine: Closeable) -> weakref.finalize[[Closeable], Any]:
    """Closes ``engine`` when ``owner`` is freed, or the process ends. The finalizer may be detached."""
    finalizer = weakref.finalize(owner, _closer.drop, engine)
    _closer.start()
    return finalizer


os.register_at_fork(after_in_child=_closer.begin)
