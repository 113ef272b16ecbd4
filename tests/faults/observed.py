"""The answers that the product got, each with the answer without the fault.

A fault counts as fired only if the two differ: in bytes, in status, or because the answer was delayed. So each stage
between the product and its peers records every answer, including the true ones::

    stage                    | records                                          | the answer without a fault is
    :class:`WatchedOrigin`   | each HTTP answer, byte by byte as it was sent    | the range of the log as it was written
    :class:`WatchedProxy`    | bytes of each connection and direction           | all bytes that came in
    :meth:`Observed.files`   | what was read of each file                       | the range of the log as it was written
    :meth:`Observed.connects`| the outcome of each connect() to a port          | connected
    ``Rig.names``            | what a name resolved to                          | the origin's address
    ``Rig.change_grants``            | the shim's answer to a location request          | the answer of the shim itself

This module does not use the product's counters, because they are no independent witness.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast
from unittest import mock

import attrs
from kafka_remote_fetchers.local import LocalFetcher

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, WritableBuffer
from kafka_remote_client.testing import Direction, Ending, Exchange, Passage, ScriptedOrigin, TcpFaultProxy

__all__ = ["Observation", "Observed", "WatchedOrigin", "WatchedProxy", "parsed_answer"]

_CLOCK = SystemClock()


@attrs.frozen
class Observation:
    """One answer that the product got. ``seconds``: its delay by the fault. ``by``: the script."""

    place: str
    asked: str
    true: object = attrs.field(repr=False)
    given: object = attrs.field(repr=False)
    seconds: float = 0.0
    by: object = attrs.field(default=None, repr=False)

    @property
    def changed(self) -> bool:
        """Returns whether the fault changed the answer."""
        return self.given != self.true or self.seconds > 0


class Observed:
    """The answers of one cell. :meth:`changes` also examines unfinished answers."""

    def __init__(self) -> None:
        self._looks: list[Callable[[], Observation | None]] = []
        self._lock = threading.Lock()

    def add(self, look: Observation | Callable[[], Observation | None]) -> None:
        """Adds an answer, or a function that returns an unfinished one."""
        with self._lock:
            self._looks.append((lambda: look) if isinstance(look, Observation) else look)

    def all(self) -> list[Observation]:
        """Every answer so far."""
        with self._lock:
            looks = list(self._looks)
        return [seen for look in looks if (seen := look()) is not None]

    def changes(self) -> list[Observation]:
        """The answers that a fault changed."""
        return [one for one in self.all() if one.changed]

    @contextmanager
    def files(self, truth: Mapping[str, bytes]) -> Iterator[None]:
        """Records the reads of the local fetcher. ``truth``: the files' contents by key."""
        fetch = LocalFetcher.fetch_log_segment

        def watched(
            fetcher: LocalFetcher, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
        ) -> ReadableStream:
            key = LocationMetadata.decode(metadata.custom_metadata).object_key or ""
            asked = f"{key} [{start_position}, {end_position})"
            true = truth[key][start_position:end_position]
            try:
                stream = _WatchedStream(fetch(fetcher, metadata, start_position, end_position))
            except Exception as error:
                self.add(Observation("file", asked, "opened", type(error).__name__))
                raise
            self.add(lambda: Observation("file", asked, *stream.compared(true)))
            return stream

        with mock.patch.object(LocalFetcher, "fetch_log_segment", watched):
            yield

    @contextmanager
    def connects(self, port: int) -> Iterator[None]:
        """Records the result of each connect() of this process to a loopback port. The true result is a connection."""
        connect = socket.socket.connect

        def watched(this: socket.socket, address: Any) -> None:
            if not isinstance(address, tuple) or address[1] != port:
                connect(this, address)
                return
            try:
                connect(this, address)
            except OSError as error:
                self.add(Observation("connection", f"port {port}", "connected", type(error).__name__))
                raise
            self.add(Observation("connection", f"port {port}", "connected", "connected"))

        with mock.patch.object(socket.socket, "connect", watched):
            yield


class _WatchedStream:
    """A stream that keeps the bytes that were read."""

    def __init__(self, stream: ReadableStream) -> None:
        self._stream = stream
        self._read = bytearray()
        self._ended = False

    def readinto(self, buffer: WritableBuffer, /) -> int:
        count = self._stream.readinto(buffer)
        with memoryview(buffer) as view, view.cast("B") as data:
            self._read += data[:count]
            self._ended |= not count and len(data) > 0
        return count

    def close(self) -> None:
        self._stream.close()

    def compared(self, true: bytes) -> tuple[bytes, bytes]:
        """Returns the expected bytes and the read bytes. A reader that stopped needs no more of them."""
        return (true if self._ended else true[: len(self._read)]), bytes(self._read)


