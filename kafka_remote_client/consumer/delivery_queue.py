"""Messages that ``poll`` hands out one by one from a slice, and their offsets, which are stored a moment later.

To store an offset costs several times what handing out a record does, so ``poll`` only counts. Offsets of the last records are
stored before anything that could tell: a commit, a position, a seek, a callback, the end. Where the application does nothing
more, a thread stores them within hundredths of a second, so that a record which takes long to process is committed in time. The
same thread says ten times a second that the inner consumer needs a look, because only that counts for ``max.poll.interval.ms``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Message

from kafka_remote_client.consumer.messages import key_of
from kafka_remote_client.records import MessageSlice
from kafka_remote_client.threads import start_thread

__all__ = ["DeliveryQueue"]

_TICK_SECONDS = 0.01
_TICKS_UNTIL_DUE = 10
_TICKS_UNTIL_IDLE = 100


class DeliveryQueue(MessageSlice):
    """The slice that is being handed out. ``store``: stores a record's offset; ``None`` where the application does it itself.

    ``poll`` takes messages while ``due`` is false; everything else goes through methods.
    """

    def __init__(self, store: Callable[[Message], None] | None) -> None:
        super().__init__()
        self._store = store
        self._of_one_partition = True
        self._looked_at = self._stored_at = 0
        self._lasts: dict[tuple[str, int], Message] = {}
        self._unstored: dict[tuple[str, int], Message] = {}
        self._ends: dict[tuple[str, int], int] | None = None
        self.unfollowed: set[tuple[str, int]] = set()
        """Partitions of which the last message handed out was a record, since :meth:`follow`."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def waiting(self) -> list[Message]:
        """What is not handed out yet."""
        return self.messages[self.taken :]

    @property
    def last(self) -> Message | None:
        """The record handed out last from this slice."""
        handed = self.messages[: self.taken]
        return next((message for message in reversed(handed) if message.error() is None), None)

    def hand_out(self, messages: list[Message], *, of_one_partition: bool) -> Message | None:
        """Begins a slice and gives its first message, and lets the thread watch from now on.

        ``None`` only where another thread was faster. The slice before it is settled.
        """
        with self._lock:
            self.due = False
            self._of_one_partition = of_one_partition
            self._ends = None
            self.begin(messages)
            if self._thread is None:
                self._thread = start_thread("kafka-remote-offsets", _watch, weakref.ref(self), self._stopped)
                self.due = self._thread is None  # without the thread, each poll() does its work
        return self.take()

    def store(self) -> bool:
        """Stores the offsets of the last records. False when they were stored before."""
        with self._lock:
            taken = self.taken
            if taken == self._stored_at:
                return False
            self._look(taken)
            self._stored_at = taken
            unstored, self._unstored = self._unstored, {}
            if self._store is not None:
                for last in unstored.values():
                    # Its partition was lost meanwhile, and lost partitions store nothing; or the consumer was dropped.
                    with suppress(KafkaException, RuntimeError):
                        self._store(last)
            return True

    def stand(self, key: tuple[str, int]) -> tuple[Message | None, bool]:
        """The record of a partition handed out last from this slice, and whether the position is the offset after it.

        It is while another one waits, or nobody asked for more. Stores nothing.

        Cheap enough to be asked after each record: no message is looked at twice.
        """
        with self._lock:
            taken = self.taken
            if taken != self._looked_at:
                self._look(taken)
            return self._lasts.get(key), key in self.unfollowed or self._last_places().get(key, 0) > taken

    def _last_places(self) -> dict[tuple[str, int], int]:
        """For each partition, how many messages of the slice there are up to its last record."""
        if self._ends is None:
            self._ends = {key_of(message): at for at, message in enumerate(self.messages, 1) if message.error() is None}
        return self._ends

    def _look(self, taken: int) -> None:
        """Notes the last record of each partition of what was handed out since the last look."""
        looked_at, self._looked_at = self._looked_at, taken
        if taken == looked_at + 1:  # position() after each record costs half of what follows
            message = self.messages[looked_at]
            if message.error() is None:
                key = key_of(message)
                self._lasts[key] = self._unstored[key] = message
                self.unfollowed.add(key)
                return
        handed = self.messages[looked_at:taken]
        lasts = self._last_of_each(handed)
        self._lasts |= lasts
        self._unstored |= lasts

    def _last_of_each(self, handed: list[Message]) -> dict[tuple[str, int], Message]:
        """The last record of each partition in ``handed``. The application has not asked for more of it, unless it got the
        end.
        """
        final = {key_of(message): message for message in (handed[-1:] if self._of_one_partition else handed)}
        ends = {key for key, message in final.items() if message.error() is not None}
        lasts = {key_of(message): message for message in handed if message.error() is None} if ends else final
        self.unfollowed |= lasts.keys()
        self.unfollowed -= ends
        return lasts

    def follow(self) -> set[tuple[str, int]]:
        """The application asks for more. Gives :attr:`unfollowed`, which is empty from now on."""
        with self._lock:
            unfollowed, self.unfollowed = self.unfollowed, set()
        return unfollowed

    @property
    def waiting_keys(self) -> set[tuple[str, int]]:
        """The partitions of which a record waits."""
        with self._lock:
            taken = self.taken
            return {key for key, end in self._last_places().items() if end > taken}

    def settle(self) -> tuple[list[Message], list[Message]]:
        """Stores what is not stored; gives each partition's last record and, in their order, those that wait; forgets both."""
        with self._lock:
            waiting = self.stop()
        self.store()
        with self._lock:
            lasts, self._lasts = list(self._lasts.values()), {}
            self._looked_at = self._stored_at = 0
            self._ends = None
            self.begin([])
        return lasts, waiting

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


def _watch(handed_out: weakref.ref[DeliveryQueue], stopped: threading.Event) -> None:
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
