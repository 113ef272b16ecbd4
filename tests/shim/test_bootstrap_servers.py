from __future__ import annotations

from kafka_remote_client.shim.bootstrap_servers import BootstrapServers, with_patience
from kafka_remote_client.shim.config import ShimConfig

A, B, C = ("a", 1), ("b", 2), ("c", 3)


def test_a_server_that_fails_comes_last_from_then_on() -> None:
    servers = BootstrapServers((A, B, C))
    assert servers.in_order() == (A, B, C)
    servers.failed(A)
    assert servers.in_order() == (B, C, A)
    servers.failed(C)
    assert servers.in_order() == (B, A, C)


def test_other_addresses_change_nothing() -> None:
    servers = BootstrapServers((A, B))
    servers.failed(C)
    assert servers.in_order() == (A, B)


def test_all_servers_but_the_last_share_half_of_the_admission() -> None:
    config = ShimConfig("a:1", admission_timeout=12, connect_timeout=9)
    assert list(with_patience((A, B, C), config)) == [(A, 2), (B, 2), (C, 9)]
    assert list(with_patience((A,), config)) == [(A, 9)]


def test_no_server_gets_more_than_the_connect_timeout() -> None:
    config = ShimConfig("a:1", admission_timeout=12, connect_timeout=1)
    assert list(with_patience((A, B), config)) == [(A, 1), (B, 1)]
