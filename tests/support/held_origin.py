"""An HTTP proxy in front of the shim's origin or a store that holds requests until it is released.

While it holds a request, a task that reads from the store is in the middle of its split.
"""

from __future__ import annotations

import http.client
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler

from tests.support.ports import HOST, free_ports
from tests.support.served_http import ServedHttp
from tests.support.waiting import wait_until

__all__ = ["HeldOrigin"]

_PATIENCE_SECONDS = 300.0


class HeldOrigin(ServedHttp):
    """Listens at ``url`` (for a shim's ``origin_public_url``) and passes on to ``listen`` (its ``origin_listen``).

    Without ``listen`` it chooses a free port. Requests keep their Host header, so that signatures stay right.
    ``answers``: path with query, and status, of each request that was answered, in that order.
    """

    def __init__(self, listen: str | None = None) -> None:
        self.listen = listen or f"{HOST}:{free_ports(1)[0]}"
        self.answers: list[tuple[str, int]] = []
        self._held: list[str] = []
        self._limit: int | None = None
        self._passes = 0
        self._lock = threading.Lock()
        self._passing = threading.Event()
        self._passing.set()
        super().__init__(self._handler())

    def __exit__(self, *_: object) -> None:
        self.release()
        super().__exit__()

    def hold(self, limit: int | None = None, *, after: int = 0) -> None:
        """Holds all requests after the next ``after`` ones. With ``limit`` it holds that many and passes on the rest."""
        self._held.clear()
        self._limit = limit
        self._passes = after
        self._passing.clear()

    def wait_for_readers(self, count: int) -> list[str]:
        """Waits until it holds requests for that many objects, each of a different task. Returns the requests."""
        wait_until(lambda: len({path.partition("?")[0] for path in self._held}) >= count, f"{count} readers", seconds=240)
        return list(self._held)

    def release(self) -> None:
        """Passes on what was held, and everything after it."""
        self._passing.set()

    def ask(self, path: str) -> int:
        """Returns the status of the origin's answer to the unchanged request."""
        return self._passed_on("GET", path, {"Range": f"bytes={path.partition('&range=')[2].partition('&')[0]}"})[0]

    def _is_held(self, path: str, _headers: Mapping[str, str]) -> bool:
        with self._lock:
            full = self._limit is not None and len(self._held) >= self._limit
            if self._passing.is_set() or full:
                return False
            if self._passes:
                self._passes -= 1
                return False
            self._held.append(path)
            return True

    def _passed_on(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.listen, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(method, path, headers=headers)
            found = connection.getresponse()
            return found.status, found.getheaders(), found.read()
        finally:
            connection.close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        origin = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if origin._is_held(self.path, dict(self.headers.items())):
                    origin._passing.wait(_PATIENCE_SECONDS)
                try:
                    status, headers, body = origin._passed_on(self.command, self.path, dict(self.headers.items()))
                except OSError:
                    self.close_connection = True
                    return
                origin.answers.append((self.path, status))
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() != "connection":
                        self.send_header(name, value)
                try:
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True  # the client has disconnected

            do_HEAD = do_GET  # noqa: N815 - http.server's name

            def log_message(self, *_: object) -> None:
                """Prints nothing, because the request has signatures."""

        return Handler
