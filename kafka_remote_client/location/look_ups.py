"""Answers questions in parallel for a source that reads the store: a slow one is pending and delays no other.

::

    question                           | result
    new                                | a look-up in the caches, in threads that never wait for the store
    needs a read of the store          | a look-up in other threads, up to ``concurrency`` at once; more wait
    its look-up is running             | the same look-up: nothing is read twice
    answered within 0.1 s of either    | the answer
    not answered by then               | LocationPending; the look-up continues
    not answered after ``timeout``     | "location-pending"; a look-up that still waits for a thread does not begin

So cached objects never wait behind reads. A look-up that needs a read asks the leader about its position twice.

An answer is dropped if no request takes it within a few seconds, because its end of the log is old by then.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer, LocationPending, NotRemote, SegmentLocation
from kafka_remote_client.remote_log.kept_only import NotKeptError, kept_only
from kafka_remote_client.settings import default_of
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["DEFAULT_CONCURRENCY", "DEFAULT_TIMEOUT_SECONDS", "LookUps"]

DEFAULT_CONCURRENCY: int = default_of("fetch.remote.lookup.concurrency")
DEFAULT_TIMEOUT_SECONDS: float = default_of("fetch.remote.pending.timeout.ms") / 1000

_WAIT_SECONDS = 0.1
_KEPT_SECONDS = 5.0
_LONG_AGO = -math.inf

_Answer = Callable[[LocationQuestion, Deadline], SegmentLocation | NotRemote]
_Ended = tuple[LocationAnswer, float]
"""The answer of a look-up, and its time."""


class LookUps:
    """See the module. Thread safe. ``answer`` gets a question and its deadline, and may raise DirectFetchError kinds.

    ``answer`` is called in :func:`kept_only` first, and again if it raises NotKeptError. ``timeout`` is in seconds and includes
    the wait for a thread.
    """

    def __init__(
        self,
        answer: _Answer,
        clock: Clock,
        *,
        concurrency: int = DEFAULT_CONCURRENCY,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self._answer = answer
        self._clock = clock
        self._timeout = timeout
        self._workers = DaemonExecutor(concurrency, "kafka-remote-look-up")
        self._kept_workers = DaemonExecutor(concurrency, "kafka-remote-kept")
        self._lock = threading.Lock()
        self._going: dict[LocationQuestion, _LookUp] = {}
        self._closed = False

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource. ``deadline`` limits the requests of each look-up to leaders, from its start."""
        seconds = deadline.remaining()
        with self._lock:
            if self._closed:
                raise LocationError("the location source is closed")
            self._forget()
            going = {question: self._begun(question, seconds) for question in questions}
        for _ in ("what is kept", "what is read"):
            wait([look_up.future for look_up in going.values()], min(_WAIT_SECONDS, seconds))
        with self._lock:  # otherwise a look-up may begin its read between two checks of its future
            answers = {question: look_up.answer for question, look_up in going.items()}
            for question, look_up in going.items():
                if look_up.future.done() and not isinstance(answers[question], LocationPending):
                    self._going.pop(question, None)
        return answers

    def close(self) -> None:
        """Starts no more look-ups; running ones finish. May be called twice."""
        with self._lock:
            self._closed = True
        for workers in (self._kept_workers, self._workers):
            workers.shutdown(wait=False, cancel_futures=True)

    def _begun(self, question: LocationQuestion, seconds: float) -> _LookUp:
        if question not in self._going:
            look_up = self._going[question] = _LookUp(Deadline(self._clock, self._timeout))
            look_up.future = self._kept_workers.submit(self._look_up_kept, look_up, question, seconds)
        return self._going[question]

    def _look_up_kept(self, look_up: _LookUp, question: LocationQuestion, seconds: float) -> _Ended:
        with suppress(NotKeptError), kept_only():
            return self._look_up(look_up, question, seconds)
        with self._lock:
            if not self._closed:
                look_up.future = self._workers.submit(self._look_up, look_up, question, seconds)
        return LocationError("the location source is closed"), self._clock.monotonic()

    def _look_up(self, look_up: _LookUp, question: LocationQuestion, seconds: float) -> _Ended:
        if look_up.refusal is not None:
            return look_up.refusal, _LONG_AGO  # the next request begins a new look-up
        try:
            answer: LocationAnswer = self._answer(question, Deadline(self._clock, seconds))
        except DirectFetchError as error:
            answer = error
        return answer, self._clock.monotonic()

    def _forget(self) -> None:
        """Drops old answers."""
        now = self._clock.monotonic()
        self._going = {question: one for question, one in self._going.items() if not one.ended_before(now - _KEPT_SECONDS)}


class _LookUp:
    """One look-up, running or finished. ``future``: of the look-up in the caches, then of the one that reads, if necessary."""

    future: Future[_Ended]

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    @property
    def refusal(self) -> LocationAnswer | None:
        """The answer past the deadline."""
        return NotRemote("location-pending") if self._deadline.expired() else None

    @property
    def answer(self) -> LocationAnswer:
        """Raises an exception other than DirectFetchError, which is a defect."""
        if self.future.cancelled():
            return LocationError("the location source is closed")
        return self.future.result()[0] if self.future.done() else self.refusal or LocationPending()

    def ended_before(self, moment: float) -> bool:
        """Whether it failed, or finished before ``moment``."""
        future = self.future
        if not future.done():
            return False
        return future.cancelled() or future.exception() is not None or future.result()[1] < moment
