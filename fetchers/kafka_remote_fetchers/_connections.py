"""Connections to stores: resolved, checked, bounded by a deadline as a whole, kept for the next range.

Python's own time-outs start again with every byte. Here a connection carries one :class:`Deadline` at a time, and each wait
for the peer gets what is left of it, so a trickle of bytes cannot outlast it. That holds for DNS, connect, TLS, head and body.

``http.client`` and not requests: the latter's transport logs each URL with its signature at DEBUG, keeps cookies, and copies
every byte once more than reading into the caller's buffer does.

References: reliability faults F17-F27, promises S02-S04.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Any

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import RemoteStorageUnavailableError
from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._store_addresses import Resolver, StoreAddresses, system_resolver
from kafka_remote_fetchers._transport_errors import NameNotResolvedError

__all__ = ["ConnectionPool", "StoreConnection", "tls_context"]

_READ_AHEAD = 64 * 1024


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verifies names and chains, TLS 1.2 or newer; there is no way to turn it off. Raises OSError for a bad CA file."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = _DeadlineTlsSocket
    return context


class _EagerReader(io.BufferedReader):
    """Hands on what has come instead of waiting until the caller's buffer is full: what came before a fault counts."""

    readinto = io.BufferedReader.readinto1

    def readline(self, limit: int | None = -1, /) -> bytes:
        """A line of a head or of a chunk's size. Raises where the connection ends inside it: http.client takes it for whole."""
        line = super().readline(limit)
        if not line.endswith(b"\n") and len(line) != limit:
            raise ConnectionResetError
        return line


class _DeadlineSocket(socket.socket):
    """A socket whose every wait ends at ``deadline``."""

    deadline: Deadline

    def arm(self) -> None:
        """Gives the next wait what is left. Raises TimeoutError when nothing is."""
        remaining = self.deadline.remaining()
        if remaining <= 0:
            raise TimeoutError
        self.settimeout(remaining)

    def recv_into(self, *args: Any) -> int:
        self.arm()
        return super().recv_into(*args)

    def makefile(self, *_: object, **__: object) -> Any:  # http.client asks for "rb" and nothing else
        return _EagerReader(super().makefile("rb", buffering=0), _READ_AHEAD)


class _DeadlineTlsSocket(_DeadlineSocket, ssl.SSLSocket):
    """The same over TLS, where a read by itself gives one record of 16 KiB (RFC 8446, section 5.1): takes all that came."""

    def recv_into(self, *args: Any) -> int:
        (buffer,) = args  # socket.SocketIO passes the buffer only
        more = count = super().recv_into(buffer)
        with memoryview(buffer) as whole, contextlib.suppress(OSError):  # what is wrong is found by the next call too
            self.settimeout(0)
            while more and count < len(whole):
                with whole[count:] as rest:
                    more = ssl.SSLSocket.recv_into(self, rest)
                count += more
        return count


class _StoreResponse(http.client.HTTPResponse):
    """An answer whose chunks have a size. ``http.client`` takes "-1" for one, and then reads whatever comes."""

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]  # its stubs have no private methods
        if size < 0:
            raise http.client.HTTPException("a chunk of negative size")
        return size


class StoreConnection(http.client.HTTPConnection):
    """One connection to one store. ``used`` = it has carried a request before."""

    response_class = _StoreResponse

    def __init__(self, target: StoreTarget, pool: ConnectionPool) -> None:
        self.default_port = 443 if target.tls else 80
        super().__init__(target.host, target.port)
        self.authority = target.authority
        self.used = False
        self._tls = target.tls
        self._pool = pool
        self._wire: _DeadlineSocket | None = None  # http.client forgets its own as soon as an answer says "close"
        self._answer: http.client.HTTPResponse | None = None

    def open(self, deadline: Deadline) -> None:
        """Connects to a checked address. Raises OSError, or ForbiddenLocationError for an address that is not permitted."""
        connected = self._connect_any(self._pool.resolve(self.host, self.port, deadline), deadline)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._wire = self.sock = self._secured(connected, deadline) if self._tls else connected
        except BaseException:
            connected.close()
            raise

    def request_range(self, resource: str, headers: dict[str, str], deadline: Deadline) -> http.client.HTTPResponse:
        """Sends the GET and reads the answer's head. Raises OSError and http.client.HTTPException."""
        assert self._wire is not None
        self.bound(deadline)
        self._wire.arm()
        self.used = True
        self.putrequest("GET", resource, skip_accept_encoding=True)
        for name, value in headers.items():
            self.putheader(name, value)
        self.endheaders()
        self._answer = self.getresponse()
        return self._answer

    def bound(self, deadline: Deadline) -> None:
        """What is read from now on has to be there by ``deadline``."""
        assert self._wire is not None
        self._wire.deadline = deadline

    def close(self) -> None:
        """Closes the socket, and the answer that may still hold it."""
        super().close()
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def connect(self) -> None:
        """Never reached with a socket in place: a lost connection must not come back unchecked."""
        raise ConnectionAbortedError

    def is_dropped(self) -> bool:
        """An idle connection with something to read has been closed, or sends unrequested bytes."""
        assert self._wire is not None
        poll = select.poll()
        poll.register(self._wire, select.POLLIN)
        return bool(poll.poll(0))

    def cut(self) -> None:
        """Ends the connection under a thread that reads it."""
        if self._wire is not None:
            with contextlib.suppress(OSError):
                # not its own shutdown(): on TLS that drops the session under the reading thread
                socket.socket.shutdown(self._wire, socket.SHUT_RDWR)

    def _connect_any(self, addresses: Sequence[str], deadline: Deadline) -> _DeadlineSocket:
        failure: OSError = NameNotResolvedError()
        for left, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                sock = _DeadlineSocket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
            except OSError as error:  # the machine has no IPv6
                failure = error
                continue
            try:
                remaining = deadline.remaining()
                if remaining <= 0:
                    raise TimeoutError
                sock.settimeout(remaining / left)  # a dead address leaves time for the others
                sock.connect((address, self.port))
            except OSError as error:
                sock.close()
                failure = error
            else:
                return sock
        raise failure

    def _secured(self, connected: _DeadlineSocket, deadline: Deadline) -> _DeadlineSocket:
        connected.deadline = deadline
        connected.arm()
        secured = self._pool.tls.wrap_socket(connected, server_hostname=self.host)
        assert isinstance(secured, _DeadlineTlsSocket)
        return secured


