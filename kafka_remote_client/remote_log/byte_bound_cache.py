"""Values by key, those used last, up to a bound in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["ByteBoundCache"]

_ENTRY_OVERHEAD = 256

_V = TypeVar("_V")


class ByteBoundCache(Generic[_V]):
    """Thread safe. ``max_bytes`` is held against the sizes that :meth:`put` is told; the newest stays whatever its size."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[object, tuple[_V, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._nbytes

    def get(self, key: object) -> _V | None:
        """The value, which counts as used now; None when it is not there."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: object, value: _V, nbytes: int) -> None:
        """Keeps a value of about ``nbytes``. One that is there already stays."""
        with self._lock:
            if key not in self._entries:
                size = nbytes + _ENTRY_OVERHEAD
                self._entries[key] = (value, size)
                self._nbytes += size
            # The newest stays even when it alone is above the bound: it is being used.
            while self._nbytes > self._max_bytes and len(self._entries) > 1:
                _, (_, freed) = self._entries.popitem(last=False)
                self._nbytes -= freed
