"""Hundreds of misbehaving peers: each kind is closed and counted, buffers are bounded, other clients are served."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.certificates import Authority
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.waiting import wait_until

PEERS = 200
FLOODING = 60
FLOOD = 256 << 10
ROUNDS = 20


def answer(request: ReceivedRequest) -> bytes:
    """Returns as many zeros as a flooding client requests, and an echo to all other clients."""
    return request.answer(bytes(FLOOD)) if request.body.endswith(b"flood") else echo(request)


@contextlib.contextmanager
def peers(address: str, first_bytes: bytes = b"", count: int = PEERS) -> Iterator[list[socket.socket]]:
    with contextlib.ExitStack() as opened:
        made = [opened.enter_context(socket.create_connection(parse_address(address), timeout=60)) for _ in range(count)]
        for peer in made:
            peer.sendall(first_bytes)
        yield made


def closed_peers(made: list[socket.socket]) -> int:
    """Returns the number of peers that the shim has closed."""
    with selectors.DefaultSelector() as selector:
        for peer in made:
            selector.register(peer, selectors.EVENT_READ)
        return len(selector.select(0))


@pytest.mark.parametrize("first_bytes", [b"", struct.pack(">i", 50), heartbeat(1)[:12]], ids=["silent", "length", "12 bytes"])
def test_peers_without_a_request_open_no_broker_connection(first_bytes: bytes) -> None:
    clock = ManualClock()
    with (
        ScriptedBroker(answer) as broker,
        Shim(ShimConfig(broker.address), clock=clock) as shim,
        RawClient(shim.bootstrap_servers) as honest,
        peers(shim.bootstrap_servers, first_bytes) as made,
    ):
        for number in range(ROUNDS):
            honest.send(heartbeat(number, b"honest"))
            assert honest.read().endswith(b"honest")
        wait_until(lambda: shim.metrics()["connections"] == PEERS + 1, "all of them to be here")
        clock.now += 11
        wait_until(lambda: closed_peers(made) == PEERS, "all of them to be closed")
        honest.send(heartbeat(99, b"still here"))
        assert honest.read().endswith(b"still here")
        assert shim.metrics()["connections_dropped.admission"] == PEERS
        assert broker.accepted == 1


@pytest.mark.fault("S12")
def test_peers_that_never_read_are_closed_and_the_budget_holds() -> None:
    budget = 2 << 20
    clock = ManualClock()
    with (
        ScriptedBroker(answer) as broker,
        Shim(ShimConfig(broker.address, max_buffered_bytes=budget), clock=clock) as shim,
        RawClient(shim.bootstrap_servers, seconds=60) as honest,
    ):
        assert shim._proxy
        flooding = b"".join(heartbeat(number, b"flood") for number in range(40))
        with peers(shim.bootstrap_servers, flooding, FLOODING):
            for number in range(ROUNDS):
                honest.send(heartbeat(number, b"honest"))
                assert honest.read().endswith(b"honest")
                assert shim._proxy._buffers.held <= budget + (2 << 20)

            def all_closed() -> bool:
                clock.now += 5
                return shim.metrics().get("connections_closed") == FLOODING

            wait_until(all_closed, "all of them to be closed")
            assert shim.metrics()["connections_dropped.buffers"] > 0
            honest.send(heartbeat(99, b"still here"))
            assert honest.read().endswith(b"still here")
        assert not closed_peers([honest.socket])
        wait_until(lambda: shim._proxy._buffers.held == 0, "the buffers to be empty")


@pytest.mark.fault("S12")
def test_unfinished_tls_handshakes_are_closed(tmp_path: Path) -> None:
    Authority().issue().write(tmp_path / "shim.pem", "secret")
    clock = ManualClock()
    tls: dict[str, Any] = {"ssl_certificate": str(tmp_path / "shim.pem"), "ssl_key_password": "secret"}
    with (
        ScriptedBroker(answer) as broker,
        Shim(
            ShimConfig(broker.address, handshake_timeout=600, max_unadmitted_connections=PEERS - 50, **tls), clock=clock
        ) as shim,
        peers(shim.bootstrap_servers) as made,
    ):
        for peer in made:
            with contextlib.suppress(OSError):
                peer.sendall(b"\x16\x03\x01\x02\x00\x01")
        wait_until(lambda: shim.metrics()["connections"] == PEERS, "all of them to be here")
        refused = "connections_refused.max_unadmitted_connections"  # the shim counts it after the connection
        wait_until(lambda: shim.metrics().get(refused, 0) >= 50, "the last of them to be refused")
        assert shim.metrics()[refused] == 50
        clock.now += 11
        wait_until(lambda: closed_peers(made) == PEERS, "all of them to be closed")
        assert shim.metrics()["connections_dropped.admission"] == PEERS - 50
        assert not broker.accepted
