"""Builds the location source from a client's configuration, and the store that it needs.

============== ============================== =======================================
source         the location comes from        and is confirmed by
============== ============================== =======================================
broker         the broker, that is the shim   the broker
metadata-topic ``__remote_log_metadata``      the partition's leader
listing        a listing of the store         the partition's leader, or none
============== ============================== =======================================

References: docs/sources.md.
"""

from __future__ import annotations

import functools
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.locate import AsksCompacted
from kafka_remote_client.location.bootstrap import connection_settings, named_servers, parse_bootstrap_servers, with_servers
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol.connection import Authenticator
from kafka_remote_client.registry import load_store

if TYPE_CHECKING:
    from kafka_remote_client.location.cleanup_policies import CleanupPolicies

__all__ = ["asks_compacted", "build_source", "configured_store", "reads_the_store", "servers"]


class _Connection(TypedDict):
    """Connection settings for all requests to brokers."""

    client_id: str
    clock: Clock
    connect_timeout: float
    ssl_context: ssl.SSLContext | None
    sasl: Authenticator | None


def reads_the_store(remote: RemoteFetchConfig) -> bool:
    """Whether the client looks up locations in the tier, with its own credentials."""
    return remote.location_source != "broker"


def servers(remote: RemoteFetchConfig, inner: Mapping[str, object]) -> tuple[str, str]:
    """The setting that names the servers for location requests, and its value; an empty value if none is named."""
    if remote.bootstrap_servers:
        return "fetch.remote.bootstrap.servers", remote.bootstrap_servers
    return named_servers(inner)


def configured_store(remote: RemoteFetchConfig) -> RemoteObjectStore:
    """A new store of ``remote.storage.store.url``. Raises ConfigurationError, MissingExtraError."""
    assert remote.store_url is not None  # split_config checked it
    return load_store(remote.store_url, remote.store_options())


def asks_compacted(remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock) -> AsksCompacted:
    """Returns how to ask whether a topic is compacted: the broker, or, if none is named, never."""
    _, bootstrap = servers(remote, inner)

    @functools.cache
    def policies() -> CleanupPolicies:
        # With the first question, because most clients never meet an offset gap.
        from kafka_remote_client.location.cleanup_policies import CleanupPolicies  # noqa: PLC0415

        return CleanupPolicies(with_servers(connection_settings(inner), bootstrap), clock)

    return lambda partition, deadline: bool(bootstrap) and policies().compacted(partition, deadline)


def build_source(
    remote: RemoteFetchConfig,
    inner: Mapping[str, object],
    clock: Clock,
    store: RemoteObjectStore | None,
    *,
    metrics: FetchMetrics,
    formats: Sequence[str],
    ssl_context: ssl.SSLContext | None,
    sasl: Authenticator | None,
) -> LocationSource:
    """Returns the source. ``store`` is set if the source reads one; the source then owns it.

    ``formats`` are the storage formats that the client can read. Raises ConfigurationError, also for settings that librdkafka
    rejects, and MissingExtraError.
    """
    if store is not None and remote.location_source == "listing" and not remote.listing_broker:
        from kafka_remote_client.fetch.tier_sources import listing_source  # noqa: PLC0415 - only this source needs it

        return listing_source(remote, store, clock)
    setting, bootstrap = servers(remote, inner)
    if not bootstrap:
        raise ConfigurationError("bootstrap.servers is not set")
    parse_bootstrap_servers(bootstrap, setting)
    connection: _Connection = {
        "client_id": str(inner.get("client.id", "rdkafka")),
        "clock": clock,
        "connect_timeout": remote.connect_timeout_ms / 1000,
        "ssl_context": ssl_context,
        "sasl": sasl,
    }
    if store is None:
        return BrokerLocationSource(bootstrap, formats=formats, **connection)
    from kafka_remote_client.fetch.tier_sources import confirmed_source  # noqa: PLC0415 - only sources with a store need it

    return confirmed_source(remote, inner, bootstrap, PartitionLeaders(bootstrap, **connection), store, clock, metrics)
