"""A store with a fixed listing, which counts the bytes that are read.

Every part of a check lists the tier. With this store all parts see the same objects, from one listing, while brokers copy and
delete objects. Reads go to the wrapped store.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore

__all__ = ["SeenStore"]


class SeenStore:
    """A RemoteObjectStore. Thread safe. ``read`` gets the number of bytes of each read. Does not own the wrapped store."""

    def __init__(
        self, store: RemoteObjectStore, prefixes: Sequence[str] = ("",), read: Callable[[int], None] = lambda _: None
    ) -> None:
        """Lists ``prefixes``, none of which begins with another. Raises the store's errors."""
        self._store = store
        self._read = read
        self._lock = threading.Lock()
        self.objects = sorted((info for prefix in prefixes for info in store.list(prefix)), key=lambda info: info.key)
        self._keys = [info.key for info in self.objects]
        self.bytes_read = 0

    def get(self, key: str) -> bytes:
        return self._counted(self._store.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._counted(self._store.get_range(key, start, end))

    def size(self, key: str) -> int:
        """Returns the object's size now."""
        return self._store.size(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Returns the listed objects; those outside of the listed prefixes are missing."""
        for at in range(bisect_left(self._keys, prefix), len(self._keys)):
            if not self._keys[at].startswith(prefix):
                return
            yield self.objects[at]

    def close(self) -> None:
        """Does nothing: the owner closes the store."""

    def _counted(self, data: bytes) -> bytes:
        with self._lock:
            self.bytes_read += len(data)
        self._read(len(data))
        return data
