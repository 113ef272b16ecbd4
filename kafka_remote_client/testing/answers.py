"""What a scripted origin answers: the truth, or one of the ways in which stores and networks go wrong.

An :class:`Answer` starts from the truth (the bytes that the request's Range names, under the head that belongs to them) and
says what differs. The functions below it name the usual cases; anything else is a field away::

    Answer(status=206, transform=lambda data: data[:-1] + b"\\0")    # the last byte is damaged
    Answer(headers={"Content-Range": "bytes 0-9/10"})               # a head that belongs to another range
    Answer(ending=Ending.RESET, at=4096)                            # RST after 4096 bytes of the body
    Answer(raw=b"SSH-2.0-OpenSSH\\r\\n")                              # not HTTP
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from enum import Enum

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.shim.origin import error_body

__all__ = ["Answer", "Ending", "Pace", "error", "gzipped", "multipart", "other_bytes", "redirect", "whole_object"]


class Ending(Enum):
    """How an answer stops, after ``at`` bytes of its body."""

    COMPLETE = "complete"
    CUT = "cut"
    """The connection is closed (FIN)."""
    RESET = "reset"
    """The connection is reset (RST)."""
    STALL = "stall"
    """No more bytes are sent; the connection stays open until the origin is released or stopped."""


@attrs.frozen
class Pace:
    """``size`` bytes of the body every ``seconds``."""

    size: int
    seconds: float

    def __attrs_post_init__(self) -> None:
        arguments.whole(self.size, "size", 1)
        arguments.duration(self.seconds, "seconds")


@attrs.frozen(kw_only=True)
class Answer:
    """One answer. ``None`` and defaults mean: as in the true answer.

    status      of the head; the reason phrase is always "Scripted"
    headers     added to the true ones, or in their place; a value of ``None`` removes a header
    body        in place of the true bytes; Content-Length follows it
    transform   the same, made from the true bytes
    raw         sent in place of head and body; the connection is closed after it
    silent      no byte at all is sent, and the connection stays open until the origin is released or stopped
    delay       seconds before the head
    pace        at which the body goes out
    ending, at  where and how the body stops; ``at`` None is its end
    chunked     Transfer-Encoding: chunked in place of Content-Length, in chunks of 1,000 bytes
    """

    status: int | None = None
    headers: Mapping[str, str | None] = attrs.field(factory=dict)
    body: bytes | None = None
    transform: Callable[[bytes], bytes] | None = None
    raw: bytes | None = None
    silent: bool = False
    delay: float = 0.0
    pace: Pace | None = None
    ending: Ending = Ending.COMPLETE
    at: int | None = None
    chunked: bool = False

    def __attrs_post_init__(self) -> None:
        arguments.duration(self.delay, "delay")
        arguments.member(Ending, self.ending, "ending")
        if self.at is not None:
            arguments.whole(self.at, "at", 0)


def error(status: int, code: str | None = None, message: str = "scripted", **headers: str) -> Answer:
    """An error as S3 writes it; without ``code`` it has no body. Header names are given with ``_`` for ``-``."""
    named: dict[str, str | None] = {name.replace("_", "-"): value for name, value in headers.items()}
    body = b"" if code is None else error_body(code, message)
    return Answer(status=status, headers={"Content-Type": "application/xml", "Content-Range": None, **named}, body=body)


def redirect(location: str, status: int = 302) -> Answer:
    """A redirect to another URL."""
    return Answer(status=status, headers={"Location": location, "Content-Range": None}, body=b"")


def whole_object(data: bytes) -> Answer:
    """200 with the whole object: a store without support of ranges."""
    return Answer(status=200, headers={"Content-Range": None}, body=data)


def other_bytes(data: bytes) -> Answer:
    """The headers of the true range with other bytes of the same length."""
    return Answer(body=data)


def gzipped() -> Answer:
    """The true bytes, compressed although the client requested identity encoding."""
    return Answer(headers={"Content-Encoding": "gzip"}, transform=gzip.compress)


def multipart() -> Answer:
    """206 as ``multipart/byteranges``, the form for several ranges."""
    part = b"--scripted\r\nContent-Range: bytes 0-0/10\r\n\r\nx\r\n--scripted--\r\n"
    return Answer(headers={"Content-Type": "multipart/byteranges; boundary=scripted", "Content-Range": None}, body=part)
