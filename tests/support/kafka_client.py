"""A client with only a socket: sends bytes, reads frames."""

from __future__ import annotations

import socket
import ssl
import struct
from typing import Self

from kafka_remote_client.protocol.headers import RequestHeader, encode_request_header, frame
from kafka_remote_client.shim.config import parse_address

__all__ = ["RawClient"]


class RawClient:
    """One connection to ``address`` (host:port), over TLS where a context is given. Reading waits at most ``seconds``.

    ``source``: the client's own address, any.
    """

    def __init__(self, address: str, seconds: float = 20.0, tls: ssl.SSLContext | None = None, source: str = "") -> None:
        host, port = parse_address(address)
        self.socket = socket.create_connection((host, port), timeout=seconds, source_address=(source, 0) if source else None)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self._stream = self.socket.makefile("rb")

    @classmethod
    def over(cls, connected: socket.socket) -> Self:
        """A client on an open connection, which the caller closes."""
        made = cls.__new__(cls)
        made.socket, made._stream = connected, connected.makefile("rb")
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, key: int, version: int, correlation_id: int, body: bytes = b"", client_id: str = "raw") -> bytes:
        """The frame of a request with a known API key."""
        return frame(encode_request_header(RequestHeader(key, version, correlation_id, client_id)), body)

    def read(self) -> bytes:
        """The next frame without its length; empty when the peer has closed."""
        try:
            front = self._stream.read(4)
            return self._stream.read(struct.unpack(">i", front)[0]) if front else b""
        except (ConnectionError, ssl.SSLError):
            return b""

    def closed(self) -> bool:
        """Waits for the peer to close without sending anything."""
        return self.read() == b""
