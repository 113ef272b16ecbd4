"""One client's connection and the connection to a broker that belongs to it, as asyncio protocols.

Bytes go through a :class:`~kafka_remote_client.shim.request_pipeline.RequestPipeline`. This module connects upstream after the
client's first request, applies back-pressure (while one side reads slowly, it does not read the other one, nor handle further
requests of that client), and runs the strategy's answers as tasks. When one side closes, it closes the other one after the
written bytes are sent. Each connection has deadlines::

    deadline          | within it                                              | dropped as
    admission_timeout | the broker has to admit the client, TLS included       | admission
    write_timeout     | a peer has to read the written bytes                   | write
    idle_timeout      | a whole request or answer has to arrive                | idle

Single bytes do not extend a deadline. All buffers of all connections share one budget (``buffers.py``).

A new connection, and each request after the first, waits for its turn when its share of the loop is used (``loop_turns.py``).
This module does the TLS handshakes, and not the listener, so that endless ones are counted and bounded (``handshake.py``).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol, TypeVar

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import DirectFetchError, ProtocolError
from kafka_remote_client.shim.broker_strategy import BrokerStrategy
from kafka_remote_client.shim.buffers import BufferBudget
from kafka_remote_client.shim.client_admission import ClientAdmission
from kafka_remote_client.shim.config import Address, ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.dialing import dial
from kafka_remote_client.shim.handshake import Handshake
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.loop_turns import LoopTurns
from kafka_remote_client.shim.peer_log import PeerLog
from kafka_remote_client.shim.request_pipeline import ClaimedRequest, Hold, RequestPipeline
from kafka_remote_client.shim.write_progress import WriteProgress
from kafka_remote_client.wire import Buffer

__all__ = ["ClientConnection", "ConnectionContext"]

T = TypeVar("T")

_LOG = logging.getLogger(__name__)

_MAX_KEPT_BACK = 64 << 10
_MAX_UNSENT = 256 << 10
_MAX_UNWRITTEN = 1 << 20
"""Bytes for one side that are held before the other side is read no more: several reads' worth, so that neither idles."""
_MAX_UNWRITTEN_AT_FIRST = 64 << 10
"""The same for a client that has not read its first answers: it may never do so. Also what TLS holds beside that."""


class Owner(Protocol):
    """Counts the connections."""

    def opened(self, connection: ClientConnection) -> bool:
        """Whether the connection may stay."""

    def admitted(self, connection: ClientConnection) -> None:
        """The broker serves the client."""

    def crowded(self) -> None:
        """The budget for buffers is exceeded."""

    def closed(self, connection: ClientConnection) -> None:
        """Both sides are gone."""


@attrs.frozen
class ConnectionContext:
    """What all connections of a shim share."""

    config: ShimConfig
    listeners: Listeners
    strategy: BrokerStrategy
    counters: Counters
    clock: Clock
    buffers: BufferBudget
    turns: LoopTurns
    peer_log: PeerLog
    listener_tls: ssl.SSLContext | None = None
    broker_tls: ssl.SSLContext | None = None


