"""A store behind a circuit breaker, for reads of small objects: while it fails it gets no requests.

::

    the read                                            | effect
    fails with a time-out, a lost connection or a 5xx   | a failure; enough failures within 10 s open the breaker
    lasts for ``hang_seconds``                          | a failure, although the read cannot be ended
    ends in any other way, also with a 404              | a success
    is refused with 503 or 429                          | neither: the store answers
    begins while the breaker is open                    | RemoteStorageUnavailableError at once, without a request

After the reset time one read may try. So a dead store costs a look-up no time.

References: :mod:`kafka_remote_client.breaker`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

from kafka_remote_client.breaker import BreakerState, StoreHealth
from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import (
    RemoteStorageThrottledError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore, VersionedObjectStore
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.settings import default_of

__all__ = ["guarded_store"]

_FAILURES: int = default_of("fetch.remote.breaker.failures")
_RESET_SECONDS: float = default_of("fetch.remote.breaker.reset.ms") / 1000
_HANG_SECONDS = 10.0

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


def guarded_store(
    store: RemoteObjectStore,
    clock: Clock,
    *,
    failures: int = _FAILURES,
    reset_seconds: float = _RESET_SECONDS,
    hang_seconds: float = _HANG_SECONDS,
) -> RemoteObjectStore:
    """The same store, also for :class:`VersionedObjectStore`, behind a breaker. Closing it closes ``store``.

    ``failures`` within 10 s open the breaker for ``reset_seconds``. A read that lasts ``hang_seconds`` has failed.
    """
    health = _Health(clock, StoreHealth(failures, reset_seconds), hang_seconds)
    return _VersionedStore(store, store, health) if isinstance(store, VersionedObjectStore) else _Store(store, health)


class _Health:
    """The breaker and the running reads. Thread safe."""

    def __init__(self, clock: Clock, health: StoreHealth, hang_seconds: float) -> None:
        self._clock = clock
        self._health = health
        self._hang_seconds = hang_seconds
        self._lock = threading.Lock()
        self._numbers = count()
        self._under_way: dict[int, float] = {}
        """The times when reads began, in that order, without reads that have counted as hanging."""

    def run(self, read: Callable[[], _T]) -> _T:
        """Returns the result of ``read``, or raises its error.

        Raises RemoteStorageUnavailableError while the breaker is open, NotKeptError in :func:`kept_only`.
        """
        about_to_read()
        number = self._begin()
        try:
            result = read()
        except RemoteStorageThrottledError:
            self._end(number)
            raise
        except (RemoteStorageTimeoutError, RemoteStorageUnavailableError):
            self._end(number, fails=True)
            raise
        except Exception:
            self._end(number, fails=False)
            raise
        self._end(number, fails=False)
        return result

    def _begin(self) -> int:
        with self._lock:
            now = self._clock.monotonic()
            while self._under_way:
                number, began = next(iter(self._under_way.items()))
                if now - began < self._hang_seconds:
                    break
                del self._under_way[number]
                self._failed(now)
            if not self._health.allows(now):
                raise RemoteStorageUnavailableError(
                    "recent requests to the store failed; the next attempt follows within seconds"
                )
            number = next(self._numbers)
            self._under_way[number] = now
            return number

    def _end(self, number: int, *, fails: bool | None = None) -> None:
        with self._lock:
            was_hanging = self._under_way.pop(number, None) is None
            if fails and not was_hanging:
                self._failed(self._clock.monotonic())
            elif fails is False:
                self._health.succeeded()

    def _failed(self, now: float) -> None:
        was = self._health.state
        self._health.failed(now)
        if was is BreakerState.CLOSED and self._health.state is BreakerState.OPEN:
            _log.warning("requests to the store fail; look-ups in it are refused until it answers again")


class _Store:
    """A RemoteObjectStore behind the breaker."""

    def __init__(self, store: RemoteObjectStore, health: _Health) -> None:
        self._store = store
        self._health = health

    def get(self, key: str) -> bytes:
        return self._health.run(lambda: self._store.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._health.run(lambda: self._store.get_range(key, start, end))

    def size(self, key: str) -> int:
        return self._health.run(lambda: self._store.size(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Lists the store, also while the breaker is open; failures of listings do not count."""
        return self._store.list(prefix)

    def close(self) -> None:
        self._store.close()


class _VersionedStore(_Store):
    """The same for a store that knows versions."""

    def __init__(self, store: RemoteObjectStore, versions: VersionedObjectStore, health: _Health) -> None:
        super().__init__(store, health)
        self._versions = versions

    def etag(self, key: str) -> str | None:
        return self._health.run(lambda: self._versions.etag(key))
