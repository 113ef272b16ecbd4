"""A client and its broker on two sockets: bytes pass, claimed requests are answered in turn, and both ends close together."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import CorruptIndexError, ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.tls import client_context
from kafka_remote_client.shim.broker_strategy import Ask, ClientRequest
from kafka_remote_client.shim.buffers import BufferBudget
from kafka_remote_client.shim.client_connection import ClientConnection, ConnectionContext
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.listeners import Listeners
from kafka_remote_client.shim.loop_shares import LoopShares
from kafka_remote_client.shim.loop_turns import Client, LoopTurns
from kafka_remote_client.shim.peer_log import PeerLog
from kafka_remote_client.shim.request_pipeline import Hold
from kafka_remote_client.shim.request_rates import RequestRates
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.ports import free_ports
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.scripted_peer import CERTIFICATE
from tests.support.waiting import wait_until

HEARTBEAT = 12
SIOCOUTQNSD = 0x894B
"""Linux: the bytes of a socket that were written and not sent (``linux/sockios.h``)."""


def echo(request: ReceivedRequest) -> bytes:
    """Answers with the request's own bytes after its header."""
    return request.answer(request.body[8:])


class Strategy:
    """Claims every Fetch and lets a test answer it."""

    api_versions: Mapping[int, range] = {}

    def __init__(self, answer: Callable[[ClientRequest, Ask], object]) -> None:
        self._answer = answer

    def collects(self, head: RequestHead, length: int) -> bool:
        return head.api_key == ApiKey.FETCH

    def claims(self, head: RequestHead, body: bytes) -> bool:
        return True

    async def answer(self, request: ClientRequest, ask: Ask) -> bytes | None:
        return await self._answer(request, ask)


def heartbeat(number: int, body: bytes = b"") -> bytes:
    """A Heartbeat version 0; its key is in no table of ours, so the header is written out."""
    head = struct.pack(">hhih", HEARTBEAT, 0, number, 3) + b"raw"
    return struct.pack(">i", len(head) + len(body)) + head + body


@attrs.frozen
class Spoken:
    """The transport that clients use to the shim, on either side."""

    listener: dict[str, Any] = attrs.field(factory=dict)
    client: ssl.SSLContext | None = None


@pytest.fixture(params=["plaintext", "tls"])
def spoken(request: pytest.FixtureRequest) -> Spoken:
    if request.param == "plaintext":
        return Spoken()
    trusting = client_context({"ssl.ca.location": str(CERTIFICATE), "ssl.endpoint.identification.algorithm": "none"})
    return Spoken({"ssl_certificate": str(CERTIFICATE), "handshake_timeout": 60}, trusting)


def test_bytes_pass_both_ways_unchanged() -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address)) as shim, RawClient(shim.bootstrap_servers) as client:
        for number in range(3):
            client.send(heartbeat(number, b"x" * (number * 100_000)))
            assert client.read() == struct.pack(">i", number) + heartbeat(number, b"x" * (number * 100_000))[12:]
        client.send(b"".join(heartbeat(number, b"%d" % number) for number in range(10, 60)))
        for number in range(10, 60):
            assert client.read() == struct.pack(">i", number) + heartbeat(number, b"%d" % number)[12:]
        assert b"".join(request.body for request in broker.requests[3:5]) == heartbeat(10, b"10")[4:] + heartbeat(11, b"11")[4:]


def test_single_bytes_pass(spoken: Spoken) -> None:
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in heartbeat(1, b"slow") + heartbeat(2, b"slower"):
            client.send(bytes([byte]))
        assert client.read().endswith(b"slow")
        assert client.read().endswith(b"slower")


def test_small_answers_do_not_wait_for_an_acknowledgement(spoken: Spoken) -> None:
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.send(heartbeat(1))
        client.read()
        assert shim._proxy
        (connection,) = shim._proxy._connections
        for transport in (connection._client, connection._broker.transport):
            assert transport
            used = transport.get_extra_info("socket")
            assert used.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), used


