"""An HTTP server of Python's own on a free loopback port, while it is a context."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.support.ports import HOST

__all__ = ["ServedHttp"]


class ServedHttp:
    """Serves at ``url`` while it is a context; ``handler`` answers."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer((HOST, 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.authority = f"{HOST}:{self._server.server_port}"
        self.url = f"http://{self.authority}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
