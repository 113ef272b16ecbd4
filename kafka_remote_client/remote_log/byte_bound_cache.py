"""An LRU cache with a limit in bytes and a time to live."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

import attrs

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.metrics import CacheStatistics

__all__ = ["DEFAULT_TTL_SECONDS", "ByteBoundCache"]

DEFAULT_TTL_SECONDS = 3600.0
"""Values never become wrong; this limits how long those of a deleted segment, or a data key, stay in memory."""

_ENTRY_OVERHEAD = 256

_V = TypeVar("_V")


@attrs.frozen(eq=False)
class _Entry(Generic[_V]):
    value: _V
    nbytes: int
    expires_at: float


class ByteBoundCache(Generic[_V]):
    """Thread safe. ``max_bytes``: the most bytes of all values, by the sizes of :meth:`put`; the newest value always stays."""

    def __init__(self, max_bytes: int, *, ttl_seconds: float = DEFAULT_TTL_SECONDS, clock: Clock | None = None) -> None:
        self._max_bytes = max_bytes
        self._ttl = ttl_seconds
        self._clock = clock or SystemClock()
        # In the order of the last use
        self._entries: OrderedDict[object, _Entry[_V]] = OrderedDict()
        self._nbytes = self._hits = self._misses = self._evictions = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._nbytes

    def statistics(self) -> CacheStatistics:
        """Hits, misses and evictions since the beginning, and the bytes held now."""
        with self._lock:
            return CacheStatistics(self._hits, self._misses, self._evictions, self._nbytes)

    def get(self, key: object) -> _V | None:
        """The value, and counts a use or a miss; None if there is none or it has expired."""
        with self._lock:
            entry = self._fresh(key)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry.value

    def peek(self, key: object) -> _V | None:
        """As :meth:`get`, without counting a use or a miss."""
        with self._lock:
            entry = self._fresh(key)
            return None if entry is None else entry.value

    def note_miss(self) -> None:
        """Counts a miss for a value that is read ahead."""
        with self._lock:
            self._misses += 1

    def put(self, key: object, value: _V, nbytes: int) -> None:
        """Keeps a value of about ``nbytes``, unless the key has a value."""
        with self._lock:
            if key not in self._entries:
                size = nbytes + _ENTRY_OVERHEAD
                self._entries[key] = _Entry(value, size, self._clock.monotonic() + self._ttl)
                self._nbytes += size
            # The newest value is in use, so it stays even if it alone exceeds the limit.
            while self._nbytes > self._max_bytes and len(self._entries) > 1:
                self._remove(next(iter(self._entries)))

    def _fresh(self, key: object) -> _Entry[_V] | None:
        entry = self._entries.get(key)
        if entry is not None and entry.expires_at <= self._clock.monotonic():
            self._remove(key)
            return None
        return entry

    def _remove(self, key: object) -> None:
        self._nbytes -= self._entries.pop(key).nbytes
        self._evictions += 1
