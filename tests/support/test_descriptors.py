"""The connections of this process are found by their descriptors."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.support.descriptors import connections_made
from tests.support.ports import HOST, needs_ipv6_loopback


@pytest.fixture(params=[HOST, pytest.param("::1", marks=needs_ipv6_loopback)])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as server:
        yield server


def named(port: int) -> list[str]:
    return [str(one) for one in connections_made() if port in (one.local[1], one.peer and one.peer[1])]


def test_a_connection_counts_on_the_side_that_made_it(server: socket.socket) -> None:
    host, port = server.getsockname()[:2]
    with socket.create_connection((host, port)) as client, closing(server.accept()[0]):
        assert named(port) == [f"{host}:{client.getsockname()[1]} to {host}:{port}"]
    assert named(port) == []


def test_a_connection_whose_peer_has_closed_it_counts_until_it_is_closed(server: socket.socket) -> None:
    address = server.getsockname()[:2]
    with socket.create_connection(address) as client:
        server.accept()[0].close()
        assert client.recv(1) == b""
        assert len(named(address[1])) == 1
    assert named(address[1]) == []


def test_a_connection_counts_while_it_is_being_made(server: socket.socket) -> None:
    server.listen(0)  # the kernel completes one or two handshakes, and leaves three waiting
    with ExitStack() as opened:
        ports = []
        for _ in range(5):
            client = opened.enter_context(socket.socket(server.family))
            client.setblocking(False)
            client.connect_ex(server.getsockname()[:2])
            ports.append(client.getsockname()[1])
        counted = [one for one in connections_made() if one.local[1] in ports]
    assert len(counted) == 5
    assert any(str(one).endswith(", connecting") for one in counted)


def test_what_is_not_connected_does_not_count(server: socket.socket) -> None:
    port = server.getsockname()[1]
    with socket.socket(server.family) as bound, socket.socket(server.family, socket.SOCK_DGRAM) as datagrams:
        bound.bind((server.getsockname()[0], 0))
        datagrams.connect(server.getsockname()[:2])
        assert named(port) == named(bound.getsockname()[1]) == []


def test_looking_changes_no_descriptor(server: socket.socket) -> None:
    with socket.create_connection(server.getsockname()[:2]) as client, closing(server.accept()[0]) as accepted:
        client.settimeout(None)
        before = client.getblocking()
        connections_made()
        assert client.getblocking() is before
        accepted.sendall(b"still open")
        assert client.recv(64) == b"still open"
