"""A scripted broker: it records requests, and answers with the test's bytes.

It answers the shim's admission request without recording it, unless a test needs it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

import attrs

from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import encode_response_header
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, encode_response
from kafka_remote_client.shim.client_admission import QUESTION, QUESTION_VERSION

__all__ = ["ReceivedRequest", "ScriptedBroker"]

_HEAD = struct.Struct(">hhi")


@attrs.frozen
class ReceivedRequest:
    """A received request: ``body`` is everything after the length field."""

    api_key: int
    api_version: int
    correlation_id: int
    body: bytes = attrs.field(repr=False)
    connection: socket.socket = attrs.field(repr=False, eq=False)

    @property
    def is_question(self) -> bool:
        """Whether this is a shim's admission request."""
        ours = self.correlation_id < 0 and self.body.endswith(QUESTION)
        return ours and (self.api_key, self.api_version) == (ApiKey.METADATA, QUESTION_VERSION)

    def answer(self, body: bytes) -> bytes:
        """A response frame for this request; ``body`` begins with the header's tags where the version has them."""
        return struct.pack(">ii", len(body) + 4, self.correlation_id) + body


_SERVED = encode_response_header(ApiKey.METADATA, QUESTION_VERSION, 0)[4:] + encode_response(
    MetadataResponse((MetadataBroker(1, "127.0.0.1", 9092),), ()), QUESTION_VERSION
)


class ScriptedBroker:
    """Listens on a free loopback port. ``reply`` gives the bytes to send for a request; ``None`` = cut the connection.

    ``admits``: answers the shim's admission request.
    """

    def __init__(self, reply: Callable[[ReceivedRequest], bytes | None], *, admits: bool = True) -> None:
        self._reply = reply
        self._admits = admits
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.accepted = 0
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
            self.accepted += 1
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
                    if self._admits and request.is_question:
                        connection.sendall(request.answer(_SERVED))
                        continue
                    self.requests.append(request)
                    reply = self._reply(request)
                    if reply is None:
                        return
                    connection.sendall(reply)
            except OSError:
                return
