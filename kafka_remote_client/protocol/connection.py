"""One blocking connection to a broker: a request out, its response in, within one deadline.

Theory of operation. A connection lives once: it is opened by the first exchange and, after any error or time-out, closes itself
for good, because what arrives next on it could belong to an exchange that was given up. Exchanges take turns under a lock, so
the next response is always the answer to the last request; its correlation id is still checked.

:meth:`BrokerConnection.close` may come from another thread at any time. It must not close a descriptor that a blocked thread
still uses, since the number could be given to another file at once. It shuts the socket down, which wakes that thread, and the
descriptor is closed by the last user.

Where the authenticator says for how long it was believed, it is asked again on the same connection before that is over, ahead
of the next exchange (KIP-368).

A deadline bounds the whole exchange: waiting for the turn, connecting, TLS, authentication, every byte. The one step that
it cannot bound is name resolution, which the C library does not let go of.

References: https://kafka.apache.org/protocol#protocol_network, KIP-368.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401 - socket imports it for the first host name, here in a thread
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from typing import Protocol

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    ClientCertificateError,
    LocationError,
    PeerCertificateError,
    PeerUnreachableError,
    ProtocolError,
    SecurityProtocolError,
    UnservedConnectionError,
)
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import RequestHeader, decode_response_header, encode_request_header, frame
from kafka_remote_client.wire import Buffer

__all__ = ["DEFAULT_MAX_RESPONSE_BYTES", "Authenticator", "BrokerConnection"]

DEFAULT_MAX_RESPONSE_BYTES = 64 << 20

_LENGTH_BYTES = 4
_SMALLEST_RESPONSE = 4
_READ_BYTES = 64 << 10
_CORRELATION_IDS = 1 << 31
_TLS_ALERT = 0x1503
"""The first two bytes of what a peer that expects TLS answers to anything else, where the length of an answer is due."""
_WITHOUT_TLS = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG"})
"""OpenSSL's reasons for bytes that are no TLS record."""
_REFUSED_CERTIFICATE = re.compile("ALERT.*(CERTIFICATE|UNKNOWN_CA)")
"""In OpenSSL's reason, for alerts of a peer about this client's certificate."""
_CHECK_AND_LIMITS = "check security.protocol, and the limits of the shim"
_AGAIN_AFTER = 0.85
"""Of the time for which an authentication holds: the broker cuts the connection at its end."""


class Authenticator(Protocol):
    """Proves the client's identity on a connection that was just opened, or again on an open one (SASL)."""

    def authenticate(self, connection: BrokerConnection, deadline: Deadline) -> float | None:
        """Exchanges what the mechanism needs through ``connection.send_receive``. Raises LocationError when it is refused.

        Returns for how many seconds it holds, ``None`` = as long as the connection.
        """


