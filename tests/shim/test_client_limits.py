"""A client is granted bytes and locations at the rate of its limit, exactly over time."""

from __future__ import annotations

from typing import Any

import pytest

import kafka_remote_client.shim.client_limits as limits_module
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.client_limits import ClientLimits, client_name
from tests.support.locations import ManualClock


def test_a_client_is_identified_by_its_certificate_or_client_id() -> None:
    assert client_name("commonName=app", "me", "192.0.2.1:5") == "commonName=app"
    assert client_name("", "me", "192.0.2.1:5") == "me@192.0.2.1"
    assert client_name("", "", "::1:5") == "@::1"


def test_a_client_id_takes_bounded_memory() -> None:
    assert client_name("", "x" * 250 + "y" * 32_000, "192.0.2.1:5") == "x" * 250 + "@192.0.2.1"


def test_a_client_without_a_matching_pattern_has_no_limit() -> None:
    limits = ClientLimits({"a@*.grants_per_second": 0})
    for _ in range(100):
        assert limits.admits("b@192.0.2.1")
        limits.charge("b@192.0.2.1", 1 << 40)
    assert not limits.admits("a@192.0.2.1")


def test_bytes_are_granted_at_the_rate() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.bytes_per_second": "1000"}, clock)
    granted = 0
    for _ in range(1000):
        if limits.admits("a"):
            limits.charge("a", 700)
            granted += 700
        clock.now += 0.1
    assert 100_000 <= granted <= 100_000 + 1000 + 700


def test_one_large_grant_is_followed_by_a_pause() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.bytes_per_second": 1000}, clock)
    limits.charge("a", 6000)
    clock.now += 4.9
    assert not limits.admits("a")
    assert limits.admits("b"), "each client has its own"
    clock.now += 0.2
    assert limits.admits("a")


def test_grants_are_counted_at_any_size() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.grants_per_second": 2}, clock)
    for _ in range(2):
        assert limits.admits("a")
        limits.charge("a", 0)
    assert not limits.admits("a")
    clock.now += 0.5
    assert limits.admits("a")


def test_a_limit_may_be_below_one_grant_per_second() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.grants_per_second": 0.5}, clock)
    assert limits.admits("a")
    limits.charge("a", 0)
    clock.now += 0.9
    assert not limits.admits("a")
    clock.now += 0.2
    assert limits.admits("a")


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits_module, "_MAX_CLIENTS", 2)
    limits = ClientLimits({"*.grants_per_second": 1}, ManualClock())
    for name in ("a", "b", "a", "c"):
        limits.charge(name, 0)
    assert list(limits._clients) == ["a", "c"]


def test_an_overdraft_outlives_a_reload() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.bytes_per_second": 1000}, clock)
    limits.charge("a", 6000)
    clock.now += 2
    limits.reload({"b.grants_per_second": 1, "*.bytes_per_second": 1000})
    clock.now += 2.9
    assert not limits.admits("a")
    clock.now += 0.2
    assert limits.admits("a")


def test_a_reload_changes_the_rate_from_then_on() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.bytes_per_second": 1000}, clock)
    limits.charge("a", 6000)
    clock.now += 2
    limits.reload({"*.bytes_per_second": 10})
    clock.now += 299
    assert not limits.admits("a")
    clock.now += 2
    assert limits.admits("a")
    limits.reload({"*.bytes_per_second": 1})
    limits.charge("a", 5)
    clock.now += 3.9
    assert not limits.admits("a"), "what is left is not more than the new rate brings in a second"
    clock.now += 0.2
    assert limits.admits("a")


def test_a_reload_adds_limits_and_lifts_them() -> None:
    clock = ManualClock()
    limits = ClientLimits({"*.bytes_per_second": 1000}, clock)
    limits.charge("a", 6000)
    limits.reload({"a.grants_per_second": 1})
    assert limits.admits("a"), "bytes are not limited any more"
    limits.charge("a", 6000)
    assert not limits.admits("a"), "grants are"
    limits.reload({"a.grants_per_second": 1, "a.bytes_per_second": 1})
    assert not limits.admits("a")
    limits.reload({})
    assert limits.admits("a")
    assert not limits._clients


def test_an_invalid_reload_changes_nothing() -> None:
    limits = ClientLimits({"*.grants_per_second": 1}, ManualClock())
    limits.charge("a", 0)
    with pytest.raises(ConfigurationError, match="between 0"):
        limits.reload({"*.grants_per_second": -1})
    assert not limits.admits("a")
    assert limits.admits("b")


def test_a_reload_and_the_event_loop_exclude_each_other() -> None:
    class Watching(ManualClock):
        def monotonic(self) -> float:
            held.append(limits._lock.locked())
            return super().monotonic()

    held: list[bool] = []
    limits = ClientLimits({"*.grants_per_second": 5}, Watching())
    assert limits.admits("a")
    limits.charge("b", 0)
    limits.reload({"*.grants_per_second": 1})
    assert len(held) >= 3
    assert all(held)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a.bytes_per_second": "fast"}, "must be a number"),
        ({"a.bytes_per_second": -1}, "between 0"),
        ({"a.bytes_per_second": (1 << 50) + 1}, "between 0"),
        ({"a.grants_per_second": float("nan")}, "between 0"),
        ({"a.rate": 1}, "client_limits: 'a.rate'"),
    ],
)
def test_an_invalid_limit_is_named(given: dict[str, Any], said: str) -> None:
    assert ClientLimits({"a.bytes_per_second": 1 << 50}).admits("a")
    with pytest.raises(ConfigurationError, match=said):
        ClientLimits(given)
