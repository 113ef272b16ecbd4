"""A client reaches the cluster while some of its bootstrap servers are down."""

from __future__ import annotations

import asyncio
import logging
import socket

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.dialing import dial
from kafka_remote_client.shim.listeners import BOOTSTRAP, Listeners
from kafka_remote_client.shim.peer_log import PeerLog
from kafka_remote_client.shim.tls import broker_context
from tests.support.full_backlog import full_port
from tests.support.ports import HOST, free_ports
from tests.support.scripted_peer import CERTIFICATE, PeerConnection, ScriptedPeer
from tests.support.silent_peer import SilentPeer


class Kept(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.BaseTransport | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set()

    async def close(self) -> None:
        """Returns when the connection has ended. With TLS that takes an answer of the peer."""
        if self.transport is not None:
            self.transport.close()
            await self.lost.wait()


def dialled(*configs: ShimConfig) -> list[tuple[str, int] | None]:
    """What a connection with each of the configurations reached; all have the listeners of the first."""

    async def body() -> list[tuple[str, int] | None]:
        log = PeerLog(SystemClock())
        listeners, reached = Listeners(configs[0], lambda *_: None, lambda _: None), []
        for config in configs:
            protocol = Kept()
            reached.append(await dial(protocol, BOOTSTRAP, listeners, config, broker_context(config), log))
            await protocol.close()
        return reached

    return asyncio.run(body())


def test_silent_server_leaves_time_for_the_others(caplog: pytest.LogCaptureFixture) -> None:
    def wait_for_the_end(peer: PeerConnection) -> None:
        peer.read(1)

    caplog.set_level(logging.INFO)
    with SilentPeer() as silent, ScriptedPeer(wait_for_the_end, certificate=CERTIFICATE) as peer:
        config = ShimConfig(
            f"{silent.address},localhost:{peer.port}",
            admission_timeout=4,
            connect_timeout=60,
            broker_settings={"security.protocol": "ssl", "ssl.ca.location": str(CERTIFICATE)},
        )
        assert dialled(config, attrs.evolve(config, admission_timeout=600)) == [("localhost", peer.port)] * 2
        assert silent.connections == 1
        assert f"broker {silent.address} cannot be reached: no answer within 1 s" in caplog.text


def test_a_silent_address_of_a_name_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait_for_the_end(peer: PeerConnection) -> None:
        peer.read(1)

    with full_port() as off, ScriptedPeer(wait_for_the_end) as peer:
        addresses = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (HOST, port)) for port in (off, peer.port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
        assert dialled(ShimConfig("brokers.example:9092", connect_timeout=5)) == [("brokers.example", 9092)]


def test_no_server_is_reached_if_all_refuse(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one, two = free_ports(2)
    assert dialled(ShimConfig(f"127.0.0.1:{one},127.0.0.1:{two}")) == [None]
    assert f"broker 127.0.0.1:{one} cannot be reached: " in caplog.text
    assert f"broker 127.0.0.1:{two} cannot be reached: " in caplog.text
