"""Settings are checked at construction, and repr shows no secret."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.config import ShimConfig, parse_address, parse_addresses
from kafka_remote_client.shim.settings import SHIM_SETTINGS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "shim-settings.md").read_text(encoding="utf-8")
BOUNDED = re.findall(r"^\| `(\w+)` \|.*\| (int|float) \|.*\| ([\d.]+) to ([\d.]+) \|", PAGE, re.MULTILINE)
"""Name, type, lowest and highest value of each documented setting with bounds."""


@pytest.mark.parametrize(
    ("text", "address"),
    [("host:9092", ("host", 9092)), (" host:0 ", ("host", 0)), ("[::1]:9092", ("::1", 9092)), ("10.0.0.1:1", ("10.0.0.1", 1))],
)
def test_host_and_port_are_read(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:port", "host:-1", "host:65536", "::1:9092", "host:٣"])
def test_refuses_what_is_not_host_and_port(text: str) -> None:
    with pytest.raises(ConfigurationError, match="not host:port"):
        parse_address(text)


def test_a_list_of_addresses_is_read() -> None:
    assert parse_addresses("a:1, b:2") == (("a", 1), ("b", 2))
    assert ShimConfig("a:1,b:2").upstream == (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap_servers": "nowhere"},
        {"listen": "nowhere"},
        {"origin_listen": "nowhere"},
        {"url_ttl": 0.5},
        {"url_ttl": 901},
        {"range_bytes": 1},
        {"max_grant_bytes": 1},
        {"range_bytes": 8 << 20, "max_grant_bytes": 4 << 20},
        {"node_port_base": 0},
        {"listen": "0.0.0.0:9092"},
        {"listen": "[::]:9092"},
        {"max_in_flight": 0},
        {"lookup_concurrency": 0},
        {"lookup_timeout": 0},
        {"signing_key": b"short"},
        {"topic_policies": {"orders.grant": "sometimes"}},
        {"client_limits": {"app.bytes_per_second": -1}},
    ],
)
def test_refuses_settings_out_of_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        ShimConfig(**{"bootstrap_servers": "broker:9092"} | wrong)


@pytest.mark.parametrize(("name", "kind", "low", "high"), BOUNDED)
def test_documented_bounds_are_exact(name: str, kind: str, low: str, high: str) -> None:
    field = attrs.fields_dict(ShimConfig)[name]
    number, step = (int, 1) if kind == "int" else (float, 0.001)
    assert field.validator is not None
    for value in (number(low), number(high)):
        field.validator(None, field, value)
    for value in (number(low) - step, number(high) + step):
        with pytest.raises(ConfigurationError, match=name):
            field.validator(None, field, value)


def test_settings_that_are_not_given_have_their_documented_defaults() -> None:
    """docs/shim-settings.md is made of the same table."""
    config = ShimConfig("broker:9092")
    documented = {name: {} if setting.type is dict else setting.default for name, setting in SHIM_SETTINGS.items()}
    del documented["bootstrap_servers"]  # it has none
    assert {name: getattr(config, name) for name in documented} == documented


def test_every_address_needs_a_name_for_clients() -> None:
    assert ShimConfig("broker:9092", listen="0.0.0.0:9092", advertised_host="shim.example").advertised_host == "shim.example"
    with pytest.raises(ConfigurationError, match=r"^set advertised_host to .*: 0\.0\.0\.0:9092 is a wildcard address$"):
        ShimConfig("broker:9092", listen="0.0.0.0:9092")


def test_repr_shows_no_secret() -> None:
    config = ShimConfig("b:1", signing_key=b"canary" * 4, metadata_consumer={"sasl.password": "canary"})
    assert "canary" not in repr(config)
    assert "<sasl.password>" in repr(config)
    assert "signing_key=<redacted>, " in repr(config)
    assert "signing_key=None, " in repr(ShimConfig("b:1"))


def test_the_highest_node_id_and_the_shortest_key_are_accepted() -> None:
    assert ShimConfig("broker:1", node_ids=(0, (1 << 31) - 1)).node_ids[-1] == (1 << 31) - 1
    assert ShimConfig("broker:1", signing_key=b"k" * 16).signing_key
    with pytest.raises(ConfigurationError, match="signing_key"):
        ShimConfig("broker:1", signing_key=b"k" * 15)


def test_a_node_id_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="node_ids must name each node once, not 1, 2, 1"):
        ShimConfig("broker:1", node_ids=(1, 2, 1))


@pytest.mark.parametrize("node_id", [-1, 1 << 31, "1"])
def test_a_node_id_that_no_broker_can_have_is_refused(node_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="node_ids"):
        ShimConfig("broker:1", node_ids=(1, node_id))


@pytest.mark.parametrize("name", ["bootstrap_servers", "listen", "origin_listen", "management_listen"])
def test_a_malformed_address_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: not host:port: 'here'$"):
        ShimConfig(**{"bootstrap_servers": "broker:9092", name: "here"})


@pytest.mark.parametrize("name", ["listen", "origin_listen", "management_listen"])
def test_a_listener_has_one_address(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}: not host:port: "):
        ShimConfig("broker:9092", **{name: "127.0.0.1:1,127.0.0.1:2"})


@pytest.mark.parametrize("host", ["", " ", "shim.example:9192", "http://shim.example", "a b", "[::1]", "a,b"])
def test_refuses_an_advertised_host_that_clients_cannot_use(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^advertised_host must be a host name or an IP address without a port, not "):
        ShimConfig("broker:9092", listen="0.0.0.0:9092", advertised_host=host)


@pytest.mark.parametrize(
    "host", ["shim", "shim-1.example", "shim_1", "192.0.2.1", "2001:db8::1", "fe80::1%eth0", "shim.example."]
)
def test_takes_names_and_addresses_as_advertised_host(host: str) -> None:
    assert ShimConfig("broker:9092", listen="0.0.0.0:9092", advertised_host=host).advertised_host == host


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "[0::0]:1"])
def test_a_wildcard_address_needs_an_advertised_host(listen: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^set advertised_host"):
        ShimConfig("broker:9092", listen=listen)
