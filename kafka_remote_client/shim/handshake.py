"""The TLS handshake of one client, done with little memory while the client may never finish it.

The client's first bytes go through two steps::

    step        | until                                   | memory, about
    waiting     | the first TLS record is complete        | 2 KiB and the bytes of the record
    handshaking | the handshake ends                      | 50 KiB: OpenSSL's state and buffers, and asyncio's protocol

A client sends its ClientHello in the first record. Until then there is nothing to answer, so there is no TLS state. Bytes that
cannot begin a ClientHello go to OpenSSL at once, which rejects them. One time-out covers both steps.

References: RFC 8446, sections 4.1.2 and 5.1.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import cast

__all__ = ["Handshake", "awaits_record"]

_HANDSHAKE = 0x16
_MAJOR_VERSION = 0x03
_HEADER_BYTES = 5
_MAX_RECORD_BYTES = 1 << 14
_BUFFER_BYTES = 4 << 10
"""What asyncio's protocol reads at once during a handshake."""
_LEAST_SECONDS = 0.001


def awaits_record(received: bytes | bytearray) -> bool:
    """Whether ``received`` is the beginning of a handshake record that is not complete."""
    if any(byte != expected for byte, expected in zip(received, (_HANDSHAKE, _MAJOR_VERSION), strict=False)):
        return False
    if len(received) < _HEADER_BYTES:
        return True
    length = int.from_bytes(received[3:_HEADER_BYTES], "big")
    return length <= _MAX_RECORD_BYTES and len(received) < _HEADER_BYTES + length


class Handshake:
    """A handshake that begins now. ``late`` is called if the first record is not complete after ``seconds``."""

    def __init__(self, seconds: float, late: Callable[[], None]) -> None:
        self._received = bytearray()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(seconds, late)

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of their record."""
        return len(self._received)

    def take(self, data: bytes) -> bool:
        """Adds bytes of the client. Returns whether the handshake can begin."""
        self._received += data
        return not awaits_record(self._received)

    def stop(self) -> None:
        """Ends the time-out of the first record."""
        self._timer.cancel()

    async def secured(
        self,
        transport: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> asyncio.Transport | None:
        """Returns the transport with TLS above ``transport``, which is paused; ``None`` if the client has gone.

        ``begin`` and ``end`` are called around each step. Does what ``loop.start_tls`` does, with the received bytes and a
        smaller buffer. Raises OSError, which ssl.SSLError and TimeoutError are.
        """
        self.stop()
        left = max(_LEAST_SECONDS, self._timer.when() - self._loop.time())
        waiter: asyncio.Future[None] = self._loop.create_future()
        tls = _ServerSide(self._loop, protocol, context, waiter, left, begin, end)
        transport.set_protocol(tls)
        received, self._received = self._received, bytearray()
        try:
            tls.begin(transport, received)
            transport.resume_reading()
            await waiter
        except BaseException:
            transport.close()
            raise
        return tls.ended()


class _ServerSide(SSLProtocol):
    """asyncio's protocol with a small buffer until the handshake has ended, whose steps are measured."""

    max_size = _BUFFER_BYTES

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        waiter: asyncio.Future[None],
        seconds: float,
        begin: Callable[[], None],
        end: Callable[[], None],
    ) -> None:
        super().__init__(
            loop,
            protocol,
            context,
            waiter,
            server_side=True,
            call_connection_made=False,
            ssl_handshake_timeout=cast("int", seconds),  # any number, other than the stub says
        )
        self._begin, self._end = begin, end

    def begin(self, transport: asyncio.Transport, received: bytearray) -> None:
        """Begins the handshake with the bytes that the client has sent."""
        incoming: ssl.MemoryBIO = getattr(self, "_incoming")  # noqa: B009 - unknown to the type checker
        incoming.write(received)
        self.connection_made(transport)

    def ended(self) -> asyncio.Transport | None:
        """The transport for the time after the handshake, with a buffer for traffic from its next read on."""
        setattr(self, "max_size", SSLProtocol.max_size)  # noqa: B010 - a class variable to the type checker
        return self._app_transport

    def _do_handshake(self) -> None:
        self._begin()
        try:
            super()._do_handshake()  # type: ignore[misc]  # unknown to the type checker
        finally:
            self._end()