def test_little_unread_data_stays_in_the_kernel(spoken: Spoken) -> None:
    """The client reads nothing: the kernel has 256 KiB for it beside what the client's own buffer takes, not megabytes."""
    with (
        ScriptedBroker(lambda request: request.answer(bytes(16 << 20))) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.send(heartbeat(1))
        assert shim._proxy
        wait_until(lambda: shim._proxy._buffers.held > 64 << 10, "the shim to stop reading the broker")
        (connection,) = shim._proxy._connections
        assert connection._socket
        unsent = struct.unpack("i", fcntl.ioctl(connection._socket.get_extra_info("socket").fileno(), SIOCOUTQNSD, bytes(4)))
        assert 0 < unsent[0] <= 512 << 10
        assert len(client.read()) == 4 + (16 << 20)


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", (1 << 31) - 1),
        struct.pack(">i", 352_518_912),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS greeting
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhi", 8, 17, 0, 1),  # SaslHandshake 0
        struct.pack(">ihhi", 8, 1, 16, 1),  # Fetch 16
    ],
)
def test_bytes_that_are_not_a_request_end_the_connection(garbage: bytes) -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address)) as shim, RawClient(shim.bootstrap_servers) as client:
        client.send(garbage)
        assert client.closed()
        assert shim.metrics()["connections_dropped.protocol"] == 1
        assert not broker.requests


def test_bytes_that_are_not_an_answer_end_the_connection() -> None:
    def wrong(request: ReceivedRequest) -> bytes:
        return struct.pack(">ii", 4, request.correlation_id + 1)

    with ScriptedBroker(wrong) as broker, Shim(ShimConfig(broker.address)) as shim, RawClient(shim.bootstrap_servers) as client:
        client.send(heartbeat(1))
        assert client.closed()
        assert shim.metrics()["connections_dropped.protocol"] == 1


def test_a_client_is_closed_after_the_brokers_last_bytes(spoken: Spoken) -> None:
    def last_words(request: ReceivedRequest) -> bytes | None:
        if request.correlation_id == 2:
            return None
        return request.answer(b"last words" * 10_000)

    with (
        ScriptedBroker(last_words) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.send(heartbeat(1) + heartbeat(2))
        assert client.read().endswith(b"last words")
        assert client.closed()


def test_a_client_that_disconnects_ends_its_broker_connection(spoken: Spoken) -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, **spoken.listener)) as shim:
        with RawClient(shim.bootstrap_servers, tls=spoken.client) as client:
            client.send(heartbeat(1))
            client.read()
        (request,) = broker.requests
        wait_until(lambda: request.connection.fileno() == -1, "the broker to see the end", seconds=20)


def test_an_unreachable_broker_ends_the_connection() -> None:
    (port,) = free_ports(1)
    with Shim(ShimConfig(f"127.0.0.1:{port}")) as shim, RawClient(shim.bootstrap_servers) as client:
        client.send(heartbeat(1))
        assert client.closed()
        assert shim.metrics()["connections_dropped.upstream"] == 1


def test_the_next_bootstrap_server_is_tried() -> None:
    (port,) = free_ports(1)
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(f"127.0.0.1:{port},{broker.address}")) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(heartbeat(1, b"hello"))
        assert client.read().endswith(b"hello")


def test_a_claimed_request_is_answered_while_others_wait(spoken: Spoken) -> None:
    clients = []

    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        clients.append(request.client)
        told = await ask(ApiKey.FETCH, 12, b"probe")
        return b"granted after " + bytes(told)

    def reply(request: ReceivedRequest) -> bytes:
        return request.answer(b"\0numbers") if request.api_key == ApiKey.FETCH else echo(request)

    with (
        ScriptedBroker(reply) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener), strategy=Strategy(answer)) as shim,
    ):
        with RawClient(shim.bootstrap_servers, tls=spoken.client) as client:
            client.send(heartbeat(1) + client.request(ApiKey.FETCH, 12, 2, b"claim") + heartbeat(3))
            assert client.read()[:4] == struct.pack(">i", 1)
            assert client.read() == struct.pack(">i", 2) + b"\0granted after numbers"
            assert client.read()[:4] == struct.pack(">i", 3)
            assert clients == ["{}:{}".format(*client.socket.getsockname())]
        assert [request.api_key for request in broker.requests] == [HEARTBEAT, ApiKey.FETCH, HEARTBEAT]
        assert broker.requests[1].body.endswith(b"\0\x03raw\0probe")


@pytest.mark.parametrize(
    ("error", "why"), [(ProtocolError("p"), "protocol"), (CorruptIndexError("c"), "protocol"), (RuntimeError("r"), "error")]
)
def test_a_strategy_that_raises_ends_its_connection_only(error: Exception, why: str) -> None:
    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        raise error

    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address), strategy=Strategy(answer)) as shim,
        RawClient(shim.bootstrap_servers) as client,
        RawClient(shim.bootstrap_servers) as other,
    ):
        client.send(client.request(ApiKey.FETCH, 12, 2, b"claim"))
        assert client.closed()
        assert shim.metrics()[f"connections_dropped.{why}"] == 1
        other.send(heartbeat(1, b"still here"))
        assert other.read().endswith(b"still here")


