"""Answers questions in parallel for a source that reads the store: a slow one is pending and delays no other.

::

    asked                      | becomes
    a new question             | a look-up in a separate thread, up to ``concurrency`` at once
    one with a running look-up | the same look-up: nothing is read twice
    answered within 0.1 s      | the answer
    not answered by then       | LocationPending; the look-up continues

An answer without a second request within a few seconds is dropped, because its end of the log is old by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import DirectFetchError, LocationError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.model import LocationAnswer, LocationPending, NotRemote, SegmentLocation
from kafka_remote_client.settings import default_of

__all__ = ["DEFAULT_CONCURRENCY", "LookUps"]

DEFAULT_CONCURRENCY: int = default_of("fetch.remote.lookup.concurrency")

_WAIT_SECONDS = 0.1
_KEPT_SECONDS = 5.0

_Answer = Callable[[LocationQuestion, Deadline], SegmentLocation | NotRemote]


class LookUps:
    """See the module. Thread safe. ``answer`` gets a question and its deadline, and may raise DirectFetchError kinds."""

    def __init__(self, answer: _Answer, clock: Clock, *, concurrency: int = DEFAULT_CONCURRENCY) -> None:
        self._answer = answer
        self._clock = clock
        self._workers = ThreadPoolExecutor(concurrency, thread_name_prefix="kafka-remote-look-up")
        self._lock = threading.Lock()
        self._going: dict[LocationQuestion, _LookUp] = {}
        self._closed = False

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource. ``deadline`` bounds each look-up from its start."""
        seconds = deadline.remaining()
        with self._lock:
            if self._closed:
                raise LocationError("the location source is closed")
            self._forget()
            going = {question: self._begun(question, seconds) for question in questions}
        wait([look_up.future for look_up in going.values()], min(_WAIT_SECONDS, seconds))
        answers = {question: look_up.answer for question, look_up in going.items()}
        with self._lock:
            for question, answer in answers.items():
                if not isinstance(answer, LocationPending):
                    self._going.pop(question, None)
        return answers

    def close(self) -> None:
        """Starts no more look-ups; running ones finish. May be called twice."""
        with self._lock:
            self._closed = True
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _begun(self, question: LocationQuestion, seconds: float) -> _LookUp:
        if question not in self._going:
            self._going[question] = _LookUp(self._workers.submit(self._look_up, question, seconds))
        return self._going[question]

    def _look_up(self, question: LocationQuestion, seconds: float) -> tuple[LocationAnswer, float]:
        """The answer, and its time."""
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
    """One look-up, running or finished."""

    def __init__(self, future: Future[tuple[LocationAnswer, float]]) -> None:
        self.future = future

    @property
    def answer(self) -> LocationAnswer:
        """Raises an exception other than DirectFetchError, which is a defect."""
        if self.future.cancelled():
            return LocationError("the location source is closed")
        return self.future.result()[0] if self.future.done() else LocationPending()

    def ended_before(self, moment: float) -> bool:
        """Whether it failed, or finished before ``moment``."""
        future = self.future
        if not future.done():
            return False
        return future.cancelled() or future.exception() is not None or future.result()[1] < moment
