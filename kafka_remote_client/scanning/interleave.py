"""A few threads run several iterators and yield the items as they arrive: a stream in bounded memory.

::

    iterators   a  b  c  d  e            one thread runs each, from its first item to its last one
    threads     |--a--|--c---|
                |---b---|-d-|--e--|
    queue       at most as many items as there are threads; a thread with one more waits

Theory of operation. A thread holds one item while it waits for room, so at most twice as many items as threads exist outside
of the caller. An iterator that raises ends all of them: the caller gets its exception after the items before it. A caller
that calls ``close`` ends them at their next item. If no thread can be started, the caller runs the iterators.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Generic, TypeVar

from kafka_remote_client.threads import start_thread

__all__ = ["interleaved"]

_T = TypeVar("_T")


def interleaved(iterators: Sequence[Callable[[], Generator[_T, None, None]]], threads: int) -> Generator[_T, None, None]:
    """Yields all items of all iterators, which the calls create. Items of one iterator keep their order.

    Raises what an iterator raises.
    """
    if threads < 2 or len(iterators) < 2:
        yield from _one_after_the_other(iterators)
        return
    shared = _Shared(deque(iterators), threads)
    started = [
        thread
        for _ in range(min(threads, len(iterators)))
        if (thread := start_thread("kafka-remote-scan", shared.run)) is not None
    ]
    try:
        if started:
            yield from shared.items(len(started))
        else:
            yield from _one_after_the_other(iterators)
    finally:
        shared.stop()
        for thread in started:
            thread.join()


def _one_after_the_other(iterators: Iterable[Callable[[], Generator[_T, None, None]]]) -> Iterator[_T]:
    for make in iterators:
        with closing(make()) as items:
            yield from items


class _Shared(Generic[_T]):
    """What the threads and the caller share, under one lock."""

    def __init__(self, waiting: deque[Callable[[], Generator[_T, None, None]]], room: int) -> None:
        self._waiting = waiting
        self._room = room
        self._ready: deque[_T] = deque()
        self._failures: list[BaseException] = []
        self._ended = 0
        self._stopped = False
        self._changed = threading.Condition()

    def run(self) -> None:
        """Runs one iterator after the other, in a thread."""
        try:
            while (make := self._next()) is not None:
                with closing(make()) as items:
                    if not all(self._put(item) for item in items):
                        break
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            with self._changed:
                self._failures.append(error)
                self._stopped = True
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def items(self, threads: int) -> Iterator[_T]:
        """Yields the items of ``threads`` threads, until the last thread has ended."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ready or self._ended == threads)
                if not self._ready:
                    break
                item = self._ready.popleft()
                self._changed.notify_all()
            yield item
        if self._failures:
            raise self._failures[0]

    def stop(self) -> None:
        """Ends the iterators for the caller."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _next(self) -> Callable[[], Generator[_T, None, None]] | None:
        with self._changed:
            return None if self._stopped or not self._waiting else self._waiting.popleft()

    def _put(self, item: _T) -> bool:
        """Whether the thread should continue."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or len(self._ready) < self._room)
            if not self._stopped:
                self._ready.append(item)
                self._changed.notify_all()
            return not self._stopped
