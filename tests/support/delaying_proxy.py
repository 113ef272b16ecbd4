"""A TCP proxy in a separate process that delays each request, and forwards answers immediately.

::

    client ──► proxy ── waits for the latency ──► server
    client ◄── proxy ◄── splice, nothing is copied ── server

Bytes that a client sends together are one request: this is true for GET and HEAD, whose heads fit into a segment. Connections
are made and kept without delay.

Started as a module with the server's address as its argument, it prints its port. Each line of standard input is the new
latency in milliseconds, answered by the number of requests so far. The end of the input stops it.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Self

from tests.support.asked_process import AskedProcess
from tests.support.ports import HOST

__all__ = ["DelayingProxy"]

_REQUEST_BYTES = 64 << 10
_PIPE_BYTES = 1 << 20


class DelayingProxy(AskedProcess):
    """The proxy in front of ``target``, "host:port", until :meth:`stop`. It also ends with this process."""

    def __init__(self, target: str) -> None:
        super().__init__([sys.executable, "-m", __name__, target])
        self.authority = f"{HOST}:{int(self.line())}"
        self._latency = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def set_latency(self, milliseconds: int) -> None:
        """Sets the delay of each request from now on."""
        self._latency = milliseconds
        self.requests()

    def requests(self) -> int:
        """How many requests came so far."""
        return int(self.ask(str(self._latency)))


class _Relay:
    """Connections of clients, each with one to the server."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._numbers = itertools.count(1)
        self.requests = 0
        self.latency = 0.0
        self._listener = socket.create_server((HOST, 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._target)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way in (self._requests, self._answers):
                threading.Thread(target=way, args=(client, server), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(_REQUEST_BYTES):
                self.requests = next(self._numbers)
                time.sleep(self.latency)
                server.sendall(data)
        _end(server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        out, into = os.pipe()
        fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        with suppress(OSError):
            while waiting := os.splice(server.fileno(), into, _PIPE_BYTES):
                while waiting:
                    waiting -= os.splice(out, client.fileno(), waiting)
        os.close(out)
        os.close(into)
        _end(client)


def _end(connection: socket.socket) -> None:
    """Closes this side after the other one has ended."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def main() -> None:
    host, _, port = sys.argv[1].rpartition(":")
    relay = _Relay((host, int(port)))
    print(relay.port, flush=True)
    for line in sys.stdin:
        relay.latency = int(line) / 1000
        print(relay.requests, flush=True)


if __name__ == "__main__":
    main()