class _Tap:
    """A connection whose sent bytes are kept. ``left``: the client disconnected before everything was sent."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.sent = bytearray()
        self.began = _CLOCK.monotonic()
        self.last = self.began
        self.left = False
        self.over = False

    def sendall(self, data: bytes) -> None:
        self.last = _CLOCK.monotonic()
        self.sent += data
        try:
            self._connection.sendall(data)
        except OSError:
            self.left = True
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class WatchedOrigin(ScriptedOrigin):
    """A scripted origin whose answers are recorded. ``truth`` returns the true objects, even if a cell changes them."""

    observed: Observed | None = None
    truth: Mapping[str, bytes] = {}

    def _answer(self, connection: socket.socket, exchange: Exchange) -> bool:
        tap, truth = _Tap(connection), self.truth
        if self.observed is not None:
            self.observed.add(lambda: _looked_at(exchange, tap, truth))
        try:
            return super()._answer(cast("socket.socket", tap), exchange)
        finally:
            tap.over = True


def _looked_at(exchange: Exchange, tap: _Tap, truth: Mapping[str, bytes]) -> Observation:
    answer, sent = exchange.answer, bytes(tap.sent)
    asked = f"{exchange.key} {exchange.request.headers.get('range', '')}"
    true = _true_answer(truth.get(exchange.key), exchange.request.headers.get("range"))
    waits = answer.silent or answer.delay > 0 or answer.pace is not None or answer.ending is Ending.STALL
    if not waits and (tap.left or not tap.over):
        return Observation("store", asked, true, true)  # the client disconnected before its answer
    until = tap.last if tap.over else _CLOCK.monotonic()
    seconds = until - tap.began if answer.delay > 0 or answer.pace is not None else 0.0
    return Observation("store", asked, true, parsed_answer(sent), seconds, answer)


def _true_answer(data: bytes | None, ranged: str | None) -> tuple[int, Mapping[str, str], bytes]:
    """Returns status, headers and body of a healthy store's answer to a ranged GET."""
    assert data is not None, "an object was asked for that no stream has"
    assert ranged is not None, "a whole object was asked for"
    first, _, last = ranged.removeprefix("bytes=").partition("-")
    body = data[int(first) : int(last) + 1]
    headers = {
        "content-type": "application/octet-stream",
        "content-range": f"bytes {first}-{int(first) + len(body) - 1}/{len(data)}",
        "content-length": str(len(body)),
    }
    return 206, headers, body


def parsed_answer(sent: bytes) -> tuple[int, Mapping[str, str], bytes]:
    """Returns status, headers and body of a sent HTTP answer; status 0 if its head is incomplete."""
    head, separator, body = sent.partition(b"\r\n\r\n")
    if not separator or not head.startswith(b"HTTP/1.1 "):
        return 0, {}, sent
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    # Two headers with the same name are a separate fault.
    return int(status.split()[1]), {name: ", ".join(v for n, v in headers if n == name) for name, _ in headers}, body


class WatchedProxy(TcpFaultProxy):
    """A fault proxy that counts received and forwarded bytes, for each connection and direction."""

    def __init__(self, target: tuple[str, int], observed: Observed) -> None:
        super().__init__(target)
        self._observed = observed

    def _pump(self, source: socket.socket, sink: socket.socket, number: int, direction: Direction) -> None:
        flow = _Flow(source, sink)

        def look() -> Observation:
            held = any(
                (one.passage, one.connection, one.direction) == (Passage.HELD, number, direction) for one in self.records
            )
            excused = flow.left and not held  # the receiver disconnected before
            return Observation("line", f"{number} {direction.name}", flow.came, flow.came if excused else flow.passed)

        self._observed.add(look)
        super()._pump(cast("socket.socket", flow), cast("socket.socket", flow), number, direction)

    def _rest(self, fault: Any) -> None:
        began = _CLOCK.monotonic()
        super()._rest(fault)
        self._observed.add(Observation("line", "a slow piece", None, None, _CLOCK.monotonic() - began))


class _Flow:
    """Both ends of one direction. ``left``: the receiver disconnected."""

    def __init__(self, source: socket.socket, sink: socket.socket) -> None:
        self._source = source
        self._sink = sink
        self.came = 0
        self.passed = 0
        self.left = False

    def recv(self, size: int) -> bytes:
        data = self._source.recv(size)
        self.came += len(data)
        return data

    def sendall(self, data: memoryview) -> None:
        # Count first: the receiver may answer before this thread continues.
        self.passed += len(data)
        try:
            self._sink.sendall(data)
        except OSError:
            self.passed -= len(data)
            self.left = True
            raise