def test_an_answer_for_a_client_that_has_left_is_dropped(spoken: Spoken) -> None:
    began = threading.Event()
    ended = threading.Event()

    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        began.set()
        try:
            await ask(ApiKey.FETCH, 12, b"probe")
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()
        raise AssertionError

    with (
        ScriptedBroker(lambda _request: b"") as broker,
        Shim(ShimConfig(broker.address, **spoken.listener), strategy=Strategy(answer)) as shim,
    ):
        with RawClient(shim.bootstrap_servers, tls=spoken.client) as client:
            client.send(client.request(ApiKey.FETCH, 12, 2, b"claim"))
            assert began.wait(20)
        assert ended.wait(20)


def test_a_reader_that_does_not_read_stops_the_broker(spoken: Spoken) -> None:
    sent = [0]
    body = bytes(1 << 20)

    def reply(request: ReceivedRequest) -> bytes:
        sent[0] += 1
        return request.answer(body)

    with (
        ScriptedBroker(reply) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
        client.send(b"".join(heartbeat(number) for number in range(200)))
        stable = [-1]

        def stuck() -> bool:
            before, stable[0] = stable[0], sent[0]
            return before == sent[0]

        wait_until(stuck, "the broker to stop sending", seconds=30, pause=0.3)
        assert sent[0] < 100
        client.send(b"".join(heartbeat(number) for number in range(200, 250)))
        for number in range(250):
            assert client.read()[:4] == struct.pack(">i", number)


def test_a_client_that_never_reads_gets_little(spoken: Spoken) -> None:
    body = bytes(32 << 10)
    requests = b"".join(heartbeat(number) for number in range(200))
    with (
        ScriptedBroker(lambda request: request.answer(body)) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.send(requests)
        wait_until(lambda: shim.metrics()["buffered_bytes"] > 64 << 10, "the client's buffer to be full")
        assert shim._proxy
        (connection,) = shim._proxy._connections
        wait_until(lambda: Hold.UNREAD in connection._pipeline.holds, "the client's requests to wait")
        assert shim.metrics()["buffered_bytes"] < 512 << 10
        for _ in range(200):
            assert client.read()


def test_a_broker_that_does_not_read_stops_the_client(spoken: Spoken) -> None:
    release = threading.Event()

    def reply(request: ReceivedRequest) -> bytes:
        release.wait(30)
        return request.answer(b"")

    with (
        ScriptedBroker(reply) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        big = heartbeat(1, bytes(1 << 20))
        client.socket.settimeout(1.0)
        sent = _send_until_stuck(client, big, at_most=200)
        release.set()
        assert sent < 100


def test_a_client_that_keeps_sending_during_its_answer_is_paused(spoken: Spoken) -> None:
    release = threading.Event()

    async def answer(request: ClientRequest, ask: Ask) -> bytes | None:
        await asyncio.get_running_loop().run_in_executor(None, release.wait, 30)
        return b"granted"

    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, **spoken.listener), strategy=Strategy(answer)) as shim,
        RawClient(shim.bootstrap_servers, tls=spoken.client) as client,
    ):
        client.socket.settimeout(1.0)
        client.send(client.request(ApiKey.FETCH, 12, 2, b"claim"))
        sent = _send_until_stuck(client, heartbeat(1, bytes(1 << 20)), at_most=200)
        release.set()
        client.socket.settimeout(60.0)
        assert sent < 100
        assert client.read() == struct.pack(">i", 2) + b"\0granted"


def _send_until_stuck(client: RawClient, data: bytes, at_most: int) -> int:
    for sent in range(at_most):
        try:
            client.send(data)
        except TimeoutError:
            return sent
    return at_most


def test_a_stopped_shim_leaves_no_thread_and_no_connection() -> None:
    before = set(threading.enumerate())  # shims of other tests may run
    with ScriptedBroker(echo) as broker:
        shim = Shim(ShimConfig(broker.address)).start()
        clients = [RawClient(shim.bootstrap_servers) for _ in range(5)]
        for client in clients:
            client.send(heartbeat(1))
            client.read()
        shim.stop()
        for client in clients:
            assert client.closed()
            client.socket.close()
            client._stream.close()
    gc.collect()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "kafka-remote-shim"]


