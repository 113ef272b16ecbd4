"""The socket side of a small HTTP/1.1 server: a listener with a thread per connection, and the reading of a request head.

It has no objects or signatures. The object origin and the scripted origin of the tests use it.

References: RFC 9112 (HTTP/1.1 message syntax).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import re
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import BinaryIO, Self

import attrs

__all__ = ["ConnectionListener", "HttpRequest", "ListeningOrigin", "MalformedRequestError", "cut", "read_request"]

_log = logging.getLogger(__name__)

_MAX_LINE = 16 * 1024
_MAX_HEADERS = 64
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TARGET = re.compile(rb"[!-~]+")
_SIGNED = re.compile("[?&=]")
"""A target holds no signature before the first of these, even if the question mark of its URL is damaged."""
_JOIN_SECONDS = 10.0
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Why no connection can be accepted for now."""
_SCARCE_SECONDS = 0.1


class MalformedRequestError(Exception):
    """The peer's bytes are not a request that this server accepts. The text never repeats them."""


@attrs.frozen
class HttpRequest:
    """A request without a body. ``headers`` have lower-case names; repeated ones are joined by ``", "``."""

    method: str
    target: str = attrs.field(repr=lambda target: repr(_SIGNED.split(target, 1)[0]))
    headers: dict[str, str] = attrs.field(repr=False)
    keep_alive: bool = True


def read_request(reader: BinaryIO) -> HttpRequest | None:
    """The next request of a connection; None when the peer ended it between two requests.

    Raises MalformedRequestError for anything but a bodiless HTTP/1.x request of at most 64 headers, 16 KiB a line.
    """
    line = reader.readline(_MAX_LINE)
    if not line:
        return None
    words = line.rstrip(b"\r\n").split(b" ")
    if not line.endswith(b"\n") or len(words) != 3 or not _TOKEN.fullmatch(words[0]) or not _TARGET.fullmatch(words[1]):
        raise MalformedRequestError("request line")
    method, target, version = words
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise MalformedRequestError("protocol version")
    headers = _read_headers(reader)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise MalformedRequestError("unexpected request body")
    keep_alive = version == b"HTTP/1.1" and headers.get("connection", "").lower() != "close"
    return HttpRequest(method.decode("ascii"), target.decode("ascii"), headers, keep_alive)


def _read_headers(reader: BinaryIO) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_MAX_HEADERS + 1):
        line = reader.readline(_MAX_LINE)
        if not line.endswith(b"\n"):
            raise MalformedRequestError("header")
        line = line.rstrip(b"\r\n")
        if not line:
            return headers
        raw_name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.fullmatch(raw_name):
            raise MalformedRequestError("header")
        name = raw_name.decode("ascii").lower()
        text = value.strip(b" \t").decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    raise MalformedRequestError("too many headers")


