"""Messages that ``poll`` returns one by one from a slice, and their offsets, which are stored shortly after.

Storing an offset costs several times as much as returning a record, so ``poll`` only counts. Offsets of the last records are
stored before any call that could observe them: a commit, a position, a seek, a callback, the end. If the application does
nothing more, a thread stores them within hundredths of a second, so that a record with a long processing time is committed in
time. The same thread sets ``due`` ten times a second: the inner consumer needs a poll, because only that counts for
``max.poll.interval.ms``.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Message

from kafka_remote_client.consumer.message_positions import key_of
from kafka_remote_client.records import MessageSlice
from kafka_remote_client.threads import start_thread

__all__ = ["DeliveryQueue"]

_TICK_SECONDS = 0.01
_TICKS_UNTIL_DUE = 10
_TICKS_UNTIL_IDLE = 100


class DeliveryQueue(MessageSlice):
    """The current slice. ``store``: stores a record's offset; ``None`` if the application stores offsets.

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
        """Partitions whose last delivered message was a record, since :meth:`follow`."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    @property
    def waiting(self) -> list[Message]:
        """The messages that are not delivered yet."""
        return self.messages[self.taken :]

    @property
    def last(self) -> Message | None:
        """The last record that was delivered from this slice."""
        handed = self.messages[: self.taken]
        return next((message for message in reversed(handed) if message.error() is None), None)

    def hand_out(self, messages: list[Message], *, of_one_partition: bool) -> Message | None:
        """Begins a slice, returns its first message, and makes the thread watch from now on.

        ``None`` only if another thread was faster. The slice before it must be settled.
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

    def delivered(self, key: tuple[str, int]) -> tuple[Message | None, bool]:
        """Returns a partition's last delivered record of this slice, and whether the position is the offset after it.

        It is, while another record waits or no further call was made. Stores nothing.

        Cheap enough for a call after each record: it examines no message twice.
        """
        with self._lock:
            taken = self.taken
            if taken != self._looked_at:
                self._look(taken)
            return self._lasts.get(key), key in self.unfollowed or self._last_places().get(key, 0) > taken

    def _last_places(self) -> dict[tuple[str, int], int]:
        """Returns for each partition the number of the slice's messages up to its last record."""
        if self._ends is None:
            self._ends = {key_of(message): at for at, message in enumerate(self.messages, 1) if message.error() is None}
        return self._ends

    def _look(self, taken: int) -> None:
        """Records the last record of each partition among the messages delivered since the last call."""
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
        """Sets the last record of each partition in ``handed``. The application has not polled again for it, unless it got the
        end.
        """
        final = {key_of(message): message for message in (handed[-1:] if self._of_one_partition else handed)}
        ends = {key for key, message in final.items() if message.error() is not None}
        lasts = {key_of(message): message for message in handed if message.error() is None} if ends else final
        self.unfollowed |= lasts.keys()
        self.unfollowed -= ends
        return lasts

    def follow(self) -> set[tuple[str, int]]:
        """The application polls again. Returns :attr:`unfollowed` and clears it."""
        with self._lock:
            unfollowed, self.unfollowed = self.unfollowed, set()
        return unfollowed

    @property
    def waiting_keys(self) -> set[tuple[str, int]]:
        """The partitions with a waiting record."""
        with self._lock:
            taken = self.taken
            return {key for key, end in self._last_places().items() if end > taken}

    def settle(self) -> tuple[list[Message], list[Message]]:
        """Stores unstored offsets. Returns each partition's last record and the waiting messages in order, and drops both."""
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
        """Ends the thread; offsets that are not stored yet never will be."""
        self._stopped.set()
        thread = self._thread
        if thread is not None:
            thread.join()

    def rest(self) -> bool:
        """Whether the thread may end: no slice was begun since it set ``due``."""
        with self._lock:
            if self.due:
                self._thread = None
            return self.due


def _watch(reference: weakref.ref[DeliveryQueue], stopped: threading.Event) -> None:
    """Runs until nothing was delivered for a second; the next check of ``due`` then starts a new thread."""
    ticks = idle = 0
    while not stopped.wait(_TICK_SECONDS):
        queue = reference()
        if queue is None:
            return
        idle = 0 if queue.store() else idle + 1
        if idle > _TICKS_UNTIL_IDLE + 1 and queue.rest():
            return  # ``due`` was set a tick ago, so no delivery since then is missed
        ticks += 1
        if ticks % _TICKS_UNTIL_DUE == 0 or idle > _TICKS_UNTIL_IDLE:
            queue.due = True
        del queue
