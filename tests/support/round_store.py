"""A store that answers in rounds: it holds every request until all of its round have arrived, then answers them together.

So a request that needs the answer to another one is in a later round, and requests of one round were issued before any of them
was answered. The test sets the size of each round; no result depends on time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from kafka_remote_client.plugin import ObjectInfo, RemoteObjectStore

__all__ = ["RoundStore"]

_PATIENCE_SECONDS = 30
_T = TypeVar("_T")


class RoundStore:
    """A RemoteObjectStore and VersionedObjectStore over ``inner``, with rounds of the given sizes.

    ``rounds`` are the requests so far, sorted within a round: ``name(key)``, with the first byte of a range behind an ``@``,
    and ``etag of`` before it where no byte is read. What comes after the last round of a known size is answered at once and
    listed as one round more.
    """

    def __init__(self, inner: RemoteObjectStore, sizes: Sequence[int] = (), name: Callable[[str], str] = str) -> None:
        self._inner = inner
        self._name = name
        self._changed = threading.Condition()
        self.expect(sizes)

    def expect(self, sizes: Sequence[int]) -> None:
        """Starts again."""
        with self._changed:
            self._sizes = list(sizes)
            self._rounds: list[list[str]] = [[]]

    @property
    def rounds(self) -> list[list[str]]:
        with self._changed:
            return [sorted(one) for one in self._rounds if one]

    def get(self, key: str) -> bytes:
        return self._answered(self._name(key), lambda: self._inner.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._answered(f"{self._name(key)}@{start}", lambda: self._inner.get_range(key, start, end))

    def etag(self, key: str) -> str:
        return self._answered(f"etag of {self._name(key)}", lambda: f'"{key}"')

    def size(self, key: str) -> int:
        return self._inner.size(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._inner.list(prefix)

    def close(self) -> None:
        self._inner.close()

    def _answered(self, request: str, answer: Callable[[], _T]) -> _T:
        with self._changed:
            mine = len(self._rounds) - 1
            self._rounds[mine].append(request)
            if mine < len(self._sizes) and len(self._rounds[mine]) == self._sizes[mine]:
                self._rounds.append([])
                self._changed.notify_all()
            complete = self._changed.wait_for(
                lambda: mine < len(self._rounds) - 1 or mine >= len(self._sizes), timeout=_PATIENCE_SECONDS
            )
            assert complete, f"round {mine + 1} has {self._rounds[mine]} and no more, expected {self._sizes[mine]}"
        return answer()
