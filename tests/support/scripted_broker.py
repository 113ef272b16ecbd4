"""A broker that answers what a test tells it to: requests are recorded, answers are bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

import attrs

__all__ = ["ReceivedRequest", "ScriptedBroker"]

_HEAD = struct.Struct(">hhi")


@attrs.frozen
class ReceivedRequest:
    """A request as it came: ``body`` is everything after the length field."""

    api_key: int
    api_version: int
    correlation_id: int
    body: bytes = attrs.field(repr=False)
    connection: socket.socket = attrs.field(repr=False, eq=False)

    def answer(self, body: bytes) -> bytes:
        """A response frame for this request; ``body`` begins with the header's tags where the version has them."""
        return struct.pack(">ii", len(body) + 4, self.correlation_id) + body


class ScriptedBroker:
    """Listens on a free loopback port. ``reply`` gives the bytes to send for a request; ``None`` = cut the connection."""

    def __init__(self, reply: Callable[[ReceivedRequest], bytes | None]) -> None:
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.requests: list[ReceivedRequest] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Ends all connections."""
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while front := stream.read(4):
                    (size,) = struct.unpack(">i", front)
                    body = stream.read(size)
                    request = ReceivedRequest(*_HEAD.unpack_from(body), body, connection)
                    self.requests.append(request)
                    reply = self._reply(request)
                    if reply is None:
                        return
                    connection.sendall(reply)
            except OSError:
                return
