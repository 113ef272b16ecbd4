"""Daemon threads. The system may refuse to start one; callers must work without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["side_by_side", "start_thread"]

_log = logging.getLogger(__name__)
_refused: set[str] = set()

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