class FakeTransport(asyncio.Transport):
    """Closes only by force: written bytes are never sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 5)})
        self.events: list[str] = []
        self.unwritten = 0
        self.limit: int | None = None

    def is_closing(self) -> bool:
        return "close" in self.events

    def close(self) -> None:
        self.events.append("close")

    def abort(self) -> None:
        self.events.append("abort")

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.events.append("write")

    def get_write_buffer_size(self) -> int:
        return self.unwritten

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.limit = high

    def pause_reading(self) -> None:
        self.events.append("pause")

    def resume_reading(self) -> None:
        self.events.append("resume")


class Doorkeeper:
    """Accepts all connections, or none."""

    def __init__(self, *, lets_in: bool = True) -> None:
        self.lets_in = lets_in
        self.closed_connections = 0

    def opened(self, connection: ClientConnection) -> bool:
        return self.lets_in

    def admitted(self, connection: ClientConnection) -> None:
        pass

    def crowded(self) -> None: ...

    def closed(self, connection: ClientConnection) -> None:
        self.closed_connections += 1


def unconnected(clock: ManualClock, owner: Doorkeeper, shares: LoopShares[Client] | None = None) -> ClientConnection:
    config, counters = ShimConfig("127.0.0.1:1"), Counters()
    listeners = Listeners(config, lambda *_: None, lambda _node: None)
    turns = LoopTurns(RequestRates(None, clock), LoopShares(1.0, clock) if shares is None else shares, counters, clock)
    parts = listeners, Strategy(lambda *_: None), counters, clock, BufferBudget(1 << 20), turns, PeerLog(clock)
    return ClientConnection(-1, ConnectionContext(config, *parts), owner)


async def connected(clock: ManualClock, owner: Doorkeeper) -> tuple[ClientConnection, FakeTransport]:
    connection = unconnected(clock, owner)
    transport = FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def test_a_client_that_does_not_read_the_end_is_cut_off() -> None:
    async def body() -> None:
        clock, owner = ManualClock(), Doorkeeper()
        connection, transport = await connected(clock, owner)
        connection.close()
        assert transport.events[-1] == "close"
        assert not connection.overdue(clock.monotonic() + 59)
        assert connection.overdue(clock.monotonic() + 61) == "write"
        connection.drop("write")
        assert transport.events[-1] == "abort"
        await asyncio.sleep(0)
        assert not owner.closed_connections
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert owner.closed_connections

    asyncio.run(body())


def test_64_kib_of_waiting_requests_are_read() -> None:
    async def body() -> None:
        connection, transport = await connected(ManualClock(), Doorkeeper())
        connection.pause_writing()
        for sent, event in ((heartbeat(1, bytes((64 << 10) - len(heartbeat(1)))), "resume"), (b"\0", "pause")):
            connection.data_received(sent)
            assert transport.events[-1] == event

    asyncio.run(body())


def test_further_requests_wait_while_answers_are_not_read() -> None:
    """Not handled, so they cost no turn of the loop. They are handled when the client reads again."""

    async def body() -> None:
        connection, _ = await connected(ManualClock(), Doorkeeper())
        connection.pause_writing()
        connection.data_received(heartbeat(1))
        assert connection._pipeline.holds == {Hold.UNREAD}
        assert connection._pipeline.kept_back == len(heartbeat(1))
        connection.resume_writing()
        assert connection._pipeline.holds == {Hold.CONNECTING}
        connection.drop("write")

    asyncio.run(body())


def test_little_waits_for_a_client_that_has_read_nothing() -> None:
    """It may be one that never reads. Each answer for it costs the loop time, with TLS a millisecond and more."""

    async def body() -> None:
        connection, transport = await connected(ManualClock(), Doorkeeper())
        assert transport.limit == 64 << 10
        connection.pause_writing()
        assert transport.limit == 64 << 10
        connection.resume_writing()
        assert transport.limit == 1 << 20, "it has read what waited"
        connection.drop("write")

    asyncio.run(body())


def test_unread_bytes_above_and_below_tls_count_once() -> None:
    async def body() -> None:
        connection, transport = await connected(ManualClock(), Doorkeeper())
        transport.unwritten = 5
        connection.overdue(0)
        assert connection.held == 5, "one transport without TLS"
        connection._client = above = FakeTransport()  # as if the handshake had ended
        above.unwritten = 3
        connection.overdue(0)
        assert connection.held == 8
        connection.drop("write")

    asyncio.run(body())


def test_a_refused_connection_is_closed_at_once() -> None:
    connection = unconnected(ManualClock(), Doorkeeper(lets_in=False))
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        client, _ = server.accept()
        connection.accepted(client)
        assert client.fileno() == -1


def test_a_client_that_has_gone_is_not_served() -> None:
    connection = unconnected(ManualClock(), Doorkeeper())
    client = socket.socket()
    connection.accepted(client)
    assert client.fileno() == -1
    assert not connection.peer


@pytest.mark.parametrize("end", ["close", "drop"])
def test_a_connection_that_ends_before_its_turn_is_closed(end: str) -> None:
    async def body() -> None:
        clock, owner = ManualClock(), Doorkeeper()
        shares: LoopShares[Client] = LoopShares(1.0, clock)
        connection = unconnected(clock, owner, shares)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
            client, _ = server.accept()
            shares.charge("127.0.0.1", 1.0, setting_up=True)
            connection.accepted(client)
            assert shares.waiting
            connection.drop("idle") if end == "drop" else connection.close()
            assert not shares.waiting
            assert peer.recv(1) == b""
            assert not owner.closed_connections
            await asyncio.sleep(0)
            assert owner.closed_connections == 1

    asyncio.run(body())


def test_a_connection_dropped_while_it_enters_is_closed() -> None:
    """asyncio takes a few turns from the socket to ``connection_made``."""

    async def body() -> None:
        clock, owner = ManualClock(), Doorkeeper()
        connection = unconnected(clock, owner)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
            client, _ = server.accept()
            client.setblocking(False)
            connection.accepted(client)
            connection.drop("idle")
            while not owner.closed_connections:
                await asyncio.sleep(0)
            assert peer.recv(1) == b""

    asyncio.run(body())


def test_a_connection_that_cannot_enter_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        async def fails(*_: object, **__: object) -> None:
            raise OSError("no memory")

        clock, owner = ManualClock(), Doorkeeper()
        connection = unconnected(clock, owner)
        monkeypatch.setattr(asyncio.get_running_loop(), "connect_accepted_socket", fails)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as peer:
            client, _ = server.accept()
            connection.accepted(client)
            while not owner.closed_connections:
                await asyncio.sleep(0)
            assert peer.recv(1) == b""

    asyncio.run(body())


def test_a_broker_that_connects_too_late_is_disconnected() -> None:
    async def body() -> None:
        connection, _ = await connected(ManualClock(), Doorkeeper())
        connection.close()
        late = FakeTransport()
        connection._broker.connection_made(late)
        assert late.events[-1] == "abort"
        connection.data_received(b"too late, too")
        connection.pause_writing()
        connection.resume_writing()

    asyncio.run(body())


def test_a_listener_that_cannot_be_bound_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> tuple[str, int]:
        raise OSError(24, "Too many open files")

    async def body() -> None:
        connection, transport = await connected(ManualClock(), Doorkeeper())
        monkeypatch.setattr(connection._pipeline, "from_client", full)
        connection.data_received(b"whatever makes it bind")
        assert transport.events[-1] == "abort"
        connection.connection_lost(None)
        connection._to_client(b"nobody is there")
        connection._to_broker(b"nobody is there")
        connection._read_client()

    asyncio.run(body())


def test_a_connection_in_use_is_not_idle_at_any_age() -> None:
    async def body() -> None:
        clock = ManualClock()
        connection, _ = await connected(clock, Doorkeeper())
        connection.admitted = True
        connection.data_received(heartbeat(1))
        connection._pipeline.release(Hold.CONNECTING)  # as if the broker had taken the connection
        for number in range(2, 5):
            clock.now += ShimConfig("127.0.0.1:1").idle_timeout - 1
            assert not connection.overdue(clock.monotonic())
            connection.data_received(heartbeat(number))
        clock.now += ShimConfig("127.0.0.1:1").idle_timeout + 1
        assert connection.overdue(clock.monotonic()) == "idle"
        connection.drop("idle")
        connection.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(body())


def test_nothing_is_written_to_a_closed_peer() -> None:
    async def body() -> None:
        connection, transport = await connected(ManualClock(), Doorkeeper())
        connection._broker.connection_made(transport)
        connection._to_client(b"taken")
        connection._to_broker(b"taken")
        transport.close()
        connection._to_client(b"for nobody")
        connection._to_broker(b"for nobody")
        assert transport.events.count("write") == 2

    asyncio.run(body())


def test_single_bytes_do_not_extend_the_time_for_the_first_request() -> None:
    async def body() -> None:
        clock = ManualClock()
        connection, _ = await connected(clock, Doorkeeper())
        for _ in range(3):
            assert not connection.overdue(clock.monotonic())
            clock.now += 4
            connection.data_received(b"\0")
        assert connection.overdue(clock.monotonic()), "12 s without a request"
        connection._last_active = clock.monotonic()
        assert connection.overdue(clock.monotonic()) == "admission", "requests that no broker has served buy no time either"
        connection.drop("idle")
        connection.connection_lost(None)
        await asyncio.sleep(0)

    asyncio.run(body())
