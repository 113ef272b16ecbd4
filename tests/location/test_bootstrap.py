from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.bootstrap import named_servers, parse_bootstrap_servers


@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b:2,", (("a", 1), ("b", 2))),
        ("a", (("a", 9092),)),
        ("[::1]:9093", (("::1", 9093),)),
        ("[::1]", (("::1", 9092),)),
        ("PLAINTEXT://a:1", (("a", 1),)),
    ],
)
def test_bootstrap_servers_are_parsed(servers: str, addresses: tuple[tuple[str, int], ...]) -> None:
    assert parse_bootstrap_servers(servers) == addresses


@pytest.mark.parametrize(
    "servers", ["", " , ", ":9092", "a:", "a:0", "a:65536", "a:-1", "a:x", "a:\u0661", "::1", "::1:9092", "[]:1"]
)
def test_invalid_bootstrap_servers_are_refused(servers: str) -> None:
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers"):
        parse_bootstrap_servers(servers)


@pytest.mark.parametrize("servers", ["", "a:x", "::1:9092"])
def test_the_error_names_the_setting(servers: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^fetch\.remote\.bootstrap\.servers"):
        parse_bootstrap_servers(servers, "fetch.remote.bootstrap.servers")


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ("bootstrap.servers", "")),
        ({"bootstrap.servers": None}, ("bootstrap.servers", "")),
        ({"group.id": "g", "bootstrap.servers": "a:1"}, ("bootstrap.servers", "a:1")),
        ({"metadata.broker.list": "b:1"}, ("metadata.broker.list", "b:1")),
        ({"bootstrap.servers": "a:1", "metadata.broker.list": "b:1"}, ("metadata.broker.list", "b:1")),
        ({"metadata.broker.list": "b:1", "bootstrap.servers": "a:1"}, ("bootstrap.servers", "a:1")),
    ],
)
def test_servers_have_two_names_of_which_the_last_one_counts(settings: dict[str, object], named: tuple[str, str]) -> None:
    assert named_servers(settings) == named