class ConnectionPool:
    """The connections of one fetcher: idle ones by host, at most ``max_idle`` each, and all that are in use."""

    def __init__(
        self,
        clock: Clock,
        *,
        connect_timeout: float,
        max_idle: int,
        allow_private: bool,
        tls: Callable[[], ssl.SSLContext],
        resolver: Resolver = system_resolver,
    ) -> None:
        """``tls`` is called once, by the first connection over TLS."""
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._tls_lock = threading.Lock()
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._addresses = StoreAddresses(clock, allow_private=allow_private, resolver=resolver)
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, bool], list[StoreConnection]] = {}
        self._busy: set[StoreConnection] = set()
        self._closed = False

    def acquire(self, target: StoreTarget, deadline: Deadline, *, fresh: bool = False) -> StoreConnection:
        """An idle connection to that store, the one used last, or a new one. Raises as :meth:`StoreConnection.open`."""
        while not fresh and (idle := self._pop(target)) is not None:
            if not idle.is_dropped():
                return self._adopt(idle)
            idle.close()
        connection = self._adopt(StoreConnection(target, self))
        try:
            connection.open(Deadline(self._clock, min(self._connect_timeout, deadline.remaining())))
        except BaseException:
            self.discard(connection)
            raise
        return connection

    def release(self, connection: StoreConnection) -> None:
        """Keeps a connection whose answer was read to its end."""
        with self._lock:
            self._busy.discard(connection)
            idle = self._idle.setdefault(_place(connection), [])
            kept = not self._closed and connection.sock is not None and len(idle) < self._max_idle
            if kept:
                idle.append(connection)
        if not kept:
            connection.close()

    def discard(self, connection: StoreConnection) -> None:
        """Closes a connection that holds the rest of an answer, or a doubt."""
        with self._lock:
            self._busy.discard(connection)
        connection.cut()
        connection.close()

    def drop_idle(self, connection: StoreConnection) -> None:
        """Closes all idle connections to the same store: what befell one has likely befallen them."""
        with self._lock:
            dropped = self._idle.pop(_place(connection), [])
        for idle in dropped:
            idle.close()

    def close(self) -> None:
        """Closes the idle ones and cuts the ones in use, which ends the reads that wait on them."""
        with self._lock:
            self._closed = True
            busy = list(self._busy)
            idle = [connection for connections in self._idle.values() for connection in connections]
            self._idle.clear()
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.cut()

    @property
    def tls(self) -> ssl.SSLContext:
        """The context of all connections over TLS. Loading the system's CAs takes tens of milliseconds."""
        with self._tls_lock:
            if self._tls is None:
                self._tls = self._make_tls()
            return self._tls

    def resolve(self, host: str, port: int, deadline: Deadline) -> Sequence[str]:
        """As :meth:`StoreAddresses.of`."""
        return self._addresses.of(host, port, deadline)

    def _pop(self, target: StoreTarget) -> StoreConnection | None:
        with self._lock:
            idle = self._idle.get((target.authority, target.tls))
            return idle.pop() if idle else None

    def _adopt(self, connection: StoreConnection) -> StoreConnection:
        with self._lock:
            if self._closed:
                closed = True
            else:
                closed = False
                self._busy.add(connection)
        if closed:
            connection.close()
            raise RemoteStorageUnavailableError("the fetcher is closed")
        return connection


def _place(connection: StoreConnection) -> tuple[str, bool]:
    return connection.authority, connection.default_port == 443
