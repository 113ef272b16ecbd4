"""Requests the bounds of a partition's tiers in the background, for callers that must not wait.

One daemon thread, started by the first question. An answer is returned once: the next question asks again.

A request about a thousand partitions takes a fifth of a second, and no partition can begin before its bounds are known. So
the first request is about a few partitions only, and each following one about four times as many, until none waits.

Large requests and answers take CPU time. If they come next, they wait until the first partitions had time to begin.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from itertools import islice

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.location.guarded_source import GuardedLocationSource
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.threads import start_thread

__all__ = ["OffsetsWatch"]

_log = logging.getLogger(__name__)

_FIRST_PARTITIONS, _GROWTH = 32, 4
_MANY_PARTITIONS = 128
_PAUSE_SECONDS = 0.1
"""Between the first request and the next, if more than ``_MANY_PARTITIONS`` wait. About two round trips to a fast store."""


class OffsetsWatch:
    """Thread-safe. ``timeout`` bounds one request, in seconds. ``answered`` is called, without a lock, after each request."""

    def __init__(
        self, source: GuardedLocationSource, clock: Clock, timeout: float, answered: Callable[[], None] = lambda: None
    ) -> None:
        self._source = source
        self._clock = clock
        self._timeout = timeout
        self._answered = answered
        self._changed = threading.Condition()
        self._asked: dict[tuple[str, int], None] = {}
        self._running: frozenset[tuple[str, int]] = frozenset()
        self._answers: dict[tuple[str, int], PartitionOffsets | DirectFetchError] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    def offsets_of(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], PartitionOffsets | DirectFetchError]:
        """Returns answers to earlier questions about ``partitions`` (topic, number), or their errors; asks about the others.

        Not about those of the request that runs.
        """
        with self._changed:  # for both, because asking forgets an answer that arrives in between
            found = {key: answer for key in partitions if (answer := self._answers.pop(key, None)) is not None}
            self.ask(key for key in partitions if key not in found and key not in self._running)
        return found

    def ask(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Asks about partitions (topic, number). Answers to earlier questions about them are forgotten, also to those that run.

        They may be older than the caller's reason to ask.
        """
        with self._changed:
            if self._closed:
                return
            for key in partitions:
                self._answers.pop(key, None)
                self._asked[key] = None
            if self._asked and self._thread is None:
                self._thread = start_thread("kafka-remote-offsets", self._run)
            self._changed.notify()

    def answer(self, key: tuple[str, int]) -> PartitionOffsets | DirectFetchError | None:
        """Returns the answer to an earlier question, or its error; ``None`` while it runs."""
        with self._changed:
            return self._answers.pop(key, None)

    def close(self, timeout: float) -> None:
        """Ends the thread; a running question may continue for up to ``timeout`` seconds as a daemon."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        partitions = _FIRST_PARTITIONS
        while True:
            with self._changed:
                while not self._asked and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                asked = list(islice(self._asked, partitions))
                self._running = frozenset(asked)
                for key in asked:
                    del self._asked[key]
            answers = self._source.offsets_of(asked, Deadline(self._clock, self._timeout))
            with self._changed:
                self._running = frozenset()
                for key in asked:
                    answer = answers[key]
                    if isinstance(answer, DirectFetchError):
                        _log.debug("cannot get the bounds of the tiers of %s-%d: %s", *key, answer.cause)
                    if key not in self._asked:
                        self._answers[key] = answer
            self._answered()
            with self._changed:
                if partitions == _FIRST_PARTITIONS and len(self._asked) > _MANY_PARTITIONS:
                    self._changed.wait_for(lambda: self._closed, _PAUSE_SECONDS)
                partitions = _GROWTH * partitions if self._asked else _FIRST_PARTITIONS
