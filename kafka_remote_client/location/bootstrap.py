"""Reads ``bootstrap.servers``, which librdkafka also calls ``metadata.broker.list``. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.cluster_metadata import Address

__all__ = ["SERVER_SETTINGS", "connection_settings", "named_servers", "parse_bootstrap_servers", "with_servers"]

_T = TypeVar("_T")

_DEFAULT_PORT = 9092

SERVER_SETTINGS = ("bootstrap.servers", "metadata.broker.list")
"""librdkafka's two names for one setting (CONFIGURATION.md)."""
_CONNECTION_PREFIXES = (
    "broker.address.",
    "client.",
    "enable.sasl.",
    "enable.ssl.",
    "reconnect.",
    "retry.backoff.",
    "sasl.",
    "security.",
    "socket.",
    "ssl.",
)
_CONNECTION_SETTINGS = frozenset({*SERVER_SETTINGS, "log_level", "oauth_cb"})


def named_servers(settings: Mapping[str, object]) -> tuple[str, str]:
    """Returns which name of the setting counts, and its value; an empty value if neither is set.

    If both are set, the last one counts, as in librdkafka.
    """
    given = [name for name in settings if name in SERVER_SETTINGS]
    if not given:
        return SERVER_SETTINGS[0], ""
    return given[-1], str(settings[given[-1]] or "")


def with_servers(settings: Mapping[str, _T], servers: str) -> dict[str, _T | str]:
    """Returns the settings with ``servers`` in place of those that they name."""
    return {name: value for name, value in settings.items() if name not in SERVER_SETTINGS} | {SERVER_SETTINGS[0]: servers}


def parse_bootstrap_servers(servers: str, setting: str = "bootstrap.servers") -> tuple[Address, ...]:
    """``host:port,...`` as in ``bootstrap.servers``. ``[v6]:port``, no port (9092) and ``PROTOCOL://`` in front are understood.

    Raises ConfigurationError, which names ``setting``, for anything else and for an empty list.
    """
    addresses = tuple(_parse_address(entry.strip(), setting) for entry in servers.split(",") if entry.strip())
    if not addresses:
        raise ConfigurationError(f"{setting} is empty")
    return addresses


def _parse_address(entry: str, setting: str) -> Address:
    authority = entry.rpartition("://")[2]
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        host, port = authority, str(_DEFAULT_PORT)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigurationError(f"{setting}: an IPv6 address needs brackets: {entry!r}")
    if not host or not (port.isascii() and port.isdecimal()) or not 0 < int(port) < 1 << 16:
        raise ConfigurationError(f"{setting}: {entry!r} is not host:port")
    return host, int(port)


def connection_settings(config: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Returns the settings of a consumer's configuration for its connections, without those about reading."""
    return {
        name: value  # type: ignore[misc] # librdkafka judges the values
        for name, value in ((str(name), value) for name, value in config.items())  # librdkafka rejects other keys
        if name in _CONNECTION_SETTINGS or name.startswith(_CONNECTION_PREFIXES)
    }
