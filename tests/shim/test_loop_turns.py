"""What clients cost is measured, and those above their share wait for their turn."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from functools import partial

import attrs
import pytest

from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import RequestHeader, encode_request_header, frame
from kafka_remote_client.shim.client_admission import MAX_REQUESTS_BEFORE
from kafka_remote_client.shim.config import ShimConfig, parse_address
from kafka_remote_client.shim.counters import Counters
from kafka_remote_client.shim.loop_shares import LoopShares
from kafka_remote_client.shim.loop_turns import Client, LoopTurns
from kafka_remote_client.shim.request_rates import RequestRates
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ScriptedBroker


@attrs.define(eq=False)
class FakeClient:
    """Counts its turns."""

    peer: str
    setting_up: bool = False
    turns: int = 0
    at_turn: Callable[[], None] = lambda: None

    def turn(self) -> None:
        self.turns += 1
        self.at_turn()


class Loop:
    """Turns with a clock and a CPU time of the test's own."""

    def __init__(self, rate: float | None = None) -> None:
        self.clock = ManualClock()
        self.worked = 0.0
        self.counters = Counters()
        self.shares: LoopShares[Client] = LoopShares(0.4, self.clock)
        self.turns = LoopTurns(RequestRates(rate, self.clock), self.shares, self.counters, self.clock, lambda: self.worked)

    def work(self, seconds: float, slowdown: float = 1.0) -> None:
        self.worked += seconds
        self.clock.now += seconds * slowdown

    def serve(self, client: Client, seconds: float, slowdown: float = 1.0) -> bool:
        """One request of a client. Whether its next one may follow."""
        self.turns.begin()
        self.work(seconds, slowdown)
        goes_on = self.turns.may_go_on(client)
        self.turns.end(client)
        return goes_on


def test_a_new_connection_costs_what_its_transports_do() -> None:
    loop, charged = Loop(), []
    loop.shares.charge = lambda *given, **named: charged.append((*given, named))
    loop.turns.entered(FakeClient("new"))
    assert charged == [("new", 200e-6, {"setting_up": True})]


def test_turns_follow_at_once_and_are_looked_for_each_millisecond() -> None:
    async def body() -> None:
        later: list[float] = []
        loop, heavy = Loop(), [FakeClient("heavy"), FakeClient("heavy")]
        loop.serve(FakeClient("light"), 0.0001)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.get_running_loop(), "call_later", lambda seconds, _work: later.append(seconds) or len(later))
            for client in heavy:
                assert not loop.serve(client, 0.01)
            loop.turns._tick()
            loop.clock.now += 1
            loop.turns._tick()
        assert [client.turns for client in heavy] == [1, 0]
        assert later == [0.001, 0.001, 0.0]

    asyncio.run(body())


def test_a_client_above_its_share_waits_for_its_turn() -> None:
    async def body() -> None:
        loop = Loop()
        light, heavy = FakeClient("light"), FakeClient("heavy")
        assert loop.serve(light, 0.0001)
        assert loop.serve(heavy, 0.0001)
        assert not loop.serve(heavy, 0.01)
        assert loop.counters["requests_paced.share"] == 1
        assert loop.serve(light, 0.0001), "an address below its share does not wait"
        loop.clock.now += 1
        while not heavy.turns:
            await asyncio.sleep(0.001)
        assert (heavy.turns, light.turns) == (1, 0)
        assert not loop.shares.waiting
        loop.turns.stop()

    asyncio.run(body())


def test_turns_come_only_when_they_are_due() -> None:
    async def body() -> None:
        loop = Loop()
        loop.serve(FakeClient("other"), 0.0001)
        heavy, later = FakeClient("heavy"), FakeClient("heavy")
        heavy.at_turn = lambda: loop.shares.charge("heavy", 0.01, setting_up=False)
        assert not loop.serve(heavy, 0.01)
        assert not loop.serve(later, 0.01)
        loop.clock.now += 0.5
        while not heavy.turns:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        assert later.turns == 0, "the first one used the share"
        loop.turns.leave(later)
        assert not loop.shares.waiting
        loop.turns.stop()
        loop.turns.stop()

    asyncio.run(body())


def test_one_tick_does_not_serve_all_that_wait() -> None:
    async def body() -> None:
        loop = Loop()
        order: list[int] = []
        clients = [FakeClient("heavy") for _ in range(5)]
        for number, client in enumerate(clients):
            client.at_turn = partial(order.append, number)
            loop.shares.wait("heavy", client, setting_up=False)
        loop.turns._tick()
        assert order == [0]
        iterations = 0
        while len(order) < 5:
            await asyncio.sleep(0)
            iterations += 1
            assert len(order) <= iterations + 1, "the loop looks at its sockets between two turns"
        assert order == [0, 1, 2, 3, 4]
        assert loop.turns._ticking is None

    asyncio.run(body())


def test_a_turn_that_raises_ends_no_other_turns() -> None:
    async def body() -> None:
        loop = Loop()
        broken, other = FakeClient("broken"), FakeClient("other")
        broken.at_turn = partial(int, "broken")
        for client in (broken, other):
            loop.shares.wait(client.peer, client, setting_up=False)
        with pytest.raises(ValueError, match="broken"):
            loop.turns._tick()
        while not other.turns:
            await asyncio.sleep(0)

    asyncio.run(body())


def test_costs_count_as_much_time_as_the_machine_gives() -> None:
    """A busy machine makes all work longer: a share is one of the time that the loop really has."""
    loop = Loop()
    assert loop.turns.slowdown == 1.0
    for _ in range(200):
        loop.serve(FakeClient("a"), 0.001, slowdown=4.0)
    assert loop.turns.slowdown == pytest.approx(4.0, rel=0.01)
    for _ in range(2_000):
        loop.serve(FakeClient("a"), 0.001)
    assert loop.turns.slowdown == pytest.approx(1.0, rel=0.01)


