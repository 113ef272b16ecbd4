"""Look-ups of the tier in worker threads, each with a deadline. A thread cannot be stopped, so equal questions share one.

::

    a client asks                        | what happens
    a question without a look-up         | a worker thread looks it up
    the same, while the look-up runs     | it waits for that look-up and gets its answer
    the same offset with other bounds    | it waits for that look-up to end; then a thread looks it up, with what is cached
    any of these, past the deadline      | NotGrantedError at once, even if the thread still hangs
    what needs no read of the store      | other threads answer it, so it never waits for a read of the store

A client therefore uses at most one thread for each offset that it asks for, however often it asks. Only equal questions of one
connection share an answer, and the bounds of the log are part of a question: the broker's answer to a request sets them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from typing import Generic, TypeVar

from kafka_remote_client.location.probes import NotGrantedError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.remote_log.kept_only import NotKeptError, kept_only

__all__ = ["Lookups"]

_T = TypeVar("_T")
_R = TypeVar("_R")


class Lookups(Generic[_T]):
    """Runs in one event loop. ``timeout``: seconds for a look-up from its request on, including its wait for a thread.

    ``took`` gets the seconds that each look-up took, including that wait.

    ``kept_workers``: threads that never wait for the store. They call ``look_up`` in :func:`kept_only` first; ``workers`` call
    it only if that raises NotKeptError. ``kept_workers`` also do the work of :meth:`run`. ``None``: ``workers`` do everything.

    ``kept_at_once``: how many of the calls in :func:`kept_only` run at the same time, ``None`` = as many as there are threads.
    Threads that compute for milliseconds delay the event loop, which then waits for all of them at each step.
    """

    def __init__(
        self,
        workers: Executor,
        look_up: Callable[[LocationQuestion], _T],
        timeout: float,
        took: Callable[[float], None],
        kept_workers: Executor | None = None,
        kept_at_once: int | None = None,
    ) -> None:
        self._took = took
        self._workers = workers
        self._kept_workers = kept_workers
        self._kept_turns = nullcontext() if kept_at_once is None else asyncio.Semaphore(kept_at_once)
        self._look_up = look_up
        self._timeout = timeout
        self._running: dict[Hashable, tuple[LocationQuestion, _Work[_T]]] = {}

    async def answer(self, connection: Hashable, question: LocationQuestion) -> _T:
        """Returns the look-up's result. Raises its errors, and NotGrantedError past the deadline.

        Cancellation leaves the look-up running. ``connection``: the name of the client's connection.
        """
        key = connection, question.topic_id_partition, question.offset, question.isolation_level
        if self._kept_workers is not None and key not in self._running:
            loop = asyncio.get_running_loop()
            began = loop.time()
            with suppress(NotKeptError):
                async with self._kept_turns:
                    answer = await self.run(lambda: self._kept(question))
                self._took(loop.time() - began)
                return answer
        while True:
            asked, work = self._running.get(key) or self._begin(key, question)
            await work.end()
            if asked == question:
                return work.result()

    async def run(self, call: Callable[[], _R]) -> _R:
        """Runs work that does not wait for the store, with the same deadline."""
        work = _Work(self._kept_workers or self._workers, call, self._timeout)
        await work.end()
        return work.result()

    def _kept(self, question: LocationQuestion) -> _T:
        with kept_only():
            return self._look_up(question)

    def _begin(self, key: Hashable, question: LocationQuestion) -> tuple[LocationQuestion, _Work[_T]]:
        work = _Work(self._workers, lambda: self._look_up(question), self._timeout)
        work.when_ended(lambda: self._running.pop(key))
        loop = asyncio.get_running_loop()
        began = loop.time()
        work.when_ended(lambda: self._took(loop.time() - began))
        self._running[key] = question, work
        return question, work


class _Work(Generic[_R]):
    """A call in a worker thread."""

    def __init__(self, workers: Executor, call: Callable[[], _R], timeout: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout
        self._job = workers.submit(call)
        self._ended = asyncio.wrap_future(self._job)
        self.when_ended(lambda: self._ended.cancelled() or self._ended.exception())  # the caller may be gone

    def when_ended(self, tell: Callable[[], object]) -> None:
        self._ended.add_done_callback(lambda _ended: tell())

    async def end(self) -> None:
        """Waits for the end. Raises NotGrantedError past the deadline."""
        await asyncio.wait({self._ended}, timeout=max(self._deadline - self._loop.time(), 0))
        if not self._ended.done():
            self._job.cancel()  # a look-up that still waits for a thread does not begin
        if not self._ended.done() or self._ended.cancelled():
            raise NotGrantedError("lookup-timeout")

    def result(self) -> _R:
        """Returns the call's result, or raises its error."""
        return self._ended.result()
