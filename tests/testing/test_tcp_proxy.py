"""The TCP proxy applies faults in either direction of a connection and records them."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from kafka_remote_client.shim.http_server import ConnectionListener
from kafka_remote_client.testing import Direction, Passage, TcpFaultProxy

PATIENCE = 60.0


@pytest.fixture
def echo() -> Iterator[ConnectionListener]:
    """Sends back what it gets."""

    def converse(connection: socket.socket) -> None:
        while data := connection.recv(65536):
            connection.sendall(data)

    listener = ConnectionListener(converse, idle_timeout=PATIENCE)
    listener.start()
    yield listener
    listener.stop()


@pytest.fixture
def proxy(echo: ConnectionListener) -> Iterator[TcpFaultProxy]:
    with TcpFaultProxy(echo.address) as made:
        yield made


@contextlib.contextmanager
def connected(proxy: TcpFaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection(proxy.address, PATIENCE) as made:
        yield made


def received(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def ended(connection: socket.socket) -> bool:
    """Returns whether the peer has ended the connection, by a close or a reset."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_passes_all_bytes_in_order(proxy: TcpFaultProxy) -> None:
    data = bytes(range(256)) * 4096
    with connected(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(data,))
        sender.start()
        assert received(client, len(data)) == data
        sender.join(PATIENCE)
    assert proxy.count(Passage.ACCEPTED) == proxy.connections == 1


def test_refuses_new_connections_and_keeps_old_ones(proxy: TcpFaultProxy) -> None:
    with connected(proxy) as old:
        old.sendall(b"a")
        assert received(old, 1) == b"a"
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(proxy.address, PATIENCE)
        old.sendall(b"b")
        assert received(old, 1) == b"b"
    proxy.heal()
    with connected(proxy) as new:
        new.sendall(b"c")
        assert received(new, 1) == b"c"
    assert proxy.count(Passage.REFUSED) == 1


@pytest.mark.parametrize("direction", [Direction.UP, Direction.DOWN, Direction.BOTH])
def test_a_black_hole_on_an_established_connection_swallows_and_heals(proxy: TcpFaultProxy, direction: Direction) -> None:
    with connected(proxy) as client:
        client.sendall(b"before")
        assert received(client, 6) == b"before"
        proxy.black_hole(direction)
        client.sendall(b"during")
        assert proxy.wait_for(Passage.HELD)
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE)
        proxy.heal()
        client.sendall(b"after")
        assert received(client, 11) == b"duringafter"
    assert proxy.records[1].direction in direction
    assert proxy.records[1].at == 6


def test_a_black_hole_applies_to_new_connections_too(proxy: TcpFaultProxy) -> None:
    proxy.black_hole()
    with connected(proxy) as client:
        client.sendall(b"x")
        assert proxy.wait_for(Passage.HELD)


def test_a_black_hole_holds_the_end_like_bytes(proxy: TcpFaultProxy, echo: ConnectionListener) -> None:
    with connected(proxy) as client:
        client.sendall(b"x")
        assert received(client, 1) == b"x"
        proxy.black_hole(Direction.DOWN)
        echo.cut_connections()
        assert proxy.wait_for(Passage.HELD)
        proxy.heal()
        assert ended(client)


def test_a_trickle_passes_a_few_bytes_at_a_time(proxy: TcpFaultProxy) -> None:
    with connected(proxy) as client:
        proxy.trickle(2, 0.01, Direction.DOWN)
        client.sendall(b"abcdef")
        assert received(client, 6) == b"abcdef"
    assert [record.at for record in proxy.records if record.passage is Passage.TRICKLED][:2] == [2, 4]


def test_healing_ends_a_trickle_at_once(proxy: TcpFaultProxy) -> None:
    with connected(proxy) as client:
        proxy.trickle(1, 3600.0)
        client.sendall(b"abc")
        assert proxy.wait_for(Passage.TRICKLED)
        proxy.heal()
        assert received(client, 3) == b"abc"


@pytest.mark.parametrize("reset", [False, True])
def test_cuts_after_a_number_of_bytes_to_the_client(proxy: TcpFaultProxy, reset: bool) -> None:
    proxy.cut_after(4, reset=reset)
    with connected(proxy) as client:
        client.sendall(b"abcdefgh")
        # A reset may overtake the bytes before it.
        with contextlib.suppress(ConnectionResetError):
            assert b"abcd".startswith(received(client, 8))
        assert proxy.wait_for(Passage.CUT)
    (record,) = (record for record in proxy.records if record.passage is Passage.CUT)
    assert (record.direction, record.at) == (Direction.DOWN, 4)
    proxy.heal()
    with connected(proxy) as client:
        client.sendall(b"abcdefgh")
        assert received(client, 8) == b"abcdefgh"


def test_cuts_after_a_number_of_bytes_to_the_server(proxy: TcpFaultProxy) -> None:
    proxy.cut_after(4, Direction.UP)
    with connected(proxy) as client:
        client.sendall(b"abcdefgh")
        assert proxy.wait_for(Passage.CUT)
        # Bytes that passed earlier come back in pieces of any size.
        assert any(ended(client) for _ in range(5))


@pytest.mark.parametrize("reset", [False, True])
def test_cuts_all_connections(proxy: TcpFaultProxy, reset: bool) -> None:
    with connected(proxy) as first, connected(proxy) as second:
        assert proxy.wait_for(Passage.ACCEPTED, 2)
        proxy.cut_connections(reset=reset)
        assert ended(first)
        assert ended(second)
    assert proxy.count(Passage.CUT) == 2


def test_an_unreachable_target_ends_the_connection() -> None:
    with socket.socket() as keeper:
        keeper.bind(("127.0.0.1", 0))
        with TcpFaultProxy(keeper.getsockname()) as proxy, connected(proxy) as client:
            assert ended(client)
            assert proxy.count(Passage.CUT) == 1


def test_waiting_for_a_passage_times_out(proxy: TcpFaultProxy) -> None:
    assert not proxy.wait_for(Passage.REFUSED, timeout=0.01)


def test_stopping_leaves_no_thread_and_no_port() -> None:
    before = threading.active_count()
    with socket.socket() as keeper:
        keeper.bind(("127.0.0.1", 0))
        keeper.listen()
        with TcpFaultProxy(keeper.getsockname()) as proxy, connected(proxy) as client:
            assert proxy.wait_for(Passage.ACCEPTED)
            proxy.black_hole()
            client.sendall(b"x")
            assert proxy.wait_for(Passage.HELD)
            proxy.stop()
            assert ended(client)
            proxy.heal()  # too late: nothing listens
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(proxy.address, PATIENCE)
    assert threading.active_count() <= before
