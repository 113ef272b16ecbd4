"""Real threads of the product, run one at a time in an order that a seed decides.

::

    with Interleaving(seed, loading_cache, byte_bound_cache) as run:    # the modules whose threads, locks and lines it controls
        cache = LoadingCache(1000)                                      # its locks are the harness's
        run.start("first", lambda: cache.get("key", load))
        run.start("second", lambda: cache.get("key", load))
        run.finish()                                                    # until all have ended

A thread runs until it takes or releases a lock, waits, or begins another line of a controlled module; then the seed chooses the
next thread. So unprotected accesses interleave too. A wait with a time-out ends by it only if no thread can run: then the
virtual clock moves to the first time-out. If there is none, the threads wait for each other for ever: DeadlockError. ``story``
names each switch: the thread, and the line at which it stopped.

The modules need no seam: the harness replaces ``threading`` and ``start_thread`` in them, and in the module of ``Future``.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import _base as futures
from types import FrameType, ModuleType, TracebackType
from typing import Any, Self

__all__ = ["DeadlockError", "Interleaving"]

_SWITCH_SHARE = 0.3
"""The share of lines before which the seed chooses again."""


class DeadlockError(AssertionError):
    """No thread can run."""


class _AbandonedError(BaseException):
    """Ends a thread after another one has failed."""


class _Worker:
    """A controlled thread. It runs only while it holds ``turn``. ``ready``: whether it can run; ``until``: its time-out.

    To the product it is a ``threading.Thread``.
    """

    def __init__(self, run: Interleaving, name: str) -> None:
        self._run = run
        self.name = name
        self.turn = threading.Semaphore(0)
        self.ready: Callable[[], bool] = lambda: True
        self.until: float | None = None
        self.timed_out = False
        self.ended = False
        self.at = "its start"

    def is_alive(self) -> bool:
        return not self.ended

    def join(self, timeout: float | None = None) -> None:
        self._run.wait(lambda: self.ended, f"the end of {self.name}", timeout)


class Interleaving:
    """See the module. Use it from one thread, the main one, which runs only before :meth:`finish` and after it."""

    def __init__(self, seed: int, *modules: ModuleType) -> None:
        self._chance = random.Random(seed)
        self._modules = (futures, *modules)
        self._files = {module.__file__ for module in modules}
        self._saved: list[tuple[ModuleType, str, Any]] = []
        self._workers: list[_Worker] = []
        self._threads: list[threading.Thread] = []
        self._current: _Worker | None = None
        self._over = threading.Semaphore(0)
        self._failures: list[BaseException] = []
        self.abandoned = False
        self.now = 0.0
        self.story: list[str] = []

    def __enter__(self) -> Self:
        replacements = {"threading": _Threading(self), "start_thread": self.start}
        for module in self._modules:
            for name, replacement in replacements.items():
                if name in vars(module):
                    self._saved.append((module, name, vars(module)[name]))
                    setattr(module, name, replacement)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for module, name, original in self._saved:
            setattr(module, name, original)

    # -- threads -----------------------------------------------------------------------------------------------------------

    def start(self, name: str, target: Callable[..., object], *args: object) -> _Worker:
        """A thread that runs ``target(*args)`` when it is its turn."""
        worker = _Worker(self, name)
        self._workers.append(worker)
        thread = threading.Thread(target=self._run, args=(worker, target, args), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()
        return worker

    def finish(self) -> None:
        """Runs all threads until they have ended. Raises what the first failing one raised, and DeadlockError."""
        self._pass_on(None)
        self._over.acquire()
        self.abandoned = bool(self._failures)
        for worker, thread in zip(self._workers, self._threads, strict=True):
            worker.turn.release()
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _run(self, worker: _Worker, target: Callable[..., object], args: tuple[object, ...]) -> None:
        worker.turn.acquire()
        if self.abandoned:
            return
        sys.settrace(self._trace)
        try:
            target(*args)
        except _AbandonedError:
            return
        except BaseException as error:
            self._failures.append(error)
        finally:
            sys.settrace(None)
            worker.ended = True
            if not self.abandoned:
                self._pass_on(worker)

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line" and self._chance.random() < _SWITCH_SHARE:
            self.step(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        return self._trace

    def monotonic(self) -> float:
        """The virtual time in seconds. With the next two it is a Clock."""
        return self.now

    def time_ms(self) -> int:
        return round(self.now * 1000)

    def jitter(self) -> float:
        return 0.5

    @property
    def clock(self) -> InterleavedClock:
        """The virtual time for code that waits for an event with its clock."""
        return InterleavedClock(self)

    # -- turns -------------------------------------------------------------------------------------------------------------

    def step(self, at: str) -> None:
        """Another thread may run now."""
        self.wait(lambda: True, at)

    def wait(self, ready: Callable[[], bool], at: str, seconds: float | None = None) -> bool:
        """The current thread waits until ``ready()``. Returns False if the time-out came first. Main: it must be ready."""
        worker = self._current
        if self.abandoned:
            raise _AbandonedError
        if worker is None:
            assert ready(), "the main thread would wait for ever"
            return True
        worker.ready, worker.at, worker.timed_out = ready, at, False
        worker.until = None if seconds is None else self.now + seconds
        if self._pass_on(worker):
            worker.turn.acquire()
        if self.abandoned:
            raise _AbandonedError
        return not worker.timed_out

    def _pass_on(self, worker: _Worker | None) -> bool:
        """Gives the turn to a thread that can run. Returns whether that is another one than ``worker``."""
        alive = [one for one in self._workers if not one.ended]
        if not alive or self._failures:
            self._current = None
            self._over.release()
            return True
        able = [one for one in alive if one.ready()] or self._first_time_out(alive)
        if not able:
            places = "; ".join(f"{one.name} at {one.at}" for one in alive)
            self._failures.append(DeadlockError(f"all threads wait: {places}"))
            self._current = None
            self._over.release()
            return True
        chosen = self._chance.choice(able)
        if chosen is worker:
            return False
        self.story.append(f"{chosen.name} goes on at {chosen.at}")
        self._current = chosen
        chosen.turn.release()
        return True

    def _first_time_out(self, alive: list[_Worker]) -> list[_Worker]:
        """Moves the clock to the first time-out, and returns its thread, if any."""
        waiting = [one for one in alive if one.until is not None]
        for first in sorted(waiting, key=lambda one: one.until or 0.0)[:1]:
            self.now = max(self.now, first.until or 0.0)
            first.timed_out = True
            return [first]
        return []

    @property
    def current(self) -> _Worker | None:
        """The thread that runs; ``None``: the main one."""
        return self._current


class InterleavedClock:
    """A Clock. See :class:`kafka_remote_client.clock.Clock`."""

    def __init__(self, run: Interleaving) -> None:
        self._run = run
        self.monotonic, self.time_ms, self.jitter = run.monotonic, run.time_ms, run.jitter

    def wait(self, event: Any, seconds: float) -> bool:
        return bool(event.wait(seconds))


class _Threading:
    """What modules use of ``threading``."""

    def __init__(self, run: Interleaving) -> None:
        self._run = run

    def Lock(self) -> _Lock:
        return _Lock(self._run, reentrant=False)

    def RLock(self) -> _Lock:
        return _Lock(self._run, reentrant=True)

    def Event(self) -> _Event:
        return _Event(self._run)

    def Thread(self, *, target: Callable[..., object], args: tuple[object, ...], name: str, daemon: bool) -> _Unstarted:
        assert daemon
        return _Unstarted(self._run, name, target, args)

    def Condition(self, lock: _Lock | None = None) -> _Condition:
        return _Condition(self._run, _Lock(self._run, reentrant=True) if lock is None else lock)

    def get_ident(self) -> int:
        return 1 + id(self._run.current)


class _Lock:
    def __init__(self, run: Interleaving, *, reentrant: bool) -> None:
        self._run = run
        self._reentrant = reentrant
        self._owner: object = None
        self.depth = 0

    def acquire(self) -> bool:
        me = self._run.current or self._run
        if not (self._reentrant and self._owner is me):
            self._run.wait(lambda: self.depth == 0, "a lock")
        self._owner, self.depth = me, self.depth + 1
        return True

    def release(self) -> None:
        if self._run.abandoned:
            return
        assert self._owner is (self._run.current or self._run), "released by a thread that does not hold it"
        self.depth -= 1
        if not self.depth:
            self._owner = None
            self._run.step("a released lock")

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class _Condition:
    def __init__(self, run: Interleaving, lock: _Lock) -> None:
        self._run = run
        self._lock = lock
        self._waiting: list[list[bool]] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        notified = [False]
        self._waiting.append(notified)
        depth, self._lock.depth = self._lock.depth, 0
        came = self._run.wait(lambda: notified[0], "a condition", timeout)
        if notified in self._waiting:
            self._waiting.remove(notified)
        self._lock.acquire()
        self._lock.depth = depth
        return came

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        until = None if timeout is None else self._run.now + timeout
        while not predicate():
            left = None if until is None else until - self._run.now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, count: int = 1) -> None:
        assert self._lock.depth, "notified without the lock"
        for notified in self._waiting[:count]:
            notified[0] = True
        del self._waiting[:count]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class _Event:
    def __init__(self, run: Interleaving) -> None:
        self._run = run
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._run.step("a set event")

    def wait(self, timeout: float | None = None) -> bool:
        self._run.wait(self.is_set, "an event", timeout)
        return self._is_set


class _Unstarted:
    """A ``threading.Thread`` of a controlled module."""

    def __init__(self, run: Interleaving, name: str, target: Callable[..., object], args: tuple[object, ...]) -> None:
        self._run = run
        self._begin = name, target, args
        self._worker: _Worker | None = None

    def start(self) -> None:
        name, target, args = self._begin
        self._worker = self._run.start(name, target, *args)

    def is_alive(self) -> bool:
        return self._worker is not None and self._worker.is_alive()

    def join(self, timeout: float | None = None) -> None:
        assert self._worker is not None, "joined before its start"
        self._worker.join(timeout)
