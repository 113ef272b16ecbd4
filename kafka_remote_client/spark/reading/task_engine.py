"""The engines of a Python worker: tasks with equal options that run one after the other share one, with its measurements.

Theory of operation. Spark keeps a Python worker for many tasks (``spark.python.worker.reuse``), one at a time. An engine has
connections to the cluster and to the store, threads, buffers, and cached facts about the tier; it is lent to a task and kept
for the next. The options from which an engine is built decide which one fits, and nothing of the task, so a repeated or
speculative task finds in it only what any task may know.

::

    lent out      never closed during a task, even if others are closed
    idle          at most KEPT, the last ones; its threads are daemons, and end with the worker
    not lent out again, and closed once no task has it: an engine that is older than MAX_AGE_SECONDS (certificates, names, and a
    listing of the store are read when it is built), and one under which a task failed or heard nothing

A forked process starts without engines: threads do not survive a fork, and both processes must not use a connection. The
child neither uses nor closes the parent's engines, because closing would send data on the parent's connections.

References: PySpark's daemon.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.fetch.assemble import required_engine
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.spark.options.client_options import ClientOptions
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.options.trust_store import librdkafka_settings

__all__ = ["KEPT", "MAX_AGE_SECONDS", "TaskEngines", "engine_for", "worker_engines"]

KEPT = 2
MAX_AGE_SECONDS = 300.0


def engine_for(options: SourceOptions, clock: Clock) -> FetchEngine | None:
    """Returns a new engine for the caller; ``None`` if ``fetch.remote.enabled`` is false.

    Raises ConfigurationError; DirectFetchOffError where direct fetch cannot work with these settings.
    """
    if not options.remote.enabled:
        return None
    return required_engine(options.remote, librdkafka_settings(options.client), clock, FetchMetrics(clock))


@attrs.define(eq=False)
class _Kept:
    """An engine, the options that it was built from (which keep secrets out of their ``repr``), and its users."""

    remote: RemoteFetchConfig
    client: ClientOptions
    engine: FetchEngine
    built_at: float
    users: int = 0
    retired: bool = False


class TaskEngines:
    """Lends engines. Thread safe."""

    def __init__(
        self,
        make_engine: Callable[[SourceOptions, Clock], FetchEngine | None] = engine_for,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._make_engine = make_engine
        self._clock = clock or SystemClock()
        self._start_empty()
        self._of_parent: list[_Kept] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._kept)} kept)"

    @contextmanager
    def lend(self, options: SourceOptions) -> Iterator[FetchEngine | None]:
        """Lends an engine for these options during the context; ``None`` as :func:`engine_for`.

        Raises what building one raises. An Exception that leaves the context retires the engine.
        """
        kept = self._take(options)
        if kept is None:
            yield None
            return
        try:
            yield kept.engine
        except Exception:
            kept.retired = True
            raise
        finally:
            self._give_back(kept)

    def close(self) -> None:
        """Closes idle engines; lent ones are closed on return. Engines can still be lent afterwards."""
        with self._lock:
            for kept in self._kept:
                kept.retired = True
            closing = self._removed()
        _close(closing)

    def forget(self) -> None:
        """In a newly forked process: starts empty, and does not use the parent's objects."""
        self._of_parent += self._kept
        self._start_empty()

    def _start_empty(self) -> None:
        self._lock = threading.Lock()
        self._kept: list[_Kept] = []
        """The most recently returned one is last."""

    def _take(self, options: SourceOptions) -> _Kept | None:
        now = self._clock.monotonic()
        with self._lock:
            for kept in self._kept:
                kept.retired |= now - kept.built_at > MAX_AGE_SECONDS
            closing = self._removed()
            fitting = [kept for kept in self._kept if not kept.retired and _fits(kept, options)]
            if fitting:
                fitting[-1].users += 1
        _close(closing)
        if fitting:
            return fitting[-1]
        engine = self._make_engine(options, self._clock)
        if engine is None:
            return None
        made = _Kept(options.remote, options.client, engine, now, users=1)
        with self._lock:
            self._kept.append(made)
        return made

    def _give_back(self, kept: _Kept) -> None:
        with self._lock:
            if kept not in self._kept:  # the task began before the fork
                return
            kept.users -= 1
            self._kept.remove(kept)
            self._kept.append(kept)
            idle = [each for each in self._kept if not each.users and not each.retired]
            for each in idle[: max(0, len(idle) - KEPT)]:
                each.retired = True
            closing = self._removed()
        _close(closing)

    def _removed(self) -> list[_Kept]:
        """Takes out the retired ones that are not in use. Under the lock."""
        closing = [kept for kept in self._kept if kept.retired and not kept.users]
        self._kept = [kept for kept in self._kept if kept not in closing]
        return closing


def _fits(kept: _Kept, options: SourceOptions) -> bool:
    return kept.remote == options.remote and kept.client == options.client


def _close(closing: list[_Kept]) -> None:
    """Outside of the lock: closing waits for threads."""
    for kept in closing:
        kept.engine.close()


worker_engines = TaskEngines()
"""The instance of this process."""

atexit.register(worker_engines.close)
os.register_at_fork(after_in_child=worker_engines.forget)
