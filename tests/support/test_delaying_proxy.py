"""A proxy that delays requests without changing them or their answers."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler

import pytest

from tests.support.delaying_proxy import DelayingProxy
from tests.support.served_http import ServedHttp

BODY = bytes(range(256)) * 20_000
LATENCY_MS = 50


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("X-Asked", f"{self.headers['Host']} {self.path}")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is http.server's
        """Prints nothing."""


@pytest.fixture(scope="module")
def proxy() -> Iterator[DelayingProxy]:
    with ServedHttp(_Handler) as server, DelayingProxy(server.authority) as made:
        yield made


def get(connection: http.client.HTTPConnection, path: str) -> tuple[bytes, str | None, float]:
    began = time.monotonic()
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    return body, answer.headers["X-Asked"], time.monotonic() - began


def test_each_request_of_each_connection_waits(proxy: DelayingProxy) -> None:
    proxy.set_latency(LATENCY_MS)
    before = proxy.requests()

    def ask(number: int) -> None:
        connection = http.client.HTTPConnection(proxy.authority, timeout=60)
        try:
            for again in range(3):
                body, asked, seconds = get(connection, f"/{number}/{again}")
                assert body == BODY
                assert asked == f"{proxy.authority} /{number}/{again}"
                assert seconds >= LATENCY_MS / 1000
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ask, range(16)))
    assert proxy.requests() - before == 48


def test_an_abandoned_answer_stops_no_other_client(proxy: DelayingProxy) -> None:
    proxy.set_latency(0)
    left = http.client.HTTPConnection(proxy.authority, timeout=60)
    left.request("GET", "/left")
    left.close()
    connection = http.client.HTTPConnection(proxy.authority, timeout=60)
    try:
        assert get(connection, "/other")[0] == BODY
    finally:
        connection.close()
