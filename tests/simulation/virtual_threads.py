"""Threads of a world: real threads of which one runs at a time, and which wait in virtual time.

Blocking code of the product runs in them unchanged: the client's location source and the shim's follower. A thread that waits
gives its turn back to whoever let it run, so the order of all steps is that of the world's events.

::

    world ──start──► thread ──wait, lock, request──► world ──(an event)──► thread ──end──► world
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.locations import ManualClock

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["Resume", "VirtualClock", "VirtualLock", "VirtualThreads"]

_T = TypeVar("_T")

Resume = Callable[..., None]
"""``resume(value)`` or ``resume(error=...)``: the thread goes on with that. Only the first call counts."""


class _EndedError(BaseException):
    """The world ends: unwinds a thread."""


class _Worker:
    """A thread that does one piece of work after the other."""

    def __init__(self) -> None:
        self._goes, self._waits = threading.Lock(), threading.Lock()  # held, except for a moment: they pass the turn on
        self._goes.acquire()
        self._waits.acquire()
        self.work: Callable[[], None] | None = None
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="simulated", daemon=True)
        self.thread.start()

    def switch(self) -> None:
        """Lets it run until it waits or has done its work. Raises what the work raised."""
        self._goes.release()
        self._waits.acquire()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def pause(self) -> None:
        """Called in it: waits for the next switch."""
        self._waits.release()
        self._goes.acquire()

    def _run(self) -> None:
        self._goes.acquire()
        while self.work is not None:
            try:
                self.work()
            except _EndedError:
                pass
            except BaseException as failure:
                self.failure = failure
            self.work = None
            self.pause()
        self._waits.release()


class VirtualThreads:
    """The threads of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._idle: list[_Worker] = []
        self._busy: list[_Worker] = []
        self._running: list[_Worker] = []
        """Who runs now, behind those that let it run."""
        self._closed = False

    @property
    def inside(self) -> bool:
        """Whether the caller is one of the threads."""
        return bool(self._running)

    def start(self, work: Callable[[], object]) -> None:
        """Starts a thread. Returns when it waits or has ended. Raises what it raised by then."""
        worker = self._idle.pop() if self._idle else _Worker()
        self._busy.append(worker)

        def whole() -> None:
            try:
                work()
            finally:
                self._busy.remove(worker)
                self._idle.append(worker)

        worker.work = whole
        self._switch(worker)

    def block(self, begin: Callable[[Resume], object]) -> Any:
        """Called in a thread: waits until the ``resume`` that ``begin`` gets is called."""
        worker = self._running[-1]
        result: list[tuple[object, BaseException | None]] = []
        waits = False

        def resume(value: object = None, *, error: BaseException | None = None) -> None:
            if not result:
                result.append((value, error))
                if waits:
                    self._switch(worker)

        begin(resume)
        waits = True
        if not result:
            worker.pause()
        if self._closed:
            raise _EndedError
        value, failure = result[0]
        if failure is not None:
            raise failure
        return value

    def wait(self, seconds: float) -> None:
        """Called in a thread: waits so long."""
        self.block(partial(self._world.after, max(seconds, 0.0)))

    def side_by_side(self, _name: str, calls: Sequence[Callable[[], _T]]) -> list[_T]:
        """As ``threads.side_by_side``: the first call here, the others in threads."""
        results: dict[int, _T] = {}
        failures: list[BaseException] = []
        told: list[Resume] = []

        def run(index: int) -> None:
            try:
                results[index] = calls[index]()
            except Exception as failure:
                failures.append(failure)
            if told and len(results) + len(failures) == len(calls):
                self._world.after(0.0, told.pop())

        for index in range(1, len(calls)):
            self.start(partial(run, index))
        if calls:
            run(0)
        if len(results) + len(failures) < len(calls):
            self.block(told.append)
        if failures:
            raise failures[0]
        return [results[index] for index in range(len(calls))]

    def close(self) -> None:
        """Ends all threads, also those that wait."""
        self._closed = True
        while self._busy:
            with suppress(Exception):  # of an unwinding that fails: the world has failed before
                self._switch(self._busy[-1])
        for worker in self._idle:
            worker.switch()
            worker.thread.join()

    def _switch(self, worker: _Worker) -> None:
        self._running.append(worker)
        try:
            worker.switch()
        finally:
            self._running.pop()


class VirtualLock:
    """Takes the place of a lock that a thread holds while it waits for an answer. Re-entrant for nobody."""

    def __init__(self, world: World, threads: VirtualThreads) -> None:
        self._world = world
        self._threads = threads
        self._held = False
        self._waiting: deque[Resume] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As ``threading.Lock``."""
        if not self._held:
            self._held = True
            return True
        if not blocking or not self._threads.inside:
            return False

        def begin(resume: Resume) -> None:
            self._waiting.append(resume)
            if timeout >= 0:
                self._world.after(timeout, partial(self._give_up, resume))

        return bool(self._threads.block(begin))

    def _give_up(self, resume: Resume) -> None:
        if resume in self._waiting:
            self._waiting.remove(resume)
            resume(False)

    def release(self) -> None:
        """As ``threading.Lock``. The thread that has waited longest has it then."""
        if self._waiting:
            self._world.after(0.0, partial(self._waiting.popleft(), True))
        else:
            self._held = False

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class VirtualClock(ManualClock):
    """The clock of a world with threads: a thread that waits lets the world go on."""

    threads: VirtualThreads

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if self.threads.inside and not event.is_set():
            self.threads.wait(seconds)
        return event.is_set()
