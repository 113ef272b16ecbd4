"""A shim's settings as one frozen value. Sizes are bytes, times are seconds. Each is declared in ``shim/settings.py``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.shim.client_limits import client_limits
from kafka_remote_client.shim.settings import shim_setting
from kafka_remote_client.shim.topic_policies import topic_policies

__all__ = ["Address", "ShimConfig", "parse_address", "parse_addresses"]

Address: TypeAlias = tuple[str, int]
"""Host and port."""

_MAX_PORT = 65_535
_MAX_NODE_ID = 2**31 - 1
_MIN_SIGNING_KEY = 16
_HOST = re.compile(r"[^\s/:@\[\],]+")


def parse_address(text: str) -> Address:
    """``host:port``, with an IPv6 host in brackets. Raises ConfigurationError."""
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise ConfigurationError(f"not host:port: {text!r}")
    return host, int(port)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """A comma separated list of ``host:port``, with at least one entry. Raises ConfigurationError."""
    return tuple(parse_address(part) for part in text.split(","))


def _in_bounds(_config: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    """Checks a number against the declared bounds. Raises ConfigurationError."""
    setting = shim_setting(attribute.name)
    unset = value is None and setting.default is None
    if unset or setting.minimum is None or setting.maximum is None:
        return
    if setting.type is int:
        arguments.whole(value, attribute.name, int(setting.minimum), int(setting.maximum))
    else:
        arguments.finite(value, attribute.name, setting.minimum, setting.maximum)


def _declared(name: str, **more: Any) -> Any:
    """The field of a declared setting: its default, and a check of its bounds."""
    setting = shim_setting(name)
    default = attrs.Factory(dict) if setting.type is dict else setting.default
    return attrs.field(**{"default": default, "validator": _in_bounds, **more})


def _node_ids(_config: object, _attribute: object, value: tuple[int, ...]) -> None:
    for node_id in value:
        arguments.whole(node_id, "node_ids", 0, _MAX_NODE_ID)
    if len(set(value)) < len(value):
        raise ConfigurationError(f"node_ids must name each node once, not {', '.join(map(str, value))}")


def _addresses(_config: object, attribute: attrs.Attribute[Any], value: str) -> None:
    _named(attribute, parse_addresses, value)


def _address(_config: object, attribute: attrs.Attribute[Any], value: str) -> None:
    _named(attribute, parse_address, value)


def _signing_key(_config: object, _attribute: object, value: bytes | None) -> None:
    if value is not None and len(value) < _MIN_SIGNING_KEY:
        raise ConfigurationError(f"signing_key needs at least {_MIN_SIGNING_KEY} bytes")


def _address_if_any(_config: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None:
        _named(attribute, parse_address, value)


def _named(attribute: attrs.Attribute[Any], parse: Callable[[str], object], value: str) -> None:
    try:
        parse(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{attribute.name}: {error}") from None


def _host_if_any(_config: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and not _HOST.fullmatch(value) and _as_ip(value) is None:
        raise ConfigurationError(f"{attribute.name} must be a host name or an IP address without a port, not {value!r}")


def _as_ip(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _topic_policies(_config: object, _attribute: object, value: Mapping[str, object]) -> None:
    topic_policies(value)


def _client_limits(_config: object, _attribute: object, value: Mapping[str, object]) -> None:
    client_limits(value)


def _choice(_config: object, attribute: attrs.Attribute[Any], value: str) -> None:
    choices = shim_setting(attribute.name).choices
    if value not in choices:
        raise ConfigurationError(f"{attribute.name} must be {' or '.join(choices)}")


def _secret(value: object) -> str:
    return "None" if value is None else "<redacted>"


def _setting_names(value: Mapping[str, object]) -> str:
    return f"<{', '.join(sorted(value))}>" if value else "{}"


@attrs.frozen
class ShimConfig:
    """The listeners, brokers, grants and limits of a shim: docs/shim-settings.md.

    URLs are signed for the store itself, with the shim's own credentials.
    The shim itself serves only objects of a ``file:`` store.
    """

    bootstrap_servers: str = attrs.field(validator=_addresses)
    listen: str = _declared("listen", validator=_address)
    advertised_host: str | None = _declared("advertised_host", validator=_host_if_any)
    node_port_base: int | None = _declared("node_port_base")
    node_ids: tuple[int, ...] = _declared("node_ids", validator=_node_ids)

    store: str | None = _declared("store")
    store_options: Mapping[str, object] = _declared("store_options", repr=_setting_names)
    whole_object_urls: bool = _declared("whole_object_urls")
    layout: str = _declared("layout")
    key_prefix: str = _declared("key_prefix")
    encryption_keys: Mapping[str, str] = _declared("encryption_keys")
    allow_plaintext_data_keys: bool = _declared("allow_plaintext_data_keys")
    origin_listen: str = _declared("origin_listen", validator=_address)
    test_origin: bool = _declared("test_origin")
    origin_public_url: str | None = _declared("origin_public_url")
    url_ttl: float = _declared("url_ttl")
    signing_key: bytes | None = _declared("signing_key", repr=_secret, validator=_signing_key)
    range_bytes: int = _declared("range_bytes")
    max_grant_bytes: int = _declared("max_grant_bytes")
    topic_policies: Mapping[str, object] = _declared("topic_policies", validator=_topic_policies)
    client_limits: Mapping[str, object] = _declared("client_limits", validator=_client_limits)
    index_cache_bytes: int = _declared("index_cache_bytes")
    lookup_concurrency: int = _declared("lookup_concurrency")
    lookup_timeout: float = _declared("lookup_timeout")
    metadata_topic: str = _declared("metadata_topic")
    metadata_consumer: Mapping[str, str | int | float | bool] = _declared("metadata_consumer", repr=_setting_names)
    metadata_snapshot_dir: str | None = _declared("metadata_snapshot_dir")
    metadata_snapshot_interval: float = _declared("metadata_snapshot_interval")

    ssl_certificate: str | None = _declared("ssl_certificate")
    ssl_key: str | None = _declared("ssl_key")
    ssl_key_password: str | None = _declared("ssl_key_password", repr=_secret)
    ssl_client_ca: str | None = _declared("ssl_client_ca")
    origin_https: bool = _declared("origin_https")
    broker_settings: Mapping[str, str | int | float | bool] = _declared("broker_settings", repr=_setting_names)
    allow_shared_identity: bool = _declared("allow_shared_identity")
    allow_unverified_brokers: bool = _declared("allow_unverified_brokers")

    management_listen: str | None = _declared("management_listen", validator=_address_if_any)
    log_format: str = _declared("log_format", validator=_choice)

    max_connections: int = _declared("max_connections")
    max_connections_per_ip: int = _declared("max_connections_per_ip")
    max_request_rate_per_ip: float | None = _declared("max_request_rate_per_ip")
    max_loop_share_per_ip: float = _declared("max_loop_share_per_ip")
    max_unadmitted_connections: int = _declared("max_unadmitted_connections")
    max_buffered_bytes: int = _declared("max_buffered_bytes")
    max_request_bytes: int = _declared("max_request_bytes")
    max_in_flight: int = _declared("max_in_flight")
    connect_timeout: float = _declared("connect_timeout")
    handshake_timeout: float = _declared("handshake_timeout")
    admission_timeout: float = _declared("admission_timeout")
    write_timeout: float = _declared("write_timeout")
    drain_timeout: float = _declared("drain_timeout")
    idle_timeout: float = _declared("idle_timeout")

    def __attrs_post_init__(self) -> None:
        listens = _as_ip(parse_address(self.listen)[0])
        if self.advertised_host is None and listens is not None and listens.is_unspecified:
            raise ConfigurationError(
                f"set advertised_host to the host that clients connect to: {self.listen} is a wildcard address"
            )
        if self.range_bytes > self.max_grant_bytes:
            raise ConfigurationError("range_bytes is larger than max_grant_bytes")

    @property
    def upstream(self) -> tuple[Address, ...]:
        """The cluster's bootstrap addresses."""
        return parse_addresses(self.bootstrap_servers)

    @property
    def follower_settings(self) -> dict[str, str | int | float | bool]:
        """librdkafka settings of the consumer that follows the metadata topic."""
        return {"bootstrap.servers": self.bootstrap_servers, **self.broker_settings, **self.metadata_consumer}
