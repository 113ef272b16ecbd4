"""Which clients may connect, idle time-outs, and clients that are connected to the wrong broker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, cast

import attrs
import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import encode_response_header
from kafka_remote_client.protocol.metadata import MetadataBroker, MetadataResponse, decode_response, encode_response
from kafka_remote_client.shim import client_connection
from kafka_remote_client.shim.broker_strategy import PassThrough
from kafka_remote_client.shim.client_connection import ClientConnection
from kafka_remote_client.shim.config import Address, ShimConfig
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.dialing import dial
from kafka_remote_client.shim.proxy import Proxy
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.kafka_client import RawClient
from tests.support.left_open import left_open
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.waiting import wait_until


class Cluster:
    """Answers Metadata with the given brokers, anything else with an echo."""

    def __init__(self) -> None:
        self.brokers: list[tuple[int, int]] = []

    def __call__(self, request: ReceivedRequest) -> bytes:
        if request.api_key != ApiKey.METADATA:
            return echo(request)
        body = encode_response(MetadataResponse(tuple(MetadataBroker(i, "127.0.0.1", p) for i, p in self.brokers), ()), 9)
        return request.answer(encode_response_header(ApiKey.METADATA, 9, 0)[4:] + body)


def told_brokers(client: RawClient) -> dict[int, str]:
    client.send(client.request(ApiKey.METADATA, 9, 1))
    return {broker.node_id: f"{broker.host}:{broker.port}" for broker in decode_response(client.read()[5:], 9).brokers}


@contextmanager
def two_brokers() -> Iterator[tuple[Cluster, ScriptedBroker, ScriptedBroker, Shim, RawClient]]:
    """Two brokers of one cluster, a shim before the first, and a client of the shim."""
    cluster = Cluster()
    with (
        ScriptedBroker(cluster) as one,
        ScriptedBroker(cluster) as two,
        Shim(ShimConfig(one.address)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        yield cluster, one, two, shim, client


def test_each_broker_is_reached_by_its_own_listener() -> None:
    with two_brokers() as (cluster, one, two, shim, client):
        cluster.brokers = [(1, one.port), (2, two.port)]
        told = told_brokers(client)
        assert len({shim.bootstrap_servers, *told.values()}) == 3
        for node_id, broker in ((2, two), (1, one)):
            with RawClient(told[node_id]) as direct:
                direct.send(heartbeat(5, b"%d" % node_id))
                assert direct.read().endswith(b"%d" % node_id)
            assert broker.requests[-1].body.endswith(b"%d" % node_id)


def test_a_client_of_another_broker_under_a_nodes_name_must_reconnect() -> None:
    with two_brokers() as (cluster, one, two, _, client):
        cluster.brokers = [(1, one.port), (2, one.port)]
        told = told_brokers(client)
        with RawClient(told[1]) as first, RawClient(told[2]) as second:
            for direct in (first, second):
                direct.send(heartbeat(1))
                direct.read()
            cluster.brokers = [(1, one.port), (2, two.port)]
            assert told_brokers(client) == told
            assert second.closed()
            first.send(heartbeat(2, b"still here"))
            assert first.read().endswith(b"still here")


def test_a_client_must_reconnect_if_its_node_moves_while_it_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    connected, moved = threading.Event(), threading.Event()

    async def slow(protocol: asyncio.Protocol, node_id: int, *others: Any) -> Address | None:
        reached = await dial(protocol, node_id, *others)
        if node_id == 2:
            connected.set()
            await asyncio.to_thread(moved.wait, 20)
        return reached

    monkeypatch.setattr(client_connection, "dial", slow)
    with two_brokers() as (cluster, one, two, _, client):
        cluster.brokers = [(1, one.port), (2, one.port)]
        told = told_brokers(client)
        with RawClient(told[2]) as direct:
            direct.send(heartbeat(1, b"to the wrong one"))
            assert connected.wait(20)
            cluster.brokers = [(1, one.port), (2, two.port)]
            assert told_brokers(client) == told
            moved.set()
            assert direct.closed()
        assert not any(request.body.endswith(b"to the wrong one") for request in one.requests)


def test_connections_are_limited_per_address_and_in_all() -> None:
    for caps in ({"max_connections": 2}, {"max_connections_per_ip": 2}):
        with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, **caps)) as shim:
            with RawClient(shim.bootstrap_servers) as one, RawClient(shim.bootstrap_servers) as two:
                for client in (one, two):
                    client.send(heartbeat(1))
                    client.read()
                with RawClient(shim.bootstrap_servers) as third:
                    assert third.closed()
                (cap,) = caps
                assert shim.metrics()[f"connections_refused.{cap}"] == 1

            def admitted(bootstrap: str = shim.bootstrap_servers) -> bool:
                with RawClient(bootstrap) as again:
                    try:
                        again.send(heartbeat(1))
                    except ConnectionError:
                        return False
                    return again.read() != b""

            wait_until(admitted, "room for another connection", seconds=20)


@pytest.mark.parametrize("cap", ["max_connections", "max_connections_per_ip"])
def test_a_connection_that_ends_leaves_room_for_one(cap: str) -> None:
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, **{cap: 2})) as shim,
        ExitStack() as clients,
    ):

        def served() -> bool:
            client = clients.enter_context(RawClient(shim.bootstrap_servers))
            try:
                client.send(heartbeat(1))
                return client.read() != b""
            except ConnectionError:
                return False

        assert served()
        with RawClient(shim.bootstrap_servers) as leaves:
            leaves.send(heartbeat(1))
            leaves.read()
            assert not served()
        wait_until(served, "room for another connection", seconds=20)
        assert not served()


@attrs.define(eq=False)
class Peer:
    """A connection, as far as it is counted and swept."""

    admitted: bool = False
    peer: str = "192.0.2.1"
    missed: str | None = None
    dropped: list[str] = attrs.field(factory=list)

    def overdue(self, now: float) -> str | None:
        return self.missed

    def drop(self, why: str) -> None:
        self.dropped.append(why)


def proxy_of(**settings: Any) -> Proxy:
    return Proxy(ShimConfig("127.0.0.1:1", **settings), PassThrough(), Counters(), ManualClock())


@pytest.mark.parametrize("cap", ["max_connections", "max_connections_per_ip", "max_unadmitted_connections"])
def test_each_count_ends_with_its_connection(cap: str) -> None:
    proxy = proxy_of(**{cap: 1})

    def opened() -> ClientConnection | None:
        connection = cast("ClientConnection", Peer())
        return connection if proxy.opened(connection) else None

    for is_served in (False, True, True, False, False):
        connection = opened()
        assert connection is not None
        assert opened() is None
        if is_served:
            cast("Peer", connection).admitted = True
            proxy.admitted(connection)
            assert (opened() is not None) == (cap == "max_unadmitted_connections")
            for other in proxy._connections - {connection}:
                proxy.closed(other)
        proxy.closed(connection)
        proxy.closed(connection)


@contextmanager
def called_later() -> Iterator[list[tuple[float, Callable[[], None]]]]:
    """What the loop that runs is asked to call later, with the seconds until then. It does not call it."""
    later: list[tuple[float, Callable[[], None]]] = []
    with pytest.MonkeyPatch.context() as patch:
        loop = asyncio.get_running_loop()
        patch.setattr(loop, "call_later", lambda seconds, work, *given: later.append((seconds, partial(work, *given))))
        yield later


def test_a_sweep_checks_sixteen_connections_in_one_turn() -> None:
    async def swept() -> None:
        proxy, peers, found = proxy_of(), [Peer(missed="idle") for _ in range(33)], []
        for peer in peers:
            proxy.opened(cast("ClientConnection", peer))
        with called_later() as later:
            proxy._sweep()
            ended = next(peer for peer in cast("set[Peer]", proxy._connections) if not peer.dropped)
            proxy.closed(cast("ClientConnection", ended))
            for seconds, work in later:
                found.append((sum(len(peer.dropped) for peer in peers), seconds))
                if seconds:
                    break
                work()
        assert found == [(16, 0), (31, 0), (32, 0), (32, 1.0)]
        assert ended.dropped == [], "it ended meanwhile"

    asyncio.run(swept())


@pytest.mark.parametrize(
    ("settings", "pause"),
    [({}, 1.0), ({"admission_timeout": 2.0}, 0.5), ({"write_timeout": 1.0}, 0.5), ({"idle_timeout": 1.0}, 0.5)],
)
def test_deadlines_are_checked_several_times_within_each(settings: dict[str, float], pause: float) -> None:
    async def paused() -> list[float]:
        with called_later() as later:
            proxy_of(**settings)._sweep_later()
        return [seconds for seconds, _ in later]

    assert asyncio.run(paused()) == [pause]


@pytest.mark.parametrize("sent", [b"", struct.pack(">i", 50), heartbeat(1)[:10]])
def test_a_client_that_sends_no_request_is_disconnected(sent: bytes) -> None:
    clock = ManualClock()
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, admission_timeout=0.2), clock=clock) as shim:
        with RawClient(shim.bootstrap_servers) as client:
            client.send(sent)
            wait_until(lambda: shim.metrics().get("connections"), "the connection", pause=0.01)
            clock.now += 0.3
            assert client.closed()
        assert shim.metrics()["connections_dropped.admission"] == 1
    assert not broker.accepted


def test_a_client_without_a_broker_is_disconnected() -> None:
    clock = ManualClock()
    with ScriptedBroker(lambda _: b"", admits=False) as broker, Shim(ShimConfig(broker.address), clock=clock) as shim:
        with RawClient(shim.bootstrap_servers) as client:
            client.send(client.request(ApiKey.API_VERSIONS, 3, 1) + heartbeat(2))
            wait_until(lambda: len(broker.requests) == 3, "the requests", pause=0.01)
            clock.now += 11
            assert client.closed()
        assert shim.metrics()["connections_dropped.admission"] == 1
        assert shim.metrics()["connections_admitted"] == 0


def only_versions(request: ReceivedRequest) -> bytes | None:
    """Answers ApiVersions; cuts the connection at anything else, as a broker that waits for SASL."""
    if request.api_key != ApiKey.API_VERSIONS:
        return None
    return request.answer(api_versions.encode_response(api_versions.ApiVersionsResponse(), request.api_version))


@contextmanager
def asked_for_versions(clock: ManualClock, *, admits: bool) -> Iterator[tuple[ScriptedBroker, Shim, RawClient]]:
    """A client that has the broker's versions, and has waited for more than half of the time for the admission."""
    with (
        ScriptedBroker(only_versions, admits=admits) as broker,
        Shim(ShimConfig(broker.address), clock=clock) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(client.request(ApiKey.API_VERSIONS, 2, 1))
        assert client.read()
        clock.now += 6
        yield broker, shim, client


def test_client_that_asks_for_versions_alone_stays_if_it_is_served() -> None:
    """librdkafka connects to the coordinator of a group that it never uses."""
    clock = ManualClock()
    with asked_for_versions(clock, admits=True) as (_, shim, client):
        wait_until(lambda: shim.metrics().get("connections_admitted") == 1, "the broker's answer")
        clock.now += 500
        client.send(client.request(ApiKey.API_VERSIONS, 2, 2))
        assert client.read()
        assert "connections_dropped.admission" not in shim.metrics()

        def dropped() -> bool:
            clock.now += 100
            return shim.metrics().get("connections_dropped.idle") == 1

        wait_until(dropped, "the idle client to be disconnected")


def test_client_that_asks_for_versions_alone_leaves_if_it_is_not_served() -> None:
    with asked_for_versions(ManualClock(), admits=False) as (broker, shim, client):
        assert client.closed()
        assert [request.is_question for request in broker.requests] == [False, True]
        assert shim.metrics()["connections_admitted"] == 0


def test_client_that_asks_for_versions_alone_gets_no_more_time_or_room() -> None:
    """The broker does not answer the shim's request: the client ends with its time, and is not admitted until then."""
    clock = ManualClock()
    asked = threading.Event()

    def silent(request: ReceivedRequest) -> bytes | None:
        if request.is_question:
            asked.set()
            return b""
        return only_versions(request)

    with (
        ScriptedBroker(silent, admits=False) as broker,
        Shim(ShimConfig(broker.address, max_unadmitted_connections=1), clock=clock) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(client.request(ApiKey.API_VERSIONS, 2, 1))
        assert client.read()
        clock.now += 6
        assert asked.wait(20)
        with RawClient(shim.bootstrap_servers) as second:
            assert second.closed()
        assert shim.metrics()["connections_refused.max_unadmitted_connections"] == 1
        clock.now += 5
        assert client.closed()
        assert shim.metrics()["connections_dropped.admission"] == 1


def test_clients_without_a_broker_have_their_own_limit() -> None:
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, max_unadmitted_connections=2)) as shim,
        contextlib.ExitStack() as connected,
    ):
        for _ in range(3):
            served = connected.enter_context(RawClient(shim.bootstrap_servers))
            served.send(heartbeat(1))
            assert served.read()
        silent = [connected.enter_context(RawClient(shim.bootstrap_servers)) for _ in range(2)]
        wait_until(lambda: shim.metrics()["connections"] == 5, "the connections", pause=0.01)
        assert connected.enter_context(RawClient(shim.bootstrap_servers)).closed()
        assert shim.metrics()["connections_refused.max_unadmitted_connections"] == 1
        silent[0].send(heartbeat(1))
        assert silent[0].read()
        last = connected.enter_context(RawClient(shim.bootstrap_servers))
        last.send(heartbeat(1))
        assert last.read()