class BrokerConnection:
    """A connection to ``host:port``, opened by the first exchange. Safe to share between threads.

    ``connect_timeout`` (seconds) bounds connecting and TLS. A response longer than ``max_response_bytes`` is refused before it
    is read, and memory is taken only for bytes that have arrived. Every failure raises LocationError or ProtocolError.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        clock: Clock,
        connect_timeout: float,
        ssl_context: ssl.SSLContext | None = None,
        sasl: Authenticator | None = None,
        max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES,
    ) -> None:
        self._host = host
        self._port = port
        self._client_id = client_id
        self._clock = clock
        self._connect_timeout = connect_timeout
        self._ssl_context = ssl_context
        self._sasl = sasl
        self._max_response_bytes = max_response_bytes
        self._turn = threading.RLock()  # re-entrant: an Authenticator exchanges messages inside the first exchange
        self._next = threading.Lock()
        self._holder = self._depth = 0
        self._guard = threading.Lock()
        self._socket: socket.socket | None = None
        self._closed = False
        self._opened = False
        self._served = False
        """Whether a request other than for versions, which a broker answers before SASL too, was ever answered."""
        self._authenticate_at: float | None = None
        self._correlation_id = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._host}:{self._port}{' closed' if self._closed else ''}>"

    @property
    def closed(self) -> bool:
        """Whether it can never be used again."""
        return self._closed

    def send_receive(self, api_key: int, version: int, body: Buffer, deadline: Deadline) -> memoryview:
        """Sends a request and returns the body of its response.

        Raises LocationError when the peer is gone, refuses, is too slow, or :meth:`close` is called meanwhile; ProtocolError
        when what it sends is not the answer. In all these cases but one the connection is closed afterwards: when the deadline
        ends while other exchanges still have their turn.
        """
        with self.turn(deadline):
            try:
                return self._exchange(api_key, version, body, deadline)
            except LocationError:
                self.close()
                raise
            except TimeoutError:
                self.close()
                raise LocationError(f"{self._host}:{self._port} timed out") from None
            except ConnectionError as error:
                self.close()
                raise self._closed_by_peer() from error
            # ValueError and OverflowError: a peer named an invalid host or port.
            except (OSError, ValueError, OverflowError) as error:
                self.close()
                raise self._failed(error) from error
            except BaseException:
                self.close()
                raise

    @contextlib.contextmanager
    def turn(self, deadline: Deadline | None = None) -> Iterator[None]:
        """Other threads' exchanges wait meanwhile. A caller whose own deadline begins with its turn enters this first.

        Without a ``deadline`` it waits as long as others have their turn; each of their exchanges has a deadline. Raises
        LocationError when ``deadline`` ends before that.
        """
        if not self._entered(deadline):
            raise LocationError(f"{self._host}:{self._port} timed out waiting for a free connection")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._holder = 0
            self._turn.release()
            self._dispose_if_idle()

    def _entered(self, deadline: Deadline | None) -> bool:
        """Takes the turn. Of several that wait only one waits for the lock of the turn itself, so no later one overtakes it."""
        if self._holder == threading.get_ident():
            return self._turn.acquire()
        if not self._next.acquire(timeout=_patience(deadline)):
            return False
        try:
            if not self._turn.acquire(timeout=_patience(deadline)):
                return False
            self._holder = threading.get_ident()
            return True
        finally:
            self._next.release()

    def close(self) -> None:
        """Ends the connection; an exchange in another thread fails at once. May be called twice."""
        with self._guard:
            self._closed = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    # Not SSLSocket's own shutdown: it drops the TLS layer, and the other thread would read bare bytes.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        self._dispose_if_idle()

    def _dispose_if_idle(self) -> None:
        """Closes the descriptor of a closed connection unless an exchange goes on: then that one comes here when it leaves."""
        if self._closed and self._turn.acquire(blocking=False):
            try:
                with self._guard:
                    if self._socket is not None:
                        self._socket.close()
                        self._socket = None
            finally:
                self._turn.release()

    def _exchange(self, api_key: int, version: int, body: Buffer, deadline: Deadline) -> memoryview:
        sock = self._open(deadline)
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        expected = self._correlation_id
        header = encode_request_header(RequestHeader(api_key, version, expected, self._client_id))
        self._send(sock, frame(header, body), deadline)
        response = self._receive(sock, deadline)
        correlation_id, answer = decode_response_header(api_key, version, response)
        if correlation_id != expected:
            raise ProtocolError(f"{self._host}:{self._port} answered with correlation id {correlation_id}, expected {expected}")
        self._served = self._served or api_key != ApiKey.API_VERSIONS
        return answer

    def _open(self, deadline: Deadline) -> socket.socket:
        if self._socket is None or self._closed:
            if self._closed or self._opened:
                raise LocationError(f"the connection to {self._host}:{self._port} is closed")
            self._opened = True
            connecting = min(deadline, Deadline(self._clock, self._connect_timeout), key=lambda one: one.at)
            try:
                self._connect(connecting)
            except OSError as error:
                where = f"{self._host}:{self._port}"
                raise PeerUnreachableError(f"cannot connect to {where}: {_why_not_connected(error)}") from error
            if self._ssl_context is not None:
                self._start_tls(self._ssl_context, connecting)
            if self._sasl is not None:
                self._authenticate(self._sasl, deadline)
        elif self._sasl is not None and self._authenticate_at is not None and self._clock.monotonic() >= self._authenticate_at:
            self._authenticate(self._sasl, deadline)
        return self._current()

    def _authenticate(self, sasl: Authenticator, deadline: Deadline) -> None:
        self._authenticate_at = None  # the exchanges of the authentication itself come here too
        started = self._clock.monotonic()
        seconds = sasl.authenticate(self, deadline)
        self._authenticate_at = None if seconds is None else started + seconds * _AGAIN_AFTER

    def _connect(self, deadline: Deadline) -> None:
        failure: OSError = OSError("the host name has no address")
        addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        for left, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
            try:
                sock = socket.socket(family, kind, protocol)  # raises where the machine has no IPv6
                self._adopt(sock)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # A share each: the first address of several may be one that swallows packets.
                _arm(sock, Deadline(self._clock, deadline.remaining() / left))
                sock.connect(address)
            except OSError as error:
                failure = error
            else:
                return
        raise failure

    def _start_tls(self, context: ssl.SSLContext, deadline: Deadline) -> None:
        wrapped = context.wrap_socket(self._current(), server_hostname=self._host, do_handshake_on_connect=False)
        self._adopt(wrapped)
        _arm(wrapped, deadline)
        where = f"{self._host}:{self._port}"
        try:
            wrapped.do_handshake()
        except (ssl.SSLEOFError, ConnectionError) as error:
            said = f"{where} closed the connection during the TLS handshake; {_CHECK_AND_LIMITS}"
            raise UnservedConnectionError(said) from error
        except ssl.SSLError as error:
            if error.reason not in _WITHOUT_TLS:
                raise
            raise SecurityProtocolError(f"{where} does not answer with TLS; check security.protocol") from error

    def _adopt(self, sock: socket.socket) -> None:
        """Makes a socket reachable for :meth:`close` before anything on it can block."""
        with self._guard:
            if self._socket is not None:
                self._socket.close()
            self._socket = sock
        self._current()

    def _current(self) -> socket.socket:
        if self._closed or self._socket is None:
            raise LocationError(f"the connection to {self._host}:{self._port} was closed")
        return self._socket

    def _send(self, sock: socket.socket, data: bytes, deadline: Deadline) -> None:
        rest = memoryview(data)
        while rest:
            _arm(sock, deadline)
            rest = rest[sock.send(rest) :]

    def _receive(self, sock: socket.socket, deadline: Deadline) -> bytearray:
        size = int.from_bytes(self._read(sock, _LENGTH_BYTES, deadline), "big", signed=True)
        if not _SMALLEST_RESPONSE <= size <= self._max_response_bytes:
            if size >> 16 == _TLS_ALERT:
                raise SecurityProtocolError(f"{self._host}:{self._port} expects TLS; check security.protocol")
            raise ProtocolError(f"{self._host}:{self._port} sent an invalid response length of {size} bytes")
        return self._read(sock, size, deadline)

    def _read(self, sock: socket.socket, size: int, deadline: Deadline) -> bytearray:
        data = bytearray()
        while len(data) < size:
            _arm(sock, deadline)
            piece = sock.recv(min(size - len(data), _READ_BYTES))
            if not piece:
                raise self._closed_by_peer()
            data += piece
        return data

    def _failed(self, error: Exception) -> LocationError:
        where = f"{self._host}:{self._port}"
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = error.verify_message.rstrip(".")
            return PeerCertificateError(
                f"cannot verify the certificate of {where}: {reason}; "
                "check ssl.ca.location, and that the certificate names this host"
            )
        if isinstance(error, ssl.SSLError) and _REFUSED_CERTIFICATE.search(error.reason or ""):
            return ClientCertificateError(
                f"{where} refuses this client's certificate, or requires one; "
                "check ssl.certificate.location and ssl.key.location"
            )
        return LocationError(f"the connection to {where} failed: {error}")

    def _closed_by_peer(self) -> LocationError:
        closed = f"{self._host}:{self._port} closed the connection"
        if self._served or self._closed:  # closed here: by another thread
            return LocationError(closed)
        return UnservedConnectionError(f"{closed} before it served a request; {_CHECK_AND_LIMITS}")


def _patience(deadline: Deadline | None) -> float:
    """As ``Lock.acquire`` takes it."""
    return -1 if deadline is None else deadline.remaining()


def _why_not_connected(error: OSError) -> str:
    """The reason without errno, for messages."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return "the host name does not resolve" if isinstance(error, socket.gaierror) else (error.strerror or str(error)).lower()


def _arm(sock: socket.socket, deadline: Deadline) -> None:
    """Gives the next socket call what is left of the deadline."""
    remaining = deadline.remaining()
    if remaining <= 0:
        raise TimeoutError
    sock.settimeout(remaining)
