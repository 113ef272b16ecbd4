"""A cache that loads what it does not have: once, however many threads ask for it at the same time.

::

    thread | key is kept | is being loaded     | not there
    any    | the value   | waits for that load | loads it, tells all who wait, keeps it

A load that fails fails for all who waited for it, and nothing is kept of it: the next one to ask tries again. A load must not
ask its own cache for the key that it is loading.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from kafka_remote_client.clock import Clock
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.remote_log.byte_bound_cache import DEFAULT_TTL_SECONDS, ByteBoundCache

__all__ = ["LoadingCache", "SingleFlight"]

_V = TypeVar("_V")


class SingleFlight(Generic[_V]):
    """Thread safe. Calls for the same key that overlap in time are one call."""

    def __init__(self) -> None:
        self._flights: dict[object, Future[_V]] = {}
        self._lock = threading.Lock()

    def do(self, key: object, work: Callable[[], _V]) -> _V:
        """What ``work`` gives or raises, here or in the thread that came first."""
        while True:
            with self._lock:
                flight = self._flights.get(key)
                mine: Future[_V] | None = None
                if flight is None:
                    mine = self._flights[key] = Future()
            if mine is not None:
                return self._fly(key, mine, work)
            assert flight is not None  # one of the two
            try:
                return flight.result()
            except CancelledError:  # the thread that was at it was interrupted, which is its own affair
                continue

    def _fly(self, key: object, flight: Future[_V], work: Callable[[], _V]) -> _V:
        try:
            value = work()
        except Exception as error:
            self._end(key)
            flight.set_exception(error)
            raise
        except BaseException:
            self._end(key)
            flight.cancel()
            raise
        self._end(key)
        flight.set_result(value)
        return value

    def _end(self, key: object) -> None:
        # First gone, then answered: who comes after a failure loads anew.
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
        """As of the cache below. Who waited for another's load counts as a miss too."""
        return self._entries.statistics()

    def get(self, key: object, load: Callable[[], tuple[_V, int]]) -> _V:
        """The value of ``key``; ``load`` gives it and its size in bytes. Raises what ``load`` raises."""
        known = self._entries.get(key)
        return known if known is not None else self._flights.do(key, lambda: self._load(key, load))

    def _load(self, key: object, load: Callable[[], tuple[_V, int]]) -> _V:
        # Another load may have ended between our look into the cache and the beginning of this one.
        known = self._entries.peek(key)
        if known is not None:
            return known
        value, nbytes = load()
        self._entries.put(key, value, nbytes)
        return value
