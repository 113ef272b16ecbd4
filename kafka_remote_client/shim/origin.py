"""Serves the tier's objects over HTTP to clients with a signed URL: the object store of ``file://`` stores and of the demo.

What it answers::

    status | when
    206    | the signature fits method, object and Range header: exactly those bytes, cut at the object's end
    400    | the request is not HTTP/1.x, or has a body
    403    | not signed, wrongly signed, expired ("Request has expired"), or another range than the signed one
    404    | no such object, or an object that must not be opened (links, anything but regular files)
    412    | If-Match names another version of the object
    416    | the object ends before the range starts
    500    | the store failed
    503    | the modelled store rejects the request (OriginFaults.store)

Errors carry a body as S3 writes it. Query strings are secrets and are not logged.

References: RFC 9110 (sections 13.1.1, 14.4), shim/signing.py.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from contextlib import closing
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

import attrs

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import (
    DirectFetchError,
    ForbiddenLocationError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
)
from kafka_remote_client.model import ByteRange
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.shim.http_server import HttpRequest, ListeningOrigin, MalformedRequestError, read_request
from kafka_remote_client.shim.origin_objects import ServedObject, served_objects
from kafka_remote_client.shim.signing import SignatureRefusal, SignatureRefusedError, SigningKeys, UrlSigner

__all__ = ["ObjectOrigin", "OriginFaults", "OriginStatistics", "StoreBehaviour", "error_body"]

_log = logging.getLogger(__name__)

_PIECE = 1024 * 1024

_REFUSALS = {
    SignatureRefusal.UNSIGNED: ("AccessDenied", "Access Denied"),
    SignatureRefusal.WRONG_SIGNATURE: ("SignatureDoesNotMatch", "The signature does not match the request"),
    SignatureRefusal.EXPIRED: ("AccessDenied", "Request has expired"),
    SignatureRefusal.WRONG_RANGE: ("AccessDenied", "The range is not the signed one"),
}


def error_body(code: str, message: str) -> bytes:
    """An S3 error document. Both texts are constants here and need no escaping."""
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}</Message></Error>'.encode()


class StoreBehaviour(Protocol):
    """A model of a store that the origin imitates, for tests."""

    def answers(self, size: int, ended: threading.Event) -> float | None:
        """Waits until the store would send the first of ``size`` bytes, or until ``ended`` is set.

        Returns the seconds from the first byte to the last. ``None``: the store refuses, and the origin answers 503.
        """


@attrs.define
class OriginFaults:
    """Faults that a demo injects into a running origin; all off by default, and settable from any thread.

    ``down``: every connection is cut, also in the middle of a body. ``delay``: seconds before each answer.
    ``expire_everything``: every valid URL counts as expired. ``store``: decides when each GET with a valid URL is answered.
    """

    down: bool = False
    delay: float = 0.0
    expire_everything: bool = False
    store: StoreBehaviour | None = None


@attrs.define
class OriginStatistics:
    """Counters of an origin. ``bytes_sent`` counts bodies of 206 answers only."""

    connections: int = 0
    requests: int = 0
    bytes_sent: int = 0
    statuses: dict[int, int] = attrs.field(factory=dict)


class ObjectOrigin(ListeningOrigin):
    """An HTTP server over a directory or a RemoteObjectStore. ``port`` 0 takes a free one at the first start.

    ``secret`` signs (16 bytes or more). ``advertised_url`` is what clients reach, when that is not the address itself.
    """

    def __init__(
        self,
        objects: Path | RemoteObjectStore,
        secret: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_url: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        faults: OriginFaults | None = None,
    ) -> None:
        super().__init__(self._converse, host, port, ssl_context)
        self._objects = served_objects(objects)
        self._keys = SigningKeys(secret)
        self._advertised_url = advertised_url
        self._clock = clock or SystemClock()
        self._verifier = UrlSigner(self._keys, advertised_url or f"{self._scheme}://origin", self._clock)
        self.faults = faults or OriginFaults()
        self._lock = threading.Lock()
        self._statistics = OriginStatistics()

    @property
    def url(self) -> str:
        """Scheme, host and port that signed URLs begin with. Known once started."""
        return self._advertised_url or super().url

    @property
    def signer(self) -> UrlSigner:
        """Signs URLs that this origin serves. Available after the start, when the port is known."""
        return UrlSigner(self._keys, self.url, self._clock)

    def rotate(self, secret: bytes | None, url_ttl: float) -> None:
        """Signs with another key; None = the same one. URLs of before are served for ``url_ttl`` seconds. Raises ValueError."""
        self._keys.rotate(secret, self._clock.time_ms(), int(url_ttl * 1000))

    def use(self, ssl_context: ssl.SSLContext | None) -> None:
        """Uses this certificate for connections from now on. It does not turn TLS on or off."""
        self._listener.use(ssl_context)

    def statistics(self) -> OriginStatistics:
        """A snapshot."""
        with self._lock:
            return attrs.evolve(
                self._statistics, connections=self._listener.connections, statuses=dict(self._statistics.statuses)
            )

    def _converse(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as reader:
            while not self._gone():
                try:
                    request = read_request(reader)
                except MalformedRequestError:
                    self._refuse(connection, None, HTTPStatus.BAD_REQUEST, "InvalidRequest", "Not a request of this server")
                    return
                if request is None or not self._admit():
                    return
                self._answer(connection, request)
                if not request.keep_alive:
                    return

    def _admit(self) -> bool:
        """Waits for the delay; False if the request gets no answer."""
        if self.faults.delay > 0:
            self._clock.wait(self._ended, self.faults.delay)
        return not self._gone()

    def _gone(self) -> bool:
        return self.faults.down or self._ended.is_set()

    def _answer(self, connection: socket.socket, request: HttpRequest) -> None:
        try:
            signed = self._verifier.verify(request.method, request.target, request.headers)
            refusal = SignatureRefusal.EXPIRED if self.faults.expire_everything else None
        except SignatureRefusedError as refused:
            refusal = refused.reason
        if refusal is not None:
            self._refuse(connection, request, HTTPStatus.FORBIDDEN, *_REFUSALS[refusal])
            return
        store = self.faults.store
        seconds = 0.0 if store is None else store.answers(signed.range.size, self._ended)
        if seconds is None:
            self._refuse(connection, request, HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown", "Reduce your request rate")
            return
        try:
            with closing(self._objects.open(signed.key)) as opened:
                self._send(connection, request, opened, signed.range, seconds)
        except (ObjectNotFoundError, ForbiddenLocationError):
            self._refuse(connection, request, HTTPStatus.NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
        except RangeNotSatisfiableError:
            text = "The requested range is not satisfiable"
            self._refuse(connection, request, HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "InvalidRange", text)
        except RemoteStorageAccessError:
            self._refuse(connection, request, HTTPStatus.FORBIDDEN, "AccessDenied", "Access Denied")
        except DirectFetchError:
            self._refuse(connection, request, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", "The store failed")

    def _send(
        self, connection: socket.socket, request: HttpRequest, opened: ServedObject, wanted: ByteRange, seconds: float
    ) -> None:
        """Sends the range, or the part of it that exists, evenly within ``seconds``."""
        if "if-match" in request.headers and request.headers["if-match"] not in (opened.etag, "*"):
            self._refuse(connection, request, HTTPStatus.PRECONDITION_FAILED, "PreconditionFailed", "Another version")
            return
        if wanted.start >= opened.size:
            raise RangeNotSatisfiableError("the object ends before the range starts")
        end = min(wanted.end, opened.size)
        self._head(
            connection,
            request,
            HTTPStatus.PARTIAL_CONTENT,
            end - wanted.start,
            ("Content-Type", "application/octet-stream"),
            ("Content-Range", f"bytes {wanted.start}-{end - 1}/{opened.size}"),
            ("Accept-Ranges", "bytes"),
            ("ETag", opened.etag),
        )
        began, seconds_per_byte = self._clock.monotonic(), seconds / wanted.size
        for start in range(wanted.start, end, _PIECE):
            if self._gone():
                raise ConnectionAbortedError
            piece_end = min(start + _PIECE, end)
            if seconds:
                due = began + seconds_per_byte * (piece_end - wanted.start)
                self._clock.wait(self._ended, due - self._clock.monotonic())
            opened.send(connection, start, piece_end)
            self._count(sent=piece_end - start)

    def _refuse(
        self, connection: socket.socket, request: HttpRequest | None, status: HTTPStatus, code: str, message: str
    ) -> None:
        body = error_body(code, message)
        self._head(connection, request, status, len(body), ("Content-Type", "application/xml"))
        if request is None or request.method != "HEAD":
            connection.sendall(body)

    def _head(
        self,
        connection: socket.socket,
        request: HttpRequest | None,
        status: HTTPStatus,
        length: int,
        *headers: tuple[str, str],
    ) -> None:
        self._count(status=status)
        keep_alive = request is not None and request.keep_alive
        _log.debug("%r -> %d, %d bytes", request, status, length)
        common = (
            ("Date", formatdate(self._clock.time_ms() / 1000, usegmt=True)),
            ("Content-Length", str(length)),
            ("Connection", "keep-alive" if keep_alive else "close"),
        )
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in common + headers)]
        connection.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _count(self, *, status: HTTPStatus | None = None, sent: int = 0) -> None:
        with self._lock:
            self._statistics.bytes_sent += sent
            if status is not None:
                self._statistics.requests += 1
                self._statistics.statuses[status.value] = self._statistics.statuses.get(status.value, 0) + 1