class ClientConnection(asyncio.Protocol):
    """A pair of connections; also the protocol object of the client's side. ``node_id``: whose listener accepted it.

    ``held``: its bytes in the budget. ``admitted``: whether the owner was told that the broker serves the client.
    """

    def __init__(self, node_id: int, context: ConnectionContext, owner: Owner) -> None:
        self.node_id = node_id
        self.peer = self._client_address = ""
        self.upstream: Address | None = None
        self.held = 0
        self.admitted = False
        self._context = context
        self._owner = owner
        self._accepted: socket.socket | None = None  # before it is served
        self._entering: asyncio.Task[object] | None = None
        self._client: asyncio.Transport | None = None
        self._socket: asyncio.Transport | None = None  # below TLS, the client's transport itself without
        self._handshake: Handshake | None = None  # until the client's first TLS record is complete
        self._broker = _BrokerSide(self)
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: set[asyncio.Future[memoryview]] = set()
        self._admission = ClientAdmission()
        self._pipeline = RequestPipeline(
            strategy=context.strategy,
            advertise=context.listeners.advertise,
            counters=context.counters,
            to_client=self._to_client,
            to_broker=self._to_broker,
            claimed=self._answer,
            dial=lambda: self._start(self._connect()),
            admission=self._admission,
            max_request_bytes=context.config.max_request_bytes,
            max_in_flight=context.config.max_in_flight,
            counted=self._pace,
        )
        self._broker_full = False
        self._draining = False
        self._frames = 0
        self._for_client, self._for_broker = WriteProgress(), WriteProgress()
        self._opened_at = self._last_active = context.clock.monotonic()
        self._closing_at: float | None = None

    # What the owner needs.

    @property
    def closing(self) -> bool:
        """Whether the end of this connection has begun."""
        return self._closing_at is not None

    @property
    def setting_up(self) -> bool:
        """Whether the client is not admitted, or asks for versions or SASL again."""
        return self._admission.setting_up

    def waited(self, now: float) -> float:
        """For how many seconds a peer has not read the written bytes, as of the last event."""
        return max(self._for_client.waited(now), self._for_broker.waited(now))

    def overdue(self, now: float) -> str | None:
        """Which of its deadlines this connection has missed. Asks the broker about a client that only asked for versions."""
        config = self._context.config
        self._account()
        if self._closing_at is not None:
            return "write" if now - self._closing_at > config.write_timeout else None
        if not self.admitted and now - self._opened_at > config.admission_timeout:
            return "admission"
        if not self.admitted and 2 * (now - self._opened_at) > config.admission_timeout:
            self._pipeline.ask_late()
        if self.waited(now) > config.write_timeout:
            return "write"
        return "idle" if now - self._last_active > config.idle_timeout else None

    def drop(self, why: str) -> None:
        """Ends both sides at once, whatever is still to be written."""
        if self._closing_at is None:
            self._context.counters.add(f"connections_dropped.{why}")
        self._begin_closing()
        for transport in (self._socket, self._broker.transport):
            if transport is not None:
                transport.abort()
        self._context.buffers.holds(self, 0)

    def close(self) -> None:
        """Ends both sides after what was written to them has gone out."""
        self._begin_closing()
        for transport in (self._client or self._socket, self._broker.transport):
            if transport is not None and not transport.is_closing():
                transport.close()

    def drain(self) -> None:
        """Reads no further request, and closes both sides after the answers to the received ones."""
        self._draining = True
        if self._pipeline.in_progress:
            self._read_client()
        else:
            self.close()

    def _begin_closing(self) -> None:
        if self._closing_at is None:
            self._closing_at = self._context.clock.monotonic()
        waits: tuple[asyncio.Future[Any], ...] = (*self._tasks, *self._asked)
        for one in waits:
            one.cancel()
        self._context.turns.leave(self)
        if self._handshake:
            self._handshake.stop()
        if self._accepted is not None:
            self._accepted.close()
            self._accepted = None
            asyncio.get_running_loop().call_soon(self._side_lost)

    def accepted(self, client: socket.socket) -> None:
        """Takes the client's socket, which does not block. It is served now or when its turn comes."""
        try:
            host, port, *_ = client.getpeername()
        except OSError:  # the client has gone
            client.close()
            return
        self.peer, self._client_address = str(host), f"{host}:{port}"
        if not self._owner.opened(self):
            client.close()
            return
        self._accepted = client
        if self._context.turns.may_enter(self):
            self.turn()

    def turn(self) -> None:
        """Serves a new connection, or goes on with the requests that wait."""
        if self._accepted is None:
            self._release(Hold.PACED)
            return
        client, self._accepted = self._accepted, None
        self._context.turns.entered(self)
        loop = asyncio.get_running_loop()
        self._entering = loop.create_task(self._measured(loop.connect_accepted_socket(lambda: self, client)))
        self._entering.add_done_callback(partial(self._entered, client))

    def _entered(self, client: socket.socket, entering: asyncio.Task[object]) -> None:
        self._entering = None
        if entering.cancelled() or entering.exception() is not None:
            client.close()
            self.drop("error")
        if self.closing:
            self._side_lost()

    # The client's side, called by asyncio.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = self._socket = transport
        transport.set_write_buffer_limits(_MAX_UNWRITTEN_AT_FIRST)
        if self.closing:
            transport.abort()
            return
        _limit_unsent(transport)
        if self._context.listener_tls is not None:
            self._handshake = Handshake(self._context.config.handshake_timeout, partial(self._failed, "no ClientHello in time"))

    def data_received(self, data: bytes) -> None:
        self._feed(self._pipeline.from_client if self._handshake is None else self._take_handshake, data)

    def pause_writing(self) -> None:
        self._broker.read(False)
        self._pipeline.hold(Hold.UNREAD)

    def resume_writing(self) -> None:
        if self._socket is not None:
            self._socket.set_write_buffer_limits(_MAX_UNWRITTEN)
        self._broker.read(True)
        self._release(Hold.UNREAD)

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._handshake is not None:
            self.drop("tls")
        self._client = None
        self._side_lost()

    # The broker's side, called by _BrokerSide.

    def broker_sent(self, data: bytes) -> None:
        self._feed(self._pipeline.from_broker, data)

    def broker_full(self, full: bool) -> None:
        self._broker_full = full
        self._account()
        self._read_client()

    def broker_lost(self) -> None:
        self._side_lost()

    # Within.

    def _side_lost(self) -> None:
        self.close()
        if self._client is None and self._broker.transport is None and not self._tasks and self._entering is None:
            self._context.buffers.holds(self, 0)
            self._owner.closed(self)

    def _feed(self, take: Callable[[bytes], None], data: bytes) -> None:
        if self._closing_at is not None:
            return
        now = self._context.clock.monotonic()
        self._context.turns.begin()
        try:
            self._take(take, data, now)
        finally:
            self._context.turns.end(self)

    def _take(self, take: Callable[[bytes], None], data: bytes, now: float) -> None:
        try:
            take(data)
        except ProtocolError as error:
            self._context.peer_log.closing(self.peer, "protocol", error)
            self.drop("protocol")
        except OSError as error:
            self._context.peer_log.closing(self.peer, "listener", f"a listener cannot be bound: {error}", logging.WARNING)
            self.drop("error")
        else:
            if self._pipeline.frames != self._frames:
                self._frames, self._last_active = self._pipeline.frames, now
            if self._admission.admitted and not self.admitted:
                self.admitted = True
                self._owner.admitted(self)
            self._account()
            if self._draining:
                self.drain()
            else:
                self._read_client()

    def _account(self) -> None:
        """Brings the deadlines of writing and the budget up to date."""
        if self.closing and not self.held:
            return  # an aborted transport no longer holds these bytes
        now = self._context.clock.monotonic()
        below = self._socket if self._socket is not self._client else None
        for_client = sum(one.get_write_buffer_size() for one in (self._client, below) if one is not None)
        for_broker = 0 if self._broker.transport is None else self._broker.transport.get_write_buffer_size()
        self._for_client.look(for_client, now)
        self._for_broker.look(for_broker, now)
        of_handshake = 0 if self._handshake is None else self._handshake.held
        self._context.buffers.holds(self, self._pipeline.held + of_handshake + for_client + for_broker)
        if self._context.buffers.exceeded:
            self._owner.crowded()

    def _to_client(self, data: Buffer) -> None:
        if self._client is not None and not self._client.is_closing():  # asyncio warns of bytes for a peer that has gone
            self._for_client.wrote(len(data))
            self._client.write(data)

    def _to_broker(self, data: Buffer) -> None:
        if self._broker.transport is not None and not self._broker.transport.is_closing():
            self._for_broker.wrote(len(data))
            self._broker.transport.write(data)

    def _read_client(self) -> None:
        if self._client is None or self._handshake is not None:
            return
        # Reading continues, up to a limit, while requests only wait, so that a disconnect is noticed.
        drained = self._draining and self._pipeline.between_requests
        if self._broker_full or drained or self._pipeline.kept_back > _MAX_KEPT_BACK:
            self._client.pause_reading()
        else:
            self._client.resume_reading()

    def _take_handshake(self, data: bytes) -> None:
        """Begins the TLS handshake when the client's first record is complete."""
        handshake, transport = self._handshake, self._client
        if handshake is not None and transport is not None and handshake.take(data):
            transport.pause_reading()
            self._handshake = self._client = None  # no one is notified if it ends before its handshake does
            # The steps of the handshake are measured by themselves, which takes less memory.
            self._start(self._secure(handshake, transport), measured=False)

    def _failed(self, why: object) -> None:
        self._context.peer_log.closing(self.peer, "tls", f"the TLS handshake failed: {why}")
        self.drop("tls")

    async def _secure(self, handshake: Handshake, transport: asyncio.Transport) -> None:
        """Replaces the client's transport by one with TLS. Its first bytes may arrive before this continues."""
        tls_context, turns = self._context.listener_tls, self._context.turns
        assert tls_context is not None
        try:
            secured = await handshake.secured(transport, self, tls_context, turns.begin, partial(turns.end, self))
        except OSError as error:  # also ssl.SSLError, and what a time-out raises
            self._failed(error)
            return
        if secured is None or secured.is_closing():
            self.drop("tls")
        else:
            self._client = secured
            secured.set_write_buffer_limits(_MAX_UNWRITTEN_AT_FIRST)
            self._read_client()

    async def _connect(self) -> None:
        context, tls = self._context, self._context.broker_tls
        self.upstream = await dial(self._broker, self.node_id, context.listeners, context.config, tls, context.peer_log)
        if self.upstream is None:
            self.drop("upstream")
            return
        if self.upstream not in context.listeners.upstream(self.node_id):
            self.close()  # the node's address became known, or changed, meanwhile
            return
        if tls is not None and tls.verify_mode is ssl.CERT_NONE:
            context.counters.add("broker_connections_unverified")
        self._release(Hold.CONNECTING)

    def _release(self, why: Hold) -> None:
        self._feed(lambda _nothing: self._pipeline.release(why), b"")

    def _pace(self) -> None:
        """Makes further requests wait for their turn when the client has used up its share or its rate."""
        if not self._context.turns.may_go_on(self):
            self._pipeline.hold(Hold.PACED)

    def _answer(self, claim: ClaimedRequest) -> None:
        self._start(self._work(claim))

    async def _work(self, claim: ClaimedRequest) -> None:
        try:
            secure, client = self._context.listener_tls is not None, self._client_address
            known = attrs.evolve(claim.request, secure=secure, client=client, principal=self._principal(), connection=id(self))
            result = await self._context.strategy.answer(known, partial(self._ask, claim))
        except DirectFetchError as error:
            self._context.peer_log.closing(self.peer, "request", error)
            self.drop("protocol")
        except Exception:  # noqa: BLE001 - one client's request must not end all others; it is logged with its trace
            _LOG.exception("a request of %s cannot be answered", self.peer)
            self.drop("error")
        else:
            self._feed(lambda _nothing: self._pipeline.answered(claim, result), b"")

    def _principal(self) -> str:
        certificate = None if self._client is None else self._client.get_extra_info("peercert")
        names = (pair for part in certificate["subject"] for pair in part) if certificate else ()
        return ",".join(f"{name}={value}" for name, value in names)

    async def _ask(self, claim: ClaimedRequest, api_key: int, version: int, body: Buffer) -> memoryview:
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()

        def deliver(answer: memoryview) -> None:
            if not future.done():
                future.set_result(answer)

        if self._closing_at is not None:
            future.cancel()
            return await future
        self._asked.add(future)
        future.add_done_callback(self._asked.discard)
        self._pipeline.ask(claim, api_key, version, body, deliver)
        return await future

    def _start(self, work: Coroutine[Any, Any, None], *, measured: bool = True) -> None:
        task = asyncio.get_running_loop().create_task(self._measured(work) if measured else work)
        self._tasks.add(task)
        if measured:
            task.add_done_callback(lambda _task: work.close())  # it may be cancelled before it begins
        task.add_done_callback(self._done)

    async def _measured(self, work: Coroutine[Any, Any, T]) -> T:
        return await self._context.turns.measured(self, work)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._closing_at is not None:
            self._side_lost()


def _limit_unsent(transport: asyncio.Transport) -> None:
    """Limits what the kernel keeps of data that the client does not read. Data on its way to the client does not count."""
    client = transport.get_extra_info("socket")
    if client is not None and client.family in (socket.AF_INET, socket.AF_INET6):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _MAX_UNSENT)


class _BrokerSide(asyncio.Protocol):
    """The protocol object of the broker's side."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.transport: asyncio.Transport | None = None

    def read(self, wanted: bool) -> None:
        if self.transport is not None:
            (self.transport.resume_reading if wanted else self.transport.pause_reading)()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(_MAX_UNWRITTEN)
        if self._connection.closing:
            transport.abort()  # the client disconnected when the broker answered

    def data_received(self, data: bytes) -> None:
        self._connection.broker_sent(data)

    def pause_writing(self) -> None:
        self._connection.broker_full(True)

    def resume_writing(self) -> None:
        self._connection.broker_full(False)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.transport = None
        self._connection.broker_lost()