def cut(connection: socket.socket) -> None:
    """Ends a connection that other threads may be reading or writing."""
    with contextlib.suppress(OSError):
        # not connection.shutdown(): on a TLS socket that drops the session under the thread that uses it
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class ConnectionListener:
    """Listens on one address and runs ``handle(connection)`` in a thread for each connection, which it then closes.

    ``port`` 0 takes a free one, kept over a restart. ``idle_timeout`` in seconds bounds every single wait for the peer,
    the TLS handshake included. Connections beyond ``max_connections`` are closed at once.
    """

    def __init__(
        self,
        handle: Callable[[socket.socket], None],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl_context: ssl.SSLContext | None = None,
        idle_timeout: float = 60.0,
        max_connections: int = 512,
        name: str = "http",
    ) -> None:
        self._handle = handle
        self._host = host
        self._port = port
        self._ssl_context = ssl_context
        self._idle_timeout = idle_timeout
        self._max_connections = max_connections
        self._name = name
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._wake: socket.socket | None = None
        self._acceptor: threading.Thread | None = None
        self._serving: dict[threading.Thread, socket.socket] = {}
        self._scarce = False
        self.connections = 0

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. The port is 0 until the first start where none was given."""
        return self._host, self._port

    def use(self, ssl_context: ssl.SSLContext | None) -> None:
        """Replaces the TLS context for connections from now on."""
        if ssl_context is not None and self._ssl_context is not None:
            self._ssl_context = ssl_context

    def start(self) -> None:
        """Binds and serves. Raises OSError when the address is taken; a second start without a stop does nothing."""
        if self._listener is not None:
            return
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.create_server((self._host, self._port), family=family, backlog=128)
        self._listener = listener
        self._port = listener.getsockname()[1]
        self._wake, woken = socket.socketpair()
        self._acceptor = threading.Thread(target=self._accept, args=(listener, woken), name=f"{self._name}-accept", daemon=True)
        self._acceptor.start()

    def stop(self) -> None:
        """Frees the port, cuts every connection and waits for their threads. May be called twice."""
        if self._listener is None or self._wake is None or self._acceptor is None:
            return
        self._wake.close()
        self._acceptor.join(_JOIN_SECONDS)
        self._listener.close()
        with self._lock:
            self._listener = None
            serving = dict(self._serving)
        for thread, connection in serving.items():
            cut(connection)
            thread.join(_JOIN_SECONDS)

    def cut_connections(self) -> None:
        """Cuts every connection there is; new ones are still taken."""
        with self._lock:
            serving = list(self._serving.values())
        for connection in serving:
            cut(connection)

    def _accept(self, listener: socket.socket, woken: socket.socket) -> None:
        with woken, selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while not any(key.fileobj is woken for key, _ in selector.select()):
                try:
                    self._serve(listener.accept()[0])
                except OSError as error:
                    if error.errno not in _SCARCE:
                        continue  # the peer disconnected before it was accepted
                    # The peer waits in the listener's queue, which would be reported again at once.
                    self._warn(f"a connection cannot be accepted: {error.strerror}")
                    selector.unregister(listener)
                    selector.select(_SCARCE_SECONDS)
                    selector.register(listener, selectors.EVENT_READ)

    def _warn(self, what: str) -> None:
        """Logs the first failure of a series."""
        _log.log(logging.DEBUG if self._scarce else logging.WARNING, "%s: %s", self._name, what)
        self._scarce = True

    def _serve(self, connection: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            # only this loop removes threads, so that stop() waits until each one has ended completely
            self._serving = {thread: used for thread, used in self._serving.items() if thread.is_alive()}
            if len(self._serving) >= self._max_connections:
                connection.close()
                return
            thread = threading.Thread(target=self._run, args=(connection,), name=f"{self._name}-connection", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more threads
                self._warn(f"a connection is closed: {error}")
                connection.close()
                return
            self._serving[thread] = connection
            self._scarce = False

    def _run(self, connection: socket.socket) -> None:
        used = connection
        try:
            connection.settimeout(self._idle_timeout)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._ssl_context is not None:
                used = self._ssl_context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                with self._lock:  # register the new object before the handshake, which the peer may never finish
                    self._serving[threading.current_thread()] = used
                    if self._listener is None:  # stop() ran between the two registrations and could cut neither
                        return
                used.do_handshake()
            self._handle(used)
        except OSError:
            return  # the peer went away or was too slow: nothing is left to answer
        finally:
            used.close()


class ListeningOrigin:
    """What object origins share. ``_ended`` is set from :meth:`stop` on, so that no conversation waits any longer."""

    def __init__(
        self, handle: Callable[[socket.socket], None], host: str, port: int, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._scheme = "http" if ssl_context is None else "https"
        self._ended = threading.Event()
        self._listener = ConnectionListener(handle, host=host, port=port, ssl_context=ssl_context, name="origin")

    @property
    def url(self) -> str:
        """Scheme, host and port. Known once started."""
        host, port = self._listener.address
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Binds, to the port of the last time if there was one, and serves. Raises OSError when the address is taken."""
        self._ended.clear()
        self._listener.start()

    def stop(self) -> None:
        """Ends every connection and frees the port. May be called twice; start may follow."""
        self._ended.set()
        self._listener.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
