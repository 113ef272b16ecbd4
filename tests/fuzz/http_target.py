"""HTTP answers of a store: any bytes give exactly the range or one of the fetchers' own errors.

The fetchers' own client reads the answer from a socket pair. The other end has sent all bytes before, so no wait takes real
time, and the clock does not move.
"""

from __future__ import annotations

import contextlib
import re
import socket
import warnings

from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._connections import ConnectionPool, StoreConnection, _DeadlineSocket, tls_context
from kafka_remote_fetchers._range_client import RangeClient

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import RemoteStorageError
from tests.fuzz.bounded import Target, bounded
from tests.support.locations import ManualClock

__all__ = ["TARGETS"]

_STORE = StoreTarget("http", "127.0.0.1", 80, "/bucket/key?signature=c0ffee5e")
_WANTED = (WantedRange(0, 10), WantedRange(4, 9), WantedRange(5, None), WantedRange(0, 200))
_STEPS = (1, 3, 64, 4096)
_TLS = tls_context(None)
_CLIENT = RangeClient({}, ManualClock(), allow_private=True)
_HEAD = re.compile(rb"[\t\v\f\r\x1c-\x1f \x85\xa0]*HTTP/(?:1\.|0\.9)[^\n]*\n(?:(?!\r?\n)[^\n]*\n)*\r?\n")
"""As http.client reads one: a status line is split at whatever Python takes for white space, which may also stand before it."""
_CHUNK = re.compile(rb"[ \t\r\v\f]*(\+?(?:0x)?[0-9a-f_]+)[ \t\r\v\f]*(?:;[^\n]*)?\n", re.IGNORECASE)


class _OneAnswer(ConnectionPool):
    """A pool whose one connection has the given answer."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(ManualClock(), connect_timeout=1.0, max_idle=1, allow_private=True, tls=lambda: _TLS)
        self.store, self._ours = socket.socketpair()
        self.store.sendall(answer)
        self.store.shutdown(socket.SHUT_WR)

    def acquire(self, target: StoreTarget, deadline: Deadline, *, fresh: bool = False) -> StoreConnection:
        assert not fresh, "a second request followed on a new connection"
        connection = self._adopt(StoreConnection(target, self))
        connection._wire = connection.sock = _DeadlineSocket(fileno=self._ours.detach())
        return connection

    def close(self) -> None:
        super().close()
        self.store.close()


def http_answer(data: bytes) -> None:
    """The first byte chooses the range and how much is read at a time; the rest is the answer."""
    choice = data[0] if data else 0
    wanted, step, answer = _WANTED[choice & 3], _STEPS[choice >> 2 & 3], data[1:]
    pool = _CLIENT._pool = _OneAnswer(answer)
    with contextlib.closing(pool), warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            stream = _CLIENT.open(_STORE, {}, wanted, _CLIENT.deadline())
        except RemoteStorageError as error:
            if "c0ffee5e" in str(error):
                raise AssertionError("the error repeats the signature") from error
            return
        body, whole = bytearray(), False
        buffer = bytearray(step)
        with contextlib.closing(stream):
            try:
                while count := stream.readinto(buffer):
                    body += buffer[:count]
                whole = True
            except RemoteStorageError:
                pass
        front = _after_the_head(answer)
        assert front.startswith(body) or _joined(front).startswith(body), f"{bytes(body)!r} is not the front of {front!r}"
        if whole:
            assert len(body) == (len(body) if wanted.end is None else wanted.end - wanted.start)


def _after_the_head(answer: bytes) -> bytes:
    """Returns the bytes after the last response head; none after a truncated head."""
    at = 0
    while head := _HEAD.match(answer, at):
        at = head.end()
        if not _is_continue(head[0]):
            return answer[at:]
    return b""


def _is_continue(head: bytes) -> bool:
    words = head.partition(b"\n")[0].decode("latin-1").split(None, 2)
    try:
        return int(words[1]) == 100
    except (IndexError, ValueError):
        return False


def _joined(chunks: bytes) -> bytes:
    """Joins the chunks as far as they parse. Sizes may have any form that Python accepts."""
    body, at = bytearray(), 0
    while found := _CHUNK.match(chunks, at):
        size = min(int(found[1], 16), len(chunks))
        body += chunks[found.end() : found.end() + size]
        at = found.end() + size + 2
    return bytes(body)


TARGETS: dict[str, Target] = {"http_answer": bounded(http_answer)}