def test_an_interruption_is_not_the_cost_of_one_client() -> None:
    loop = Loop()
    loop.serve(FakeClient("light"), 0.00001)
    for _ in range(20):
        loop.turns.begin()
        loop.work(0.001)
        loop.turns.end(FakeClient("other"))
    loop.turns.begin()
    loop.work(0.00001)
    loop.clock.now += 0.05  # another process ran
    loop.turns.end(FakeClient("light"))
    assert not loop.shares.exceeded("light", setting_up=False)


def test_nested_work_counts_once() -> None:
    loop = Loop()
    client = FakeClient("a", setting_up=True)
    loop.turns.begin()
    loop.work(0.001)
    loop.turns.begin()
    loop.work(0.001)
    loop.turns.end(client)
    loop.turns.end(client)
    assert loop.shares._unadmitted.used == pytest.approx(0.002, abs=0.0001)


def test_a_measured_coroutine_returns_raises_and_is_cancelled() -> None:
    async def body() -> None:
        loop = Loop()
        client = FakeClient("a", setting_up=True)

        async def work() -> int:
            loop.work(0.001)
            await asyncio.sleep(0)
            loop.work(0.002)
            try:
                await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.001)
            except TimeoutError:
                loop.work(0.003)
            return 7

        assert await loop.turns.measured(client, work()) == 7
        assert loop.shares._unadmitted.used == pytest.approx(0.006, abs=0.0002)

        async def fails() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await loop.turns.measured(client, fails())
        ended: list[bool] = []

        async def waits() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                ended.append(True)

        async def whole() -> None:
            await loop.turns.measured(client, waits())

        task = asyncio.create_task(whole())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(body())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
def test_a_flood_from_another_address_is_paced_and_answered() -> None:
    """Both clients are admitted. Every request of the flood is answered, in order."""
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address, max_loop_share_per_ip=0.01)) as shim,
        RawClient(shim.bootstrap_servers) as honest,
        RawClient(shim.bootstrap_servers, source="127.0.0.2") as flood,
    ):
        for client in (honest, flood):
            client.send(heartbeat(0, b"first"))
            assert client.read().endswith(b"first")
        flood.send(b"".join(heartbeat(number, b"%d" % number) for number in range(200)))
        for number in range(20):
            honest.send(heartbeat(number, b"honest"))
            assert honest.read().endswith(b"honest")
        for number in range(200):
            assert flood.read().endswith(b"%d" % number)
        assert shim.metrics()["requests_paced.share"] > 0
        assert shim.metrics()["connections_open"] == 2


def test_a_client_that_never_authenticates_is_closed() -> None:
    handshake = frame(encode_request_header(RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 1, "flood")), b"\x00\x05PLAIN")
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        for _ in range(MAX_REQUESTS_BEFORE):
            client.send(handshake)
            assert client.read()
        client.send(handshake)
        assert client.closed()
        assert shim.metrics()["connections_dropped.protocol"] == 1
        assert len(broker.requests) == MAX_REQUESTS_BEFORE


def test_a_client_that_asks_for_versions_has_the_share_of_newcomers() -> None:
    async def body() -> None:
        loop = Loop()
        light, flood = FakeClient("light"), FakeClient("flood")
        assert loop.serve(light, 0.0001)
        assert loop.serve(flood, 0.0001)
        flood.setting_up = True
        loop.clock.now += 0.2
        assert loop.serve(light, 0.0001)
        assert not loop.serve(flood, 0.02)
        assert loop.counters["requests_paced.unadmitted"] == 1
        assert loop.shares.unadmitted_debt == pytest.approx(0.2, rel=0.05), "at a tenth"
        flood.setting_up = False
        assert loop.serve(flood, 0.0001), "its address has used little of its own share"
        loop.turns.leave(flood)
        loop.turns.stop()

    asyncio.run(body())


def test_requests_for_versions_and_sasl_leave_the_share_of_an_address() -> None:
    handshake = frame(encode_request_header(RequestHeader(ApiKey.SASL_HANDSHAKE, 1, 1, "app")), b"\x00\x05PLAIN")
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        proxy, loop = shim._proxy, shim._loop
        assert proxy
        assert loop

        async def state() -> tuple[bool, bool]:
            (connection,) = proxy._connections
            return connection.admitted, connection.setting_up

        told = []
        for request in (handshake, heartbeat(1), handshake, heartbeat(2)):
            client.send(request)
            assert client.read()
            # In the shim's thread, which may have sent the answer before it changes the state.
            told.append(asyncio.run_coroutine_threadsafe(state(), loop).result(60))
        assert told == [(False, True), (True, False), (True, True), (True, False)]


def test_a_newcomer_waits_for_the_share_of_newcomers() -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address)) as shim:
        assert shim._proxy
        shim._proxy._shares.charge("hostile", 0.2, setting_up=True)
        with RawClient(shim.bootstrap_servers) as client:
            client.send(heartbeat(1, b"late"))
            assert client.read().endswith(b"late")
        assert shim.metrics()["connections_paced"] == 1


def test_accepting_pauses_when_newcomers_have_overdrawn() -> None:
    with ScriptedBroker(echo) as broker, Shim(ShimConfig(broker.address)) as shim:
        assert shim._proxy
        shim._proxy._shares.charge("hostile", 0.2, setting_up=True)
        with RawClient(shim.bootstrap_servers) as client, socket.create_connection(parse_address(shim.bootstrap_servers)):
            client.send(heartbeat(1, b"late"))
            assert client.read().endswith(b"late")
        assert shim.metrics()["accepting_paused"] >= 1
