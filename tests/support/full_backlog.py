"""A port that neither accepts nor refuses a connection, as if its host were switched off."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.support.ports import HOST

__all__ = ["full_port"]


@contextmanager
def full_port() -> Iterator[int]:
    """A listener's port with a full backlog: the kernel drops further SYNs, as a black hole does."""
    with ExitStack() as closing:
        listener = closing.enter_context(socket.create_server((HOST, 0), backlog=0))
        port: int = listener.getsockname()[1]
        for _ in range(2):
            filler = closing.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex((HOST, port))
        yield port