def test_a_peer_that_sends_no_frames_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafka_remote_client")
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address)) as shim:
        for _ in range(20):
            with RawClient(shim.bootstrap_servers) as client:
                client.send(b"GET / HTTP/1.1\r\n\r\n")
                assert client.closed()
    lines = [line for line in caplog.messages if "closing the connection of 127.0.0.1" in line]
    assert len(lines) == 1


def test_an_idle_client_is_disconnected() -> None:
    clock = ManualClock()
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address, idle_timeout=1), clock=clock) as shim:
        with RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1))
            assert client.read()
            clock.now += 0.6
            client.send(heartbeat(2)[:-1])  # does not extend the time
            clock.now += 0.6
            assert client.closed()
        assert shim.metrics()["connections_dropped.idle"] == 1


def test_a_client_that_stops_reading_is_disconnected() -> None:
    def flood(request: ReceivedRequest) -> bytes | None:
        request.connection.sendall(struct.pack(">ii", (100 << 20) + 4, request.correlation_id) + bytes(100 << 20))
        return None

    clock = ManualClock()
    with (
        ScriptedBroker(flood) as broker,
        Shim(ShimConfig(broker.address, write_timeout=1), clock=clock) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(heartbeat(1))
        assert shim._proxy
        connections = shim._proxy._connections

        def cut() -> bool:
            """Time passes only while the broker is paused because the client reads nothing."""
            if any(one._broker.transport and not one._broker.transport.is_reading() for one in tuple(connections)):
                clock.now += 2
            return shim.metrics().get("connections_closed") == 1

        wait_until(cut, "the connection to be cut")
        assert shim.metrics()["connections_dropped.write"] == 1


def test_a_broker_that_stops_reading_ends_the_connection() -> None:
    release, clock = threading.Event(), ManualClock()

    def reply(request: ReceivedRequest) -> bytes:
        if request.correlation_id == 2:
            release.wait(60)
        return echo(request)

    def send(client: RawClient) -> None:
        with contextlib.suppress(OSError):  # the connection ends meanwhile
            client.send(heartbeat(3, bytes(32 << 20)))

    with (
        ThreadPoolExecutor(1) as pool,
        ScriptedBroker(reply) as broker,
        Shim(ShimConfig(broker.address, write_timeout=1), clock=clock) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        client.send(heartbeat(1))
        assert client.read()
        client.send(heartbeat(2))
        pool.submit(send, client)

        def cut() -> bool:
            """Time passes only while bytes wait for the broker."""
            if shim.metrics()["buffered_bytes"]:
                clock.now += 2
            return shim.metrics().get("connections_closed") == 1

        try:
            wait_until(cut, "the connection to be cut", seconds=30)
        finally:
            release.set()
        assert shim.metrics()["connections_dropped.write"] == 1


@pytest.mark.parametrize("turns", range(8))
def test_a_client_accepted_during_the_stop_is_disconnected(turns: int) -> None:
    """asyncio takes a few turns between a connection and the call of its protocol."""

    async def stopped_meanwhile() -> socket.socket:
        proxy = Proxy(ShimConfig("127.0.0.1:1"), PassThrough(), Counters(), SystemClock())
        proxy.start()
        client = socket.create_connection(proxy.listeners.bootstrap, timeout=20)
        for _ in range(turns):
            await asyncio.sleep(0)
        await proxy.stop()
        return client

    def run() -> None:
        with contextlib.closing(asyncio.run(stopped_meanwhile())) as client, contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""

    assert left_open(run) == []


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_host_can_have_is_an_unreachable_broker(host: str) -> None:
    with ScriptedBroker(echo) as broker:
        with Shim(ShimConfig(f"{host}:9092,{broker.address}")) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1, b"hello"))
            assert client.read().endswith(b"hello")
        with Shim(ShimConfig(f"{host}:9092")) as shim, RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1))
            assert client.closed()
            assert shim.metrics()["connections_dropped.upstream"] == 1
