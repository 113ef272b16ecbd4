"""A store as it was listed once, which counts what is read of it.

Everything that looks at a tier lists it; here all of them see the same objects, from one listing, whatever the brokers copy and
delete meanwhile. Reads go to the store below.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore

__all__ = ["SeenStore"]


class SeenStore:
    """A RemoteObjectStore. Thread safe. ``read`` gets the number of bytes of each read. Does not own the store below."""

    def __init__(
        self, store: RemoteObjectStore, prefixes: Sequence[str] = ("",), read: Callable[[int], None] = lambda _: None
    ) -> None:
        """Lists ``prefixes``, none of which begins with another. Raises what the store raises."""
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
        """As it is now."""
        return self._store.size(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """As it was then; what no prefix covered is not there."""
        for at in range(bisect_left(self._keys, prefix), len(self._keys)):
            if not self._keys[at].startswith(prefix):
                return
            yield self.objects[at]

    def close(self) -> None:
        """Leaves the store to its owner."""

    def _counted(self, data: bytes) -> bytes:
        with self._lock:
            self.bytes_read += len(data)
        self._read(len(data))
        return data
