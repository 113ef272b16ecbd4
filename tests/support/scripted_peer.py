"""A peer on a free loopback port with a script per connection, for faults that a real broker does not show on demand."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeAlias

from kafka_remote_client.protocol.headers import RequestHeader, decode_request_header, encode_response_header, frame

__all__ = ["CERTIFICATE", "Answer", "PeerConnection", "Script", "ScriptedPeer", "broker_script"]

CERTIFICATE = Path(__file__).with_name("localhost.pem")
_JOIN_SECONDS = 10


class PeerConnection:
    """The peer's end of one connection. Everything raises EOFError once the client is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._stream = sock.makefile("rb")

    def receive(self) -> tuple[RequestHeader, bytes]:
        """The next request's header and body."""
        size = int.from_bytes(self.read(4), "big")
        header, body = decode_request_header(self.read(size))
        return header, bytes(body)

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError
        return data

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def reply(self, header: RequestHeader, body: bytes) -> None:
        """A well-formed response to the request with that header."""
        self.send(frame(encode_response_header(header.api_key, header.api_version, header.correlation_id), body))

    def hold(self) -> None:
        """Sends nothing more until the client disconnects."""
        while self._stream.read(1 << 16):
            pass

    def close(self) -> None:
        self._stream.close()
        self._socket.close()


Script: TypeAlias = Callable[[PeerConnection], None]
Answer: TypeAlias = Callable[[RequestHeader, bytes], bytes]


class ScriptedPeer:
    """Serves its n-th connection by its n-th script, further ones by the last. A context manager: leaving it ends all threads.

    With ``certificate`` it speaks TLS.
    """

    def __init__(self, *scripts: Script, certificate: Path | None = None) -> None:
        self._scripts = scripts
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._failures: list[BaseException] = []
        self.accepted = 0
        self._acceptor = threading.Thread(target=self._accept, name="scripted-peer")

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)
            assert not thread.is_alive()
        if self._failures:
            raise self._failures[0]

    def cut(self) -> None:
        """Cuts all connections made so far."""
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            script = self._scripts[min(self.accepted, len(self._scripts) - 1)]
            self.accepted += 1
            thread = threading.Thread(target=self._serve, args=(sock, script), name=f"scripted-peer-{self.accepted}")
            self._sockets.append(sock)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, script: Script) -> None:
        try:
            if self._context is not None:
                sock = self._context.wrap_socket(sock, server_side=True)
                self._sockets.append(sock)
            connection = PeerConnection(sock)
            with contextlib.closing(connection):
                script(connection)
        except (EOFError, OSError):
            pass  # the client, or the end of the test, was faster than the script
        except BaseException as error:
            self._failures.append(error)
        finally:
            sock.close()


def broker_script(answers: Mapping[int, Answer]) -> Script:
    """A broker that answers each request with the function for its API key, until the client disconnects."""

    def serve(connection: PeerConnection) -> None:
        while True:
            header, body = connection.receive()
            connection.reply(header, answers[header.api_key](header, body))

    return serve
