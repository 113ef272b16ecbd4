"""A peer that accepts connections and never answers, and counts them."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

from tests.support.ports import HOST

__all__ = ["SilentPeer"]


class SilentPeer:
    """A context manager. ``connections``: the number of accepted ones so far."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self._taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def address(self) -> str:
        return "{}:{}".format(*self._listener.getsockname()[:2])

    @property
    def connections(self) -> int:
        return len(self._taken)

    def _accept(self) -> None:
        while True:
            try:
                self._taken.append(self._listener.accept()[0])
            except OSError:
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for taken in self._taken:
            taken.close()
