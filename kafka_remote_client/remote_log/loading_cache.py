"""A cache that loads missing values, each once for all threads that need it at the same time.

::

    the key    | a caller
    is cached  | gets the value
    is loading | waits for that load
    is offered | runs the offered load
    is missing | loads it, for all threads that wait, and the value is cached

A load that fails raises in all callers that wait for it, and is not cached: the next caller tries again. A load must not get
its own key from the cache.

An offer is a load that a thread pool may begin. A caller that needs the key before a thread of the pool is free runs the load
itself, so no caller waits in the pool's queue.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Generic, TypeVar

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.remote_log.byte_bound_cache import DEFAULT_TTL_SECONDS, ByteBoundCache
from kafka_remote_client.remote_log.kept_only import NotKeptError, about_to_read, is_kept_only

__all__ = ["LoadingCache", "SingleFlight"]

_V = TypeVar("_V")


@attrs.define(eq=False)
class _Flight(Generic[_V]):
    """A call of ``work``: offered until a thread takes it."""

    work: Callable[[], _V]
    taken: bool = False
    result: Future[_V] = attrs.field(factory=Future)


class SingleFlight(Generic[_V]):
    """Thread safe. Calls for the same key that overlap in time are one call."""

    def __init__(self) -> None:
        self._flights: dict[object, _Flight[_V]] = {}
        self._lock = threading.Lock()

    def do(self, key: object, work: Callable[[], _V]) -> _V:
        """Returns the result of ``work``, or of a call for the same key that is running or offered; raises its error.

        Raises NotKeptError in :func:`kept_only`.
        """
        about_to_read()
        while True:
            with self._lock:
                flight = self._flights.setdefault(key, _Flight(work))
                mine = not flight.taken
                flight.taken = True
            if mine:
                return self._fly(key, flight)
            try:
                return flight.result.result()
            except CancelledError:  # the thread that made the call was interrupted
                continue

    def offer(self, key: object, work: Callable[[], _V]) -> Callable[[], None] | None:
        """Offers a call of ``work``; None = the key has a call already.

        The returned function begins the call, unless :meth:`do` has. It raises no Exception; callers of ``do`` get it.
        """
        with self._lock:
            if key in self._flights:
                return None
            flight = self._flights[key] = _Flight(work)
        return lambda: self._take_up(key, flight)

    def has(self, key: object) -> bool:
        """Whether there is a call for the key, offered or begun."""
        with self._lock:
            return key in self._flights

    def _take_up(self, key: object, flight: _Flight[_V]) -> None:
        with self._lock:
            mine = not flight.taken
            flight.taken = True
        if mine:
            with suppress(Exception):
                self._fly(key, flight)

    def _fly(self, key: object, flight: _Flight[_V]) -> _V:
        try:
            value = flight.work()
        except Exception as error:
            self._end(key)
            flight.result.set_exception(error)
            raise
        except BaseException:
            self._end(key)
            flight.result.cancel()
            raise
        self._end(key)
        flight.result.set_result(value)
        return value

    def _end(self, key: object) -> None:
        # Remove it, then answer: a caller after a failure loads again.
        with self._lock:
            del self._flights[key]


class LoadingCache(Generic[_V]):
    """Thread safe. See :class:`ByteBoundCache` for the bounds."""

    def __init__(self, max_bytes: int, *, ttl_seconds: float = DEFAULT_TTL_SECONDS, clock: Clock | None = None) -> None:
        self._entries: ByteBoundCache[_V] = ByteBoundCache(max_bytes, ttl_seconds=ttl_seconds, clock=clock)
        self._flights: SingleFlight[_V] = SingleFlight()

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._entries.nbytes

    def statistics(self) -> CacheStatistics:
        """Hits and misses. Each offer is a miss, and so is a caller that waits for another's load."""
        return self._entries.statistics()

    def get(self, key: object, load: Callable[[], tuple[_V, int]]) -> _V:
        """The value of ``key``; ``load`` returns it and its size in bytes. Raises the errors of ``load``.

        In :func:`kept_only` it raises NotKeptError for a value that is not cached. That is no miss: the caller tries again.
        """
        if is_kept_only() and self.peek(key) is None:
            raise NotKeptError
        known = self._entries.get(key)
        return known if known is not None else self._flights.do(key, lambda: self._load(key, load))

    def peek(self, key: object) -> _V | None:
        """The value if it is cached. Counts no hit and no miss."""
        return self._entries.peek(key)

    def offer(self, key: object, load: Callable[[], tuple[_V, int]]) -> Callable[[], None] | None:
        """A load that a thread pool may begin; None if the value is cached, or a load is offered or running.

        The returned function raises no Exception: callers that need the value get the errors of the load.
        """
        if self.has(key):
            return None
        self._entries.note_miss()
        return self._flights.offer(key, lambda: self._load(key, load))

    def has(self, key: object) -> bool:
        """Whether the value is cached, or a load of it is offered or running. Counts no hit and no miss."""
        # A load caches its value before it ends. In the other order both checks could miss it.
        return self._flights.has(key) or self.peek(key) is not None

    def _load(self, key: object, load: Callable[[], tuple[_V, int]]) -> _V:
        # Another load may have ended between the look-up in the cache and the beginning of this one.
        known = self._entries.peek(key)
        if known is not None:
            return known
        value, nbytes = load()
        self._entries.put(key, value, nbytes)
        return value
