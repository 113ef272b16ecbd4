"""An authorization server that issues bearer tokens by HTTP, or returns a scripted answer."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["TokenServer"]


class TokenServer:
    """Answers token requests by ``answer``, and records them."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = self.gives({})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.asked.append((dict(self.headers), body))
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if context is None else 'https'}://localhost:{self._server.server_port}/token"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def gives(self, answer: object, status: int = 200, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
        def reply(handler: BaseHTTPRequestHandler) -> None:
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            handler.send_response(status)
            handler.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

        return reply

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
