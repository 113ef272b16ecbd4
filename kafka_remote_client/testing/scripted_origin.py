"""A scripted HTTP origin for tests: it answers each request by its script and records the exchanges.

::

    with ScriptedOrigin({"segment.log": data}) as origin:
        origin.script(error(503, "SlowDown", Retry_After="1"), Answer(ending=Ending.CUT, at=100))
        fetch(origin.url_for("segment.log"))              # 503
        fetch(origin.url_for("segment.log"))              # 100 bytes, then the end of the connection
        fetch(origin.url_for("segment.log"))              # the script is empty: the true bytes
        assert [exchange.status for exchange in origin.exchanges] == [503, 206, 206]

Rules answer all requests that they match: ``origin.rule(gzipped(), times=1)``. ``exchanges`` has all requests with their
answers; ``fired`` has those with a scripted answer, so that a test can prove that its fault fired.

Signatures are checked only if the origin has a ``secret``: then ``origin.signer`` signs URLs for one object, one range and
one lifetime (kafka_remote_client/shim/signing.py), and the origin refuses any other request as S3 does. Objects
are found by the path of the URL, which for S3 is ``bucket/key``.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from urllib.parse import quote, unquote

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.shim.http_server import HttpRequest, ListeningOrigin, MalformedRequestError, read_request
from kafka_remote_client.shim.signing import SignatureRefusal, SignatureRefusedError, UrlSigner
from kafka_remote_client.testing.answers import Answer, Ending, error

__all__ = ["Exchange", "ScriptedOrigin"]

_RANGE = re.compile(r"bytes=([0-9]{1,18})-([0-9]{1,18})?", re.ASCII)
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time to linger: close sends RST
_CHUNK = 1000
_PIECE = 1024 * 1024
_TRUTH = Answer()
_REFUSALS = {
    SignatureRefusal.UNSIGNED: error(403, "AccessDenied", "Access Denied"),
    SignatureRefusal.WRONG_SIGNATURE: error(403, "SignatureDoesNotMatch", "The signature does not match"),
    SignatureRefusal.EXPIRED: error(403, "AccessDenied", "Request has expired"),
    SignatureRefusal.WRONG_RANGE: error(403, "AccessDenied", "The range is not the signed one"),
}


@attrs.define
class Exchange:
    """A request and its answer. ``sent`` counts body bytes; ``finished``: the whole answer was sent."""

    request: HttpRequest
    connection: int
    answer: Answer
    status: int = 0
    sent: int = 0
    finished: bool = False

    @property
    def key(self) -> str:
        """The key of the requested object."""
        return unquote(self.request.target.partition("?")[0].removeprefix("/"))


@attrs.define
class _Rule:
    answer: Answer
    matches: Callable[[HttpRequest], bool]
    times: int | None


class ScriptedOrigin(ListeningOrigin):
    """The server. ``objects`` may be changed while it runs. ``signature`` is part of its unsigned URLs.

    Answers come from :meth:`script`, first in, first out, over all connections; then from the first :meth:`rule` that matches;
    ``otherwise`` answers the rest. With a ``secret`` (16 bytes or more), URLs must be signed and valid by ``clock``.
    """

    def __init__(
        self,
        objects: Mapping[str, bytes] | None = None,
        *,
        otherwise: Answer | None = None,
        signature: str = "scripted",
        host: str = "127.0.0.1",
        ssl_context: ssl.SSLContext | None = None,
        secret: bytes | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(self._converse, host, 0, ssl_context)
        self.objects: MutableMapping[str, bytes] = dict(objects or {})
        self.otherwise = otherwise or Answer()
        self.exchanges: list[Exchange] = []
        self._signature = signature
        self._script: deque[Answer] = deque()
        self._rules: list[_Rule] = []
        self._secret = secret
        self._clock = clock or SystemClock()
        self._checks = None if secret is None else UrlSigner(secret, f"{self._scheme}://origin", self._clock)
        self._changed = threading.Condition()
        self._conversations = 0

    @property
    def port(self) -> int:
        return self._listener.address[1]

    @property
    def authority(self) -> str:
        """``host:port``, as in an allow-list."""
        return self.url.partition("://")[2]

    @property
    def connections(self) -> int:
        """Connections accepted so far, TLS or not."""
        return self._listener.connections

    def url_for(self, key: str) -> str:
        """A URL of an object, with a signature that is not checked."""
        return f"{self.url}/{quote(key)}?X-Amz-Expires=120&X-Amz-Signature={self._signature}"

    def script(self, *answers: Answer) -> None:
        """Appends answers for the next requests."""
        with self._changed:
            self._script.extend(answers)

    def rule(
        self, answer: Answer, *, matches: Callable[[HttpRequest], bool] = lambda _request: True, times: int | None = None
    ) -> None:
        """Gives this answer to each request that ``matches``, or only to the next ``times`` of them."""
        if times is not None:
            arguments.whole(times, "times", 1)
        with self._changed:
            self._rules.append(_Rule(answer, matches, times))

    @property
    def signer(self) -> UrlSigner:
        """Signs URLs for this origin. Read it after the start. Raises RuntimeError if the origin has no secret."""
        if self._secret is None:
            raise RuntimeError("the origin has no secret and checks no signatures")
        return UrlSigner(self._secret, self.url, self._clock)

    def use_secret(self, secret: bytes) -> None:
        """Replaces the secret: only URLs signed with the new one are accepted."""
        self._secret = secret
        self._checks = UrlSigner(secret, f"{self._scheme}://origin", self._clock)

    @property
    def fired(self) -> list[Exchange]:
        """The exchanges with an answer other than the true one."""
        with self._changed:
            return [exchange for exchange in self.exchanges if exchange.answer != _TRUTH]

    def release(self) -> None:
        """Ends all stalls and closes their connections."""
        self._ended.set()

    def reset(self) -> None:
        """Clears script, rules and exchanges, and ends all stalls and connections."""
        with self._changed:
            released, self._ended = self._ended, threading.Event()
            released.set()
            self._script.clear()
            self._rules.clear()
            self.exchanges = []
        self.cut_connections()

    def wait_for(self, count: int, *, finished: bool = False, timeout: float = 10.0) -> bool:
        """Waits until that many requests arrived (or were fully answered). Returns False on a time-out."""
        arguments.whole(count, "count", 0)
        arguments.duration(timeout, "timeout")

        def enough() -> bool:
            return sum(exchange.finished or not finished for exchange in self.exchanges) >= count

        with self._changed:
            return self._changed.wait_for(enough, timeout)

    def cut_connections(self) -> None:
        """Ends every connection, in use or idle; the origin keeps running."""
        self._listener.cut_connections()

    def _converse(self, connection: socket.socket) -> None:
        with self._changed:
            self._conversations += 1
            number = self._conversations
        with connection.makefile("rb") as reader:
            keep = True
            while keep:
                try:
                    request = read_request(reader)
                except MalformedRequestError:
                    return
                if request is None:
                    return
                exchange = self._begin(request, number)
                try:
                    keep = self._answer(connection, exchange) and request.keep_alive
                finally:
                    with self._changed:
                        self._changed.notify_all()

    def _begin(self, request: HttpRequest, number: int) -> Exchange:
        with self._changed:
            exchange = Exchange(request, number, self._script.popleft() if self._script else self._by_rule(request))
            self.exchanges.append(exchange)
            self._changed.notify_all()
        return exchange

    def _by_rule(self, request: HttpRequest) -> Answer:
        for rule in self._rules:
            if rule.times != 0 and rule.matches(request):
                rule.times = None if rule.times is None else rule.times - 1
                return rule.answer
        return self.otherwise

    def _answer(self, connection: socket.socket, exchange: Exchange) -> bool:
        """Sends the answer. Returns True if the connection stays open for another request."""
        answer, released = exchange.answer, self._ended
        if answer.silent:
            released.wait()
            return False
        if answer.delay:
            released.wait(answer.delay)
        if answer.raw is not None:
            connection.sendall(answer.raw)
            exchange.finished = True
            return False
        status, headers, truth = self._refused(exchange.request) or _truth(self.objects, exchange)
        body = _body(answer, truth)
        exchange.status = answer.status or status
        connection.sendall(_head(exchange.status, answer, headers, len(body)))
        return self._send_body(connection, exchange, body, released)

    def _refused(self, request: HttpRequest) -> tuple[int, dict[str, str], bytes] | None:
        """The refusal of a request whose required signature is not valid."""
        if self._checks is None:
            return None
        try:
            self._checks.verify(request.method, request.target, request.headers)
        except SignatureRefusedError as refused:
            return _refusal(_REFUSALS[refused.reason])
        return None

    def _send_body(self, connection: socket.socket, exchange: Exchange, body: bytes, released: threading.Event) -> bool:
        answer = exchange.answer
        stop = len(body) if answer.at is None else min(answer.at, len(body))
        for piece in _pieces(answer, memoryview(body)[:stop]):
            if answer.pace is not None and exchange.sent and released.wait(answer.pace.seconds):
                return False
            connection.sendall(b"%x\r\n%b\r\n" % (len(piece), bytes(piece)) if answer.chunked else piece)
            exchange.sent += len(piece)
        if answer.ending is Ending.COMPLETE:
            if answer.chunked:
                connection.sendall(b"0\r\n\r\n")
            exchange.finished = True
            return True
        if answer.ending is Ending.STALL:
            released.wait()
        elif answer.ending is Ending.RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        return False


def _truth(objects: Mapping[str, bytes], exchange: Exchange) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the true answer."""
    data = objects.get(exchange.key)
    if data is None:
        return _refusal(error(404, "NoSuchKey", "The specified key does not exist."))
    wanted = exchange.request.headers.get("range")
    if wanted is None:
        return 200, {"Content-Type": "application/octet-stream"}, data
    found = _RANGE.fullmatch(wanted)
    start = int(found[1]) if found else len(data)
    if found is None or start >= len(data):
        return _refusal(error(416, "InvalidRange", "The requested range is not satisfiable"))
    end = min(int(found[2]) + 1, len(data)) if found[2] else len(data)
    headers = {"Content-Type": "application/octet-stream", "Content-Range": f"bytes {start}-{end - 1}/{len(data)}"}
    return 206, headers, data[start:end]


def _refusal(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    return answer.status or 0, {name: value for name, value in answer.headers.items() if value}, answer.body or b""


def _body(answer: Answer, truth: bytes) -> bytes:
    body = truth if answer.body is None else answer.body
    return body if answer.transform is None else answer.transform(body)


def _head(status: int, answer: Answer, true_headers: Mapping[str, str], length: int) -> bytes:
    framing = {"Transfer-Encoding": "chunked"} if answer.chunked else {"Content-Length": str(length)}
    headers: dict[str, str | None] = {**true_headers, **framing, **answer.headers}
    lines = [f"{name}: {value}" for name, value in headers.items() if value is not None]
    return "\r\n".join([f"HTTP/1.1 {status} Scripted", *lines, "", ""]).encode("latin-1")


def _pieces(answer: Answer, body: memoryview) -> Iterator[memoryview]:
    size = answer.pace.size if answer.pace else _CHUNK if answer.chunked else _PIECE
    for at in range(0, len(body), size):
        yield body[at : at + size]
