"""Each broker gets its own listener, which is bound before any client gets its address."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest

from kafka_remote_client.errors import ConfigurationError, ProtocolError
from kafka_remote_client.shim import listeners as module
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.listeners import BOOTSTRAP, Listeners
from tests.support.ports import free_ports

ACCEPTED: list[int] = []
"""Whose listener accepted a connection, since the last :func:`run`."""


def accepted(node_id: int, client: socket.socket) -> None:
    """Records the listener's node and disconnects. The loop takes over sockets that do not block only."""
    assert client.gettimeout() == 0
    ACCEPTED.append(node_id)
    client.close()


def run(config: ShimConfig, test: Callable[[Listeners, list[int]], Awaitable[None]]) -> None:
    async def body() -> None:
        ACCEPTED.clear()
        moved: list[int] = []
        listeners = Listeners(config, accepted, moved.append)
        try:
            listeners.start()
            await test(listeners, moved)
        finally:
            listeners.stop()

    asyncio.run(body())


async def connect(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


def test_a_new_node_is_reachable_when_its_address_is_returned() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        told = listeners.advertise(7, "broker-7", 9092)
        with socket.create_connection(told, timeout=5):  # before the loop had a turn: the backlog accepts it
            pass
        assert listeners.upstream(7) == (("broker-7", 9092),)
        await connect(told)
        await connect(listeners.bootstrap)
        assert ACCEPTED[-2:] == [7, BOOTSTRAP]
        assert moved == [7]

    run(ShimConfig("bootstrap:9092"), test)


def test_a_node_keeps_its_listener_when_its_address_changes() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        told = listeners.advertise(7, "broker-7", 9092)
        assert listeners.advertise(7, "broker-7", 9092) == told
        assert moved == [7]
        assert listeners.advertise(7, "broker-7", 9093) == told
        assert moved == [7, 7]
        assert listeners.upstream(7) == (("broker-7", 9093),)

    run(ShimConfig("bootstrap:9092"), test)


def test_a_missing_node_stays_missing() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        assert listeners.advertise(-1, "", -1) == ("", -1)
        assert listeners.advertise(3, "", -1) == ("", -1)
        assert not moved

    run(ShimConfig("bootstrap:9092"), test)


def test_an_unknown_node_leads_to_the_bootstrap_servers() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        assert listeners.upstream(BOOTSTRAP) == listeners.upstream(5) == (("a", 1), ("b", 2))

    run(ShimConfig("a:1,b:2"), test)


def test_ports_follow_the_bootstrap_port_and_node_ids_are_bound_at_start() -> None:
    port = free_ports(4)[0]  # the bootstrap port, then those of node ids 0 to 2
    config = ShimConfig("a:1", listen=f"127.0.0.1:{port}", advertised_host="shim.example", node_ids=(2,))

    async def test(listeners: Listeners, moved: list[int]) -> None:
        assert listeners.bootstrap == ("shim.example", port)
        await connect(("127.0.0.1", port + 1 + 2))
        assert ACCEPTED == [2]
        assert listeners.advertise(2, "broker", 9092) == ("shim.example", port + 3)

    run(config, test)


def test_a_node_keeps_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])

        async def test(listeners: Listeners, moved: list[int]) -> None:
            with pytest.raises(OSError, match=f":{port} for node 4: Address already in use"):
                listeners.advertise(4, "broker", 9092)

        run(ShimConfig("a:1", node_port_base=port - 4), test)


def test_a_node_id_beyond_the_last_port_is_refused() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        with pytest.raises(OSError, match="is above 65535; set a lower node_port_base"):
            listeners.advertise(1 << 30, "broker", 9092)

    run(ShimConfig("a:1", node_port_base=10_000), test)


@pytest.mark.parametrize("node_id", [0, 65_535])
def test_a_shim_does_not_start_without_the_ports_of_its_nodes(node_id: int) -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        raise AssertionError("it must not start")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ShimConfig("a:1", node_port_base=int(taken.getsockname()[1]), node_ids=(node_id,))
        with pytest.raises(ConfigurationError, match=f"cannot listen: .* for node {node_id}"):
            run(config, test)


