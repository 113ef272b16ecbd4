"""Reads ``bootstrap.servers``. Pure."""

from __future__ import annotations

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.cluster import Address

__all__ = ["parse_bootstrap_servers"]

_DEFAULT_PORT = 9092


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
