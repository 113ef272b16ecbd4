"""Cuts a byte stream into Kafka frames without holding more of it than its reader needs.

A frame on the wire, request or response::

    offset | size | type  | field          | note
    0      | 4    | int32 | length         | bytes after this field
    4      | 2    | int16 | api key        | requests only
    6      | 2    | int16 | api version    | requests only
    8 or 4 | 4    | int32 | correlation id |
    …      |      |       | the rest       |

Most frames only pass through a proxy, so a :class:`FrameScanner` shows the front of each frame to its handler, which says
whether the frame is to be streamed (handed on in the pieces in which it arrives) or collected (handed on whole).

A length is checked before a byte is kept for it, and memory grows with the bytes that came, never with those announced. A
handler that asks for more of a front gets twice as much, so what it parses of one frame is twice its front at most.

References: Kafka protocol guide, "Protocol Primitive Types" and "Common Request and Response Structure".
"""

from __future__ import annotations

import struct
from enum import Enum
from typing import Protocol

import attrs

from kafka_remote_client.errors import ProtocolError

__all__ = ["FrameAction", "FrameHandler", "FrameScanner", "RequestHead"]

_LENGTH = struct.Struct(">i")
_REQUEST_HEAD = struct.Struct(">hhi")


class FrameAction(Enum):
    """What a scanner does with a frame, once its handler has seen the front of it."""

    STREAM = "stream"
    COLLECT = "collect"
    MORE = "more"
    """Not decidable yet: show more of the frame."""
    WAIT = "wait"
    """Not now: the handler has called :meth:`FrameScanner.pause`, and is asked again after :meth:`FrameScanner.resume`."""


@attrs.frozen
class RequestHead:
    """The first eight bytes of a request."""

    SIZE = _REQUEST_HEAD.size

    api_key: int
    api_version: int
    correlation_id: int

    @classmethod
    def parse(cls, front: memoryview) -> RequestHead:
        """Reads the head from the bytes after the length. ``front`` has at least SIZE bytes."""
        return cls(*_REQUEST_HEAD.unpack_from(front))


class FrameHandler(Protocol):
    """The owner of a scanner. A handler may call :meth:`FrameScanner.pause` from any of these."""

    def route(self, front: memoryview, length: int) -> FrameAction:
        """Decides by the first bytes after the length field. MORE is not accepted once ``front`` is the whole frame."""

    def stream(self, data: memoryview) -> None:
        """A piece of a streamed frame, length field included."""

    def frame(self, body: bytes) -> None:
        """A collected frame, without its length field."""


class FrameScanner:
    """Feeds a handler from a byte stream. Raises ProtocolError for a length outside ``[min_length, max_length]``.

    ``max_front`` bounds how much of a frame is buffered while the handler keeps answering MORE. ``frames`` counts the frames
    that have ended.
    """

    def __init__(self, handler: FrameHandler, *, min_length: int, max_length: int, max_front: int = 65_536 + 256) -> None:
        self._handler = handler
        self._min_length = min_length
        self._max_length = max_length
        self._max_front = max_front
        self._front = bytearray()
        self._length = -1
        self._wanted = _LENGTH.size
        self._collected: bytearray | None = None
        self._streaming = 0
        self._backlog = bytearray()
        self._waiting = False
        self._paused = False
        self._running = False
        self.frames = 0

    @property
    def paused(self) -> bool:
        """Whether bytes are kept back until :meth:`resume`."""
        return self._paused

    @property
    def kept_back(self) -> int:
        """Bytes that wait for :meth:`resume`."""
        return len(self._backlog)

    @property
    def held(self) -> int:
        """Bytes in memory: what waits, and the part of a frame that is collected or not decided."""
        return len(self._backlog) + len(self._front) + len(self._collected or b"")

    @property
    def idle(self) -> bool:
        """Whether the stream stands between two frames, with nothing kept back."""
        return not (self._front or self._streaming or self._backlog or self._collected is not None)

    @property
    def streaming(self) -> bool:
        """Whether a part of a streamed frame has been handed on, and the rest has not."""
        return self._streaming > 0

    @property
    def _stopped(self) -> bool:
        return self._paused and not self._streaming and self._collected is None

    def pause(self) -> None:
        """Keeps all bytes back that follow the frame being handled, also those of the current :meth:`feed`.

        The rest of that frame still passes: its receiver waits for it.
        """
        self._paused = True

    def resume(self) -> None:
        """Goes on with what was kept back."""
        self._paused = False
        if not self._running:
            data, self._backlog = self._backlog, bytearray()
            self.feed(bytes(data))

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the stream. Raises ProtocolError, after which the stream is not to be used."""
        if self._running or self._stopped:
            self._backlog += data
            return
        self._running = True
        try:
            self._scan(memoryview(data))
        finally:
            self._running = False

    def _scan(self, view: memoryview) -> None:
        while len(view) or self._waiting:
            if self._streaming:
                view = self._pass_on(view)
            elif self._collected is not None:
                view = self._collect(view)
            else:
                view = self._begin(view)
            if self._stopped:
                self._backlog += view
                return
            if self._backlog:
                # The handler paused and resumed while it ran, and bytes came in between: they follow these.
                view = memoryview(bytes(view) + self._backlog)
                self._backlog.clear()

    def _pass_on(self, view: memoryview) -> memoryview:
        piece = view[: self._streaming]
        self._streaming -= len(piece)
        self.frames += not self._streaming
        self._handler.stream(piece)
        return view[len(piece) :]

    def _collect(self, view: memoryview) -> memoryview:
        frame = self._collected
        assert frame is not None
        piece = view[: self._length - len(frame)]
        frame += piece
        if len(frame) == self._length:
            self._collected = None
            self._start_over()
            self.frames += 1
            self._handler.frame(bytes(frame))
        return view[len(piece) :]

    def _begin(self, view: memoryview) -> memoryview:
        """Gathers the front of a frame until the handler can tell what to do with it."""
        piece = view[: self._wanted - len(self._front)]
        self._front += piece
        view = view[len(piece) :]
        if len(self._front) < self._wanted:
            return view
        if self._length < 0:
            (self._length,) = _LENGTH.unpack_from(self._front)
            if not self._min_length <= self._length <= self._max_length:
                raise ProtocolError(f"a frame of {self._length} bytes is outside [{self._min_length}, {self._max_length}]")
            self._wanted = _LENGTH.size + self._min_length
            return view
        route = self._handler.route(memoryview(bytes(self._front))[_LENGTH.size :], self._length)
        self._waiting = route is FrameAction.WAIT
        if self._waiting:
            return view
        if route is FrameAction.MORE:
            whole = _LENGTH.size + self._length
            if len(self._front) in (whole, self._max_front):
                raise ProtocolError("the header of a request does not parse")
            self._wanted = min(2 * len(self._front), whole, self._max_front)
            return view
        return self._routed(route, view)

    def _routed(self, route: FrameAction, view: memoryview) -> memoryview:
        front, length = bytes(self._front), self._length
        if route is FrameAction.COLLECT:
            self._collected = bytearray()
            self._front.clear()
            rest = self._collect(memoryview(front)[_LENGTH.size :])
            assert not rest
            return view
        self._start_over()
        # One write for a complete frame: two small writes can wait for a delayed acknowledgement.
        piece = view[: _LENGTH.size + length - len(front)]
        self._streaming = _LENGTH.size + length - len(front) - len(piece)
        self.frames += not self._streaming
        self._handler.stream(memoryview(front + piece))
        return view[len(piece) :]

    def _start_over(self) -> None:
        self._front.clear()
        self._length = -1
        self._wanted = _LENGTH.size
