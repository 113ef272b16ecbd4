"""Records that ``poll`` hands out one by one from a slice of one partition, and their offsets, which are stored a moment later.

To store an offset costs several times what handing out a record does, so ``poll`` only remembers the last one. Its offset is
stored before anything that could tell: a commit, a position, a seek, a callback, the end. Where the application does nothing
more, a thread stores it within hundredths of a second, so that a record which takes long to process is committed in time. The
same thread says ten times a second that the inner consumer needs a look, because only that counts for ``max.poll.interval.ms``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Message

from kafka_remote_client.threads import start_thread

__all__ = ["HandedOut"]

_TICK_SECONDS = 0.01
_TICKS_UNTIL_DUE = 10
_TICKS_UNTIL_IDLE = 100


class HandedOut:
    """The slice that is being handed out. ``store``: stores a record's offset; ``None`` where the application does it itself.

    ``waiting`` is in reverse order: its last record is the next one. ``last`` is the record handed out last. ``poll`` looks at
    ``due``, pops the one and sets the other; everything else goes through methods.
    """

    def __init__(self, store: Callable[[Message], None] | None) -> None:
        self.waiting: list[Message] = []
        self.last: Message | None = None
        self.due = False
        self._store = store
        self._stored: Message | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def begin(self, records: list[Message]) -> Message:
        """Takes a slice that is not empty, gives its first record, and lets the thread watch from now on."""
        records.reverse()
        self.waiting = records
        self.last = message = records.pop()
        with self._lock:
            self.due = False
            if self._thread is None:
                self._thread = start_thread("kafka-remote-offsets", _watch, weakref.ref(self), self._stopped)
                self.due = self._thread is None  # with nobody to watch, each poll() does what the thread would have done
        return message

    def store(self) -> bool:
        """Stores the offset of the last record. False when it was stored before."""
        with self._lock:
            last = self.last
            if last is self._stored:
                return False
            self._stored = last
            if last is not None and self._store is not None:
                with suppress(KafkaException):  # its partition was lost meanwhile, and lost partitions store nothing
                    self._store(last)
            return True

    def settle(self) -> tuple[Message | None, list[Message]]:
        """Stores what is not stored; gives the last record and, in their order, those that wait, and forgets both."""
        self.store()
        with self._lock:
            last, self.last, self._stored = self.last, None, None
        waiting, self.waiting = self.waiting, []
        waiting.reverse()
        return last, waiting

    def close(self) -> None:
        """Ends the thread; what is not stored by now never is."""
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def rest(self) -> bool:
        """The thread asks whether it may end: unless a slice was begun since it said ``due``."""
        with self._lock:
            if self.due:
                self._thread = None
            return self.due


def _watch(handed_out: weakref.ref[HandedOut], stopped: threading.Event) -> None:
    """Runs until nothing was handed out for a second; the next look at ``due`` then leads to a new thread."""
    ticks = idle = 0
    while not stopped.wait(_TICK_SECONDS):
        kept = handed_out()
        if kept is None:
            return
        idle = 0 if kept.store() else idle + 1
        if idle > _TICKS_UNTIL_IDLE + 1 and kept.rest():
            return  # ``due`` was said a tick ago, so nothing was handed out unseen since
        ticks += 1
        if ticks % _TICKS_UNTIL_DUE == 0 or idle > _TICKS_UNTIL_IDLE:
            kept.due = True
        del kept
