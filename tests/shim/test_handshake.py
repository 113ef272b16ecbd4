"""A TLS handshake begins when the client's first record is complete. Until then there is no TLS state."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.protocol.tls import client_context
from kafka_remote_client.shim import handshake
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.handshake import awaits_record
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.certificates import Authority
from tests.support.client_hello import client_hello
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import wait_until

LONGEST = b"\x16\x03\x01\x40\x00" + bytes(1 << 14)


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def tls(authority: Authority, tmp_path: Path) -> dict[str, Any]:
    authority.issue().write(tmp_path / "shim.pem")
    return {"ssl_certificate": str(tmp_path / "shim.pem"), "handshake_timeout": 60}


def arrived(shim: Shim, client: RawClient, sent: bytes) -> None:
    """Waits until the shim has what the client has sent: an incomplete record waits, a complete one is answered."""
    wait_until(lambda: shim.metrics().get("connections") == 1, "the client to be here")
    if awaits_record(sent):
        wait_until(lambda: shim.metrics()["buffered_bytes"] == len(sent), "the bytes to be there")
    else:
        assert client.socket.recv(1) == b"\x16"


@pytest.mark.parametrize("record", [client_hello(), LONGEST], ids=["ClientHello", "longest"])
def test_a_record_is_awaited_up_to_its_last_byte(record: bytes) -> None:
    for size in (*range(8), len(record) - 1):
        assert awaits_record(record[:size])
    assert not awaits_record(record)
    assert not awaits_record(record + b"more")


@pytest.mark.parametrize(
    "received",
    [b"\x17", b"G", b"\0\0\0\x0c", b"\x16\x02", b"\x16\x04\x01", b"\x16\x03\x01\x40\x01", b"\x16\x03\x01\0\0"],
    ids=["data", "HTTP", "Kafka", "SSL 2", "major version 4", "longer than a record", "empty record"],
)
def test_bytes_that_begin_no_hello_are_not_awaited(received: bytes) -> None:
    assert not awaits_record(received)


def test_there_is_no_tls_state_before_the_hello_is_complete(
    monkeypatch: pytest.MonkeyPatch, tls: dict[str, Any], authority: Authority
) -> None:
    made: list[SSLProtocol] = []
    init = SSLProtocol.__init__

    def counted(self: SSLProtocol, *given: Any, **named: Any) -> None:
        made.append(self)
        init(self, *given, **named)

    monkeypatch.setattr(SSLProtocol, "__init__", counted)
    hello = client_hello()
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, **tls)) as shim:
        with RawClient(shim.bootstrap_servers) as silent, RawClient(shim.bootstrap_servers) as slow:
            for byte in hello[:-1]:
                slow.send(bytes([byte]))
            wait_until(lambda: shim.metrics()["buffered_bytes"] == len(hello) - 1, "the bytes to be there")
            assert not made
            slow.send(hello[-1:])
            wait_until(lambda: len(made) == 1, "the handshake to begin")
            assert slow.socket.recv(1) == b"\x16", "the answer is a handshake record"
            assert silent.socket.fileno() >= 0
        trusting = client_context({"ssl.ca.pem": authority.pem})
        with RawClient(shim.bootstrap_servers, tls=trusting) as client:
            client.send(heartbeat(1, b"hello"))
            assert client.read().endswith(b"hello")
        assert len(made) == 2
        assert (made[0].max_size, made[1].max_size) == (4 << 10, SSLProtocol.max_size), "small only during the handshake"


def test_a_hello_in_single_bytes_is_answered(tls: dict[str, Any], authority: Authority) -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    secured = client_context({"ssl.ca.pem": authority.pem}).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, **tls)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        while True:
            try:
                secured.do_handshake()
                break
            except ssl.SSLWantReadError:
                for byte in outgoing.read():
                    client.send(bytes([byte]))
                incoming.write(client.socket.recv(1 << 14))
        secured.write(heartbeat(7, b"whole"))
        client.send(outgoing.read())
        answer = b""
        while not answer.endswith(b"whole"):
            incoming.write(client.socket.recv(1 << 14))
            try:
                answer += secured.read()
            except ssl.SSLWantReadError:  # session tickets
                continue
        assert not any(name.startswith("connections_dropped") for name in shim.metrics())


def test_the_time_out_covers_both_steps(tls: dict[str, Any]) -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, **{**tls, "handshake_timeout": 0.2})) as shim:
        with RawClient(shim.bootstrap_servers) as halting, RawClient(shim.bootstrap_servers) as mute:
            halting.send(client_hello()[:-1])
            mute.send(client_hello())
            assert halting.closed()
            with suppress(ConnectionResetError):  # the shim may not have read the hello when its time is over
                while mute.socket.recv(1 << 14):
                    pass
        wait_until(lambda: shim.metrics().get("connections_closed") == 2, "both to be closed")
        assert shim.metrics()["connections_dropped.tls"] == 2


@pytest.mark.parametrize(("passed", "left"), [(3.0, 2.0), (7.0, 0.001)])
def test_second_step_has_the_rest_of_the_time_out(monkeypatch: pytest.MonkeyPatch, passed: float, left: float) -> None:
    """The first record took 3 of 5 seconds; or longer, on a busy machine whose timer is late."""
    given: list[float] = []

    def begun(_loop: object, _protocol: object, _context: object, _waiter: object, seconds: float, *_: object) -> None:
        given.append(seconds)
        raise ConnectionAbortedError

    async def secure() -> None:
        unused: Any = None
        waiting, loop = handshake.Handshake(5.0, lambda: None), asyncio.get_running_loop()
        now = waiting._timer.when() - 5.0 + passed
        with monkeypatch.context() as patched:
            patched.setattr(handshake, "_ServerSide", begun)
            patched.setattr(loop, "time", lambda: now)
            await waiting.secured(unused, unused, unused, unused, unused)

    with pytest.raises(ConnectionAbortedError):
        asyncio.run(secure())
    assert given == [pytest.approx(left)]


@pytest.mark.parametrize("sent", [b"", client_hello()[:9], client_hello()], ids=["nothing", "a part", "a whole hello"])
def test_a_client_in_a_handshake_ends_with_the_shim(tls: dict[str, Any], sent: bytes) -> None:
    config = ShimConfig("127.0.0.1:1", admission_timeout=600, **{**tls, "handshake_timeout": 600})
    with Shim(config, clock=ManualClock()) as shim:
        client = RawClient(shim.bootstrap_servers)
        client.send(sent)
        arrived(shim, client, sent)
    with client:
        while client.socket.recv(1 << 14):
            pass
    assert shim.metrics()["connections_dropped.stopped"] == 1
    assert shim.metrics()["connections_closed"] == 1


@pytest.mark.parametrize("sent", [b"", client_hello()[:9], client_hello()], ids=["nothing", "a part", "a whole hello"])
def test_a_client_in_a_handshake_delays_no_drain(tls: dict[str, Any], sent: bytes) -> None:
    config = ShimConfig("127.0.0.1:1", admission_timeout=600, drain_timeout=600, **{**tls, "handshake_timeout": 600})
    with Shim(config, clock=ManualClock()) as shim, RawClient(shim.bootstrap_servers) as client:
        client.send(sent)
        arrived(shim, client, sent)
        shim.drain()
        while client.socket.recv(1 << 14):
            pass
        assert shim.metrics()["connections_closed"] == 1
