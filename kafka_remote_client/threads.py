"""Daemon threads. The system may refuse to start one; callers must work without it.

:class:`DaemonExecutor` replaces ``ThreadPoolExecutor``, which refuses all calls from the moment the main thread ends. An
application's other threads may go on, and the process lives until they end. The exit of the process, which follows, waits for
running calls as it does with ``ThreadPoolExecutor``.

References: ``threading._shutdown``, ``concurrent.futures.thread._python_exit``.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

__all__ = ["DaemonExecutor", "side_by_side", "start_thread"]

_log = logging.getLogger(__name__)
_refused: set[str] = set()

_P = ParamSpec("_P")
_T = TypeVar("_T")


def start_thread(name: str, target: Callable[..., object], *args: object) -> threading.Thread | None:
    """A daemon thread that runs ``target(*args)``, or ``None`` where the process can have no more threads.

    A refusal is a warning in the log, once until a thread of that name can be started again.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _log.log(logging.DEBUG if name in _refused else logging.WARNING, "the thread %s cannot be started: %s", name, error)
        _refused.add(name)
        return None
    _refused.discard(name)
    return thread


def side_by_side(name: str, calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """What each call returns, all run at once: the first one here, each other one in a thread, or here where there is none.

    Raises what a call raised, once all are over.
    """
    results: list[_T | None] = [None] * len(calls)
    failures: list[BaseException] = []

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            failures.append(error)

    threads = [(index, start_thread(name, run, index)) for index in range(1, len(calls))]
    for index in [*range(min(1, len(calls))), *(index for index, thread in threads if thread is None)]:
        run(index)
    for _, thread in threads:
        if thread is not None:
            thread.join()
    if failures:
        raise failures[0]
    return results  # type: ignore[return-value]  # each call has put its result there


_Call = tuple[Future[Any], Callable[[], Any]]


class DaemonExecutor(Executor):
    """Up to ``most`` daemon threads with names from ``name``. One is started if all others are busy. See the module."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._work = _Work()
        self._threads: list[threading.Thread] = []
        self._closed = False
        _executors.add(self)

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """As of any executor. Raises RuntimeError after :meth:`shutdown`, and if the process can have no more threads."""
        future: Future[_T] = Future()
        with self._work.lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if len(self._threads) < min(self._work.going + 1, self._most):
                thread = start_thread(f"{self._name}_{len(self._threads)}", self._work.run)
                if thread is not None:
                    self._threads.append(thread)
                elif not self._threads:
                    raise RuntimeError(f"the thread {self._name} cannot be started")
            self._work.going += 1
            self._work.calls.put((future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        with self._work.lock:
            self._closed = True
        while cancel_futures:
            try:
                call = self._work.calls.get_nowait()
            except Empty:
                break
            if call is not None:
                call[0].cancel()
        self._work.calls.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def __del__(self) -> None:
        self._work.calls.put(None)


class _Work:
    """The calls of an executor, to which its threads have no reference. ``going``: how many wait or run; with ``lock``."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.lock = threading.Lock()
        self.going = 0

    def run(self) -> None:
        """A thread: runs calls until there is a ``None``, which it leaves for the next thread."""
        while (call := self.calls.get()) is not None:
            self._run(*call)
            del call
        self.calls.put(None)

    def _run(self, future: Future[Any], call: Callable[[], Any]) -> None:
        result = failure = None
        runs = future.set_running_or_notify_cancel()
        if runs:
            try:
                result = call()
            except BaseException as error:  # noqa: BLE001 - raised by the future
                failure = error
        with self.lock:  # before the result, so that a caller that has it finds this thread idle
            self.going -= 1
        if failure is not None:
            future.set_exception(failure)
        elif runs:
            future.set_result(result)
        del future, failure  # the traceback refers to this frame


_executors: WeakSet[DaemonExecutor] = WeakSet()


def _end() -> None:
    """No thread of the application is left, except daemons."""
    for executor in list(_executors):
        executor.shutdown(cancel_futures=True)


atexit.register(_end)
os.register_at_fork(after_in_child=_executors.clear)  # a child has none of their threads
