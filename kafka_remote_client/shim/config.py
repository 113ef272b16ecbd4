"""A shim's settings as one frozen value. Sizes are bytes, times are seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.remote_log.follower import METADATA_TOPIC

__all__ = ["Address", "ShimConfig", "parse_address", "parse_addresses"]

Address: TypeAlias = tuple[str, int]
"""Host and port."""

_MAX_PORT = 65_535
_MAX_NODE_ID = 2**31 - 1
_EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - looked for, not bound


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


def _between(low: int, high: int) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    def check(_config: object, attribute: attrs.Attribute[Any], value: int) -> None:
        arguments.whole(value, attribute.name, low, high)

    return check


def _seconds_between(low: float, high: float) -> Callable[[object, attrs.Attribute[Any], Any], None]:
    def check(_config: object, attribute: attrs.Attribute[Any], value: float) -> None:
        arguments.finite(value, attribute.name, low, high)

    return check


def _node_ids(_config: object, _attribute: object, value: tuple[int, ...]) -> None:
    for node_id in value:
        arguments.whole(node_id, "node_ids", 0, _MAX_NODE_ID)


def _addresses(_config: object, _attribute: object, value: str) -> None:
    parse_addresses(value)


def _secret(value: object) -> str:
    return "None" if value is None else "<redacted>"


def _setting_names(value: Mapping[str, object]) -> str:
    return f"<{', '.join(sorted(value))}>" if value else "{}"


@attrs.frozen
class ShimConfig:
    """How a shim listens, whom it stands in front of, what it grants, and where its limits are.

    ``listen``: the bootstrap address; port 0 takes a free one. Each broker gets a listener of its own, on ``node_port_base``
    plus its node id (default: the bootstrap port plus one; free ports when that is 0). Brokers become known by the answers
    that pass through; those in ``node_ids`` are listened for from the start, so that clients which kept an address from
    before a restart are not refused.

    ``advertised_host``: what clients are told in place of the listen host.

    ``store``: URL of the tier; ``None`` gives a shim that grants nothing. ``store_options``: how to reach it, by the names of
    the fetcher's settings without their prefix. URLs are signed for the store itself, with the shim's own credentials; only
    objects of a ``file:`` store are served by the shim, on ``origin_listen``, under ``origin_public_url`` where clients see
    another address. ``whole_object_urls``: grant from a store whose URLs cannot be bound to a range (Azure), though each opens
    all of its segment to whoever may read a part.

    ``layout``: how the tier names and stores its objects. ``key_prefix`` and ``encryption_keys`` (files of private keys by key
    id) belong to the layout "aiven". ``allow_plaintext_data_keys``: give clients whose connection is not encrypted the keys of
    encrypted segments, too; off, the broker serves them such segments.

    ``url_ttl``: life of a signed URL. Longer survives slower readers; shorter closes a leaked one, or one of a reader whose
    rights are gone, sooner. ``signing_key``: shared by shims whose URLs any of them should serve; drawn at start when absent.

    ``range_bytes``, ``max_grant_bytes``: size of one signed range, and of all ranges of one grant, at most.
    A client sizes its ranges by the window that it asks for: they are an eighth of it.

    ``ssl_certificate``, ``ssl_key``, ``ssl_key_password``: PEM files of the listeners, which then speak TLS and nothing else;
    ``ssl_client_ca``: the authority of the certificates that clients have to show. ``origin_https``: so does the origin.
    ``broker_settings``: ``security.protocol`` and ``ssl.*`` (librdkafka's names) of all connections to brokers.

    ``metadata_consumer``: settings (librdkafka's names) of the consumer that follows ``metadata_topic``: the shim's own
    principal, which needs to read that topic and nothing else. They are added to ``broker_settings``.
    """

    bootstrap_servers: str = attrs.field(validator=_addresses)
    listen: str = attrs.field(default="127.0.0.1:0", validator=_addresses)
    advertised_host: str | None = None
    node_port_base: int | None = attrs.field(default=None, validator=attrs.validators.optional(_between(1, _MAX_PORT)))
    node_ids: tuple[int, ...] = attrs.field(default=(), validator=_node_ids)

    store: str | None = None
    store_options: Mapping[str, object] = attrs.field(factory=dict, repr=_setting_names)
    whole_object_urls: bool = False
    layout: str = "local-tiered-storage"
    key_prefix: str = ""
    encryption_keys: Mapping[str, str] = attrs.field(factory=dict)
    allow_plaintext_data_keys: bool = False
    origin_listen: str = attrs.field(default="127.0.0.1:0", validator=_addresses)
    origin_public_url: str | None = None
    url_ttl: float = attrs.field(default=120.0, validator=_seconds_between(1, 900))
    signing_key: bytes | None = attrs.field(default=None, repr=_secret)
    range_bytes: int = attrs.field(default=8 << 20, validator=_between(64 << 10, 256 << 20))
    max_grant_bytes: int = attrs.field(default=256 << 20, validator=_between(64 << 10, 1 << 30))
    metadata_topic: str = METADATA_TOPIC
    metadata_consumer: Mapping[str, str | int | float | bool] = attrs.field(factory=dict, repr=_setting_names)

    ssl_certificate: str | None = None
    ssl_key: str | None = None
    ssl_key_password: str | None = attrs.field(default=None, repr=_secret)
    ssl_client_ca: str | None = None
    origin_https: bool = False
    broker_settings: Mapping[str, str | int | float | bool] = attrs.field(factory=dict, repr=_setting_names)
    allow_shared_identity: bool = False

    max_connections: int = attrs.field(default=10_000, validator=_between(1, 1_000_000))
    max_connections_per_ip: int = attrs.field(default=2_000, validator=_between(1, 1_000_000))
    max_request_bytes: int = attrs.field(default=100 << 20, validator=_between(1024, (1 << 31) - 1))
    max_in_flight: int = attrs.field(default=1_000, validator=_between(1, 100_000))
    connect_timeout: float = attrs.field(default=10.0, validator=_seconds_between(0.1, 600))
    handshake_timeout: float = attrs.field(default=5.0, validator=_seconds_between(0.1, 600))
    first_request_timeout: float = attrs.field(default=10.0, validator=_seconds_between(0.1, 600))
    idle_timeout: float = attrs.field(default=600.0, validator=_seconds_between(1, 86_400))

    def __attrs_post_init__(self) -> None:
        if self.advertised_host is None and parse_address(self.listen)[0] in _EVERY_ADDRESS:
            raise ConfigurationError("a shim that listens on every address needs an advertised host to tell its clients")
        if self.range_bytes > self.max_grant_bytes:
            raise ConfigurationError("range_bytes is larger than max_grant_bytes")

    @property
    def upstream(self) -> tuple[Address, ...]:
        """The cluster's bootstrap addresses."""
        return parse_addresses(self.bootstrap_servers)
