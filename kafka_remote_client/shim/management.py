"""The management listener: ``/livez``, ``/readyz``, ``/tierz`` and ``/metrics`` over HTTP, for the operator.

::

    status | when
    200    | healthy; the body is "ok", or the metrics
    400    | the request is not HTTP/1.x, or has a body
    404    | no such page
    405    | another method than GET or HEAD
    500    | the metrics cannot be written; the body and the log say why, the log once for each cause in a row
    501    | metrics are requested, and their extra is not installed
    503    | unhealthy; the body has the problem

It has no TLS and no authentication: bind it to an address that only the operator's systems can reach.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus

from kafka_remote_client.errors import MissingExtraError
from kafka_remote_client.shim.health import Check, unexpected
from kafka_remote_client.shim.http_server import ConnectionListener, MalformedRequestError, read_request

__all__ = ["Management"]

_log = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_MAX_CONNECTIONS = 32
_IDLE_SECONDS = 30.0


class Management:
    """Begins with :meth:`start`, ends with :meth:`stop`. ``metrics`` gives the text of the metrics page."""

    def __init__(self, host: str, port: int, pages: Mapping[str, Check], metrics: Callable[[], bytes]) -> None:
        self._pages = pages
        self._metrics = metrics
        self._failed: str | None = None
        self._listener = ConnectionListener(
            self._converse,
            host=host,
            port=port,
            idle_timeout=_IDLE_SECONDS,
            max_connections=_MAX_CONNECTIONS,
            name="management",
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. Known once started."""
        return self._listener.address

    def start(self) -> None:
        """Binds and serves. Raises OSError when the address is taken."""
        self._listener.start()

    def stop(self) -> None:
        """Frees the port. May be called twice."""
        self._listener.stop()

    def _converse(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as reader:
            while True:
                try:
                    request = read_request(reader)
                except MalformedRequestError:
                    _send(connection, HTTPStatus.BAD_REQUEST, b"not a request of this server\n", keep_alive=False)
                    return
                if request is None:
                    return
                status, body, kind = self._answer(request.method, request.target)
                head = request.method == "HEAD"
                _send(connection, status, body, kind, keep_alive=request.keep_alive, without_body=head)
                if not request.keep_alive:
                    return

    def _answer(self, method: str, target: str) -> tuple[HTTPStatus, bytes, str]:
        page = target.partition("?")[0]
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", _TEXT
        if page == "/metrics":
            return self._answer_metrics()
        check = self._pages.get(page)
        if check is None:
            return HTTPStatus.NOT_FOUND, b"no such page\n", _TEXT
        found = check()
        if found is not None:
            return HTTPStatus.SERVICE_UNAVAILABLE, f"{found}\n".encode(), _TEXT
        return HTTPStatus.OK, b"ok\n", _TEXT

    def _answer_metrics(self) -> tuple[HTTPStatus, bytes, str]:
        try:
            written = self._metrics()
        except MissingExtraError as error:
            return HTTPStatus.NOT_IMPLEMENTED, f"{error}\n".encode(), _TEXT
        except Exception as error:  # noqa: BLE001 - the numbers come from plugins too, and a scrape must get an answer
            failed = f"metrics cannot be written: unexpected {unexpected(error)}"
            if failed != self._failed:
                _log.error("%s", failed)
            self._failed = failed
            return HTTPStatus.INTERNAL_SERVER_ERROR, f"{failed}\n".encode(), _TEXT
        self._failed = None
        return HTTPStatus.OK, written, _METRICS_TEXT


def _send(
    connection: socket.socket,
    status: HTTPStatus,
    body: bytes,
    kind: str = _TEXT,
    *,
    keep_alive: bool,
    without_body: bool = False,
) -> None:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Connection: {'keep-alive' if keep_alive else 'close'}\r\n\r\n"
    )
    connection.sendall(head.encode() + (b"" if without_body else body))