def test_a_node_that_alternates_between_known_addresses_has_not_moved() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        for _ in range(5):
            for port in (9092, 9093):
                listeners.advertise(7, "broker-7", port)
                assert listeners.upstream(7) == (("broker-7", port),)
        assert moved == [7, 7]

    run(ShimConfig("bootstrap:9092"), test)


@pytest.mark.parametrize(("addresses", "moves"), [(16, 16), (17, 18)])
def test_sixteen_addresses_of_a_node_are_remembered(addresses: int, moves: int) -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        for port in (*range(1, addresses + 1), 1):
            listeners.advertise(7, "broker-7", port)
        assert moved == [7] * moves

    run(ShimConfig("bootstrap:9092"), test)


def test_four_connections_are_accepted_at_once() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        with ExitStack() as clients:
            for _ in range(5):
                clients.enter_context(socket.create_connection(listeners.bootstrap, timeout=5))
            listeners._accept_some(BOOTSTRAP)
            assert len(ACCEPTED) == 4
            listeners._accept_some(BOOTSTRAP)
            listeners._accept_some(BOOTSTRAP)
            assert len(ACCEPTED) == 5

    run(ShimConfig("a:1"), test)


def test_a_cluster_of_implausible_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert module._MAX_NODES == 1024
    monkeypatch.setattr(module, "_MAX_NODES", 2)

    async def test(listeners: Listeners, moved: list[int]) -> None:
        listeners.advertise(1, "broker", 1)
        listeners.advertise(2, "broker", 2)
        with pytest.raises(ProtocolError, match="more than 2 nodes"):
            listeners.advertise(3, "broker", 3)

    run(ShimConfig("a:1"), test)


def test_a_bootstrap_address_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = ShimConfig("a:1", listen=f"127.0.0.1:{taken.getsockname()[1]}")

        async def test(listeners: Listeners, moved: list[int]) -> None:
            raise AssertionError("it must not start")

        with pytest.raises(ConfigurationError, match="cannot listen"):
            run(config, test)


def test_listens_on_ipv6() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        await connect(listeners.bootstrap)
        assert listeners.bootstrap[0] == "::1"

    run(ShimConfig("a:1", listen="[::1]:0"), test)


def test_a_pause_leaves_clients_in_the_backlog() -> None:
    async def test(listeners: Listeners, moved: list[int]) -> None:
        listeners.pause(600)
        listeners.pause(600)  # one at a time
        with socket.create_connection(listeners.bootstrap, timeout=5) as early:
            told = listeners.advertise(3, "broker", 9092)  # bound meanwhile, and not accepted from either
            with socket.create_connection(told, timeout=5) as other:
                for _ in range(5):
                    await asyncio.sleep(0)
                assert ACCEPTED == []
                listeners._go_on()
                while len(ACCEPTED) < 2:
                    await asyncio.sleep(0)
                assert (early.recv(1), other.recv(1)) == (b"", b"")
        assert sorted(ACCEPTED) == [BOOTSTRAP, 3]

    run(ShimConfig("a:1"), test)


def test_accepting_goes_on_after_a_lack_of_descriptors(caplog: pytest.LogCaptureFixture) -> None:
    class Lacking(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            raise OSError(errno.EMFILE, "Too many open files")

    async def test(listeners: Listeners, moved: list[int]) -> None:
        real = listeners._sockets[BOOTSTRAP]
        with Lacking(fileno=socket.dup(real.fileno())) as lacking:
            listeners._sockets[BOOTSTRAP] = lacking
            asyncio.get_running_loop().remove_reader(real.fileno())
            listeners._listen(BOOTSTRAP)
            listeners._accept_some(BOOTSTRAP)
            assert listeners._pausing
            assert "next attempt in 1 s: Too many open files" in caplog.text
            listeners._sockets[BOOTSTRAP] = real
        listeners._go_on()
        await connect(listeners.bootstrap)
        assert ACCEPTED == [BOOTSTRAP]

    run(ShimConfig("a:1"), test)
