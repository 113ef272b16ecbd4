"""The rate of one address: a burst of one second, then one request per interval, each address by itself."""

from __future__ import annotations

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.request_rates import RequestRates
from kafka_remote_client.shim.server import Shim
from tests.shim.test_client_connection import echo, heartbeat
from tests.support.kafka_client import RawClient
from tests.support.locations import ManualClock
from tests.support.scripted_broker import ReceivedRequest, ScriptedBroker
from tests.support.waiting import wait_until


def test_requests_above_the_rate_wait_one_interval_each() -> None:
    clock = ManualClock()
    rates = RequestRates(10, clock)
    assert [rates.charge("a") for _ in range(10)] == pytest.approx([0.0] * 10)
    assert [rates.charge("a") for _ in range(3)] == pytest.approx([0.1, 0.2, 0.3])
    assert rates.charge("b") == 0.0
    clock.now += 0.3
    assert rates.charge("a") == pytest.approx(0.1)


def test_addresses_are_forgotten_when_they_have_nothing_to_make_up() -> None:
    clock = ManualClock()
    rates = RequestRates(10, clock)
    for _ in range(15):
        rates.charge("a")
    clock.now += 1.2
    rates.forget()
    assert len(rates) == 1, "half a second above the rate, and one second of burst"
    clock.now += 0.5
    rates.forget()
    assert len(rates) == 0


def test_no_rate_counts_nothing() -> None:
    rates = RequestRates(None, ManualClock())
    assert [rates.charge("a") for _ in range(1_000)] == [0.0] * 1_000
    assert len(rates) == 0


def test_a_flooding_address_is_served_at_its_rate() -> None:
    """Twelve requests at once: the broker gets the burst of four, then the rest at the rate, and none is lost."""
    clock = SystemClock()
    arrived = []

    def noted(request: ReceivedRequest) -> bytes:
        arrived.append(clock.monotonic())
        return echo(request)

    with (
        ScriptedBroker(noted) as broker,
        Shim(ShimConfig(broker.address, max_request_rate_per_ip=4.0)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        began = clock.monotonic()
        client.send(b"".join(heartbeat(number, b"%d" % number) for number in range(12)))
        for number in range(12):
            assert client.read().endswith(b"%d" % number)
        assert arrived[-1] - began > 1.7, "after each of the fifth to the eleventh it waits 0.25 s"
        assert shim.metrics()["requests_paced.max_request_rate_per_ip"] > 0


def test_a_request_in_two_parts_is_answered_before_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With TLS, librdkafka writes a request in several records, and each of them may arrive alone."""
    monkeypatch.setattr(RequestRates, "charge", lambda _self, _address: 3600.0)
    with (
        ScriptedBroker(echo) as broker,
        Shim(ShimConfig(broker.address)) as shim,
        RawClient(shim.bootstrap_servers) as client,
    ):
        request = heartbeat(1, b"in two parts")
        client.send(request[:-2])
        wait_until(lambda: shim.metrics().get("requests_paced.max_request_rate_per_ip") == 1, "the client to wait for its turn")
        client.send(request[-2:])
        assert client.read().endswith(b"in two parts")
