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

import ssl
from collections.abc import Mapping, Sequence
from typing import TypedDict

from confluent_kafka import KafkaException

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.locate import AsksCompacted
from kafka_remote_client.location.bootstrap import named_servers, parse_bootstrap_servers, with_servers
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.location.cleanup_policies import CleanupPolicies
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.listed_tier import ListedTier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.metadata_topic import MetadataTopicTier, connection_settings
from kafka_remote_client.location.source import LocationSource
from kafka_remote_client.location.tier_source import TierLocationSource, TierResolver
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol.connection import Authenticator
from kafka_remote_client.registry import load_store
from kafka_remote_client.remote_log.breaker_store import guarded_store
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.layouts import LayoutOptions, encryption_key_files, layout_named
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver

__all__ = ["asks_compacted", "build_source", "configured_layout", "configured_store", "reads_the_store", "servers"]

_KEYS = "remote.storage.store.encryption.keys"


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


def configured_layout(remote: RemoteFetchConfig) -> ObjectLayout:
    """The layout of that store. Raises ConfigurationError, MissingExtraError where keys need a package."""
    pairs = (pair.strip() for pair in remote.store_encryption_keys.split(","))
    keys = encryption_key_files([pair for pair in pairs if pair], _KEYS)
    return layout_named(remote.store_layout, LayoutOptions(remote.store_key_prefix, keys))


def asks_compacted(remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock) -> AsksCompacted:
    """Returns how to ask whether a topic is compacted: the broker, or, if none is named, never."""
    _, bootstrap = servers(remote, inner)
    if not bootstrap:
        return lambda _partition, _deadline: False
    return CleanupPolicies(with_servers(connection_settings(inner), bootstrap), clock).compacted


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
    if store is not None:
        store = guarded_store(store, clock, failures=remote.breaker_failures, reset_seconds=remote.breaker_reset_ms / 1000)
    if store is not None and remote.location_source == "listing" and not remote.listing_broker:
        return ListingLocationSource(
            store,
            configured_layout(remote),
            range_bytes=remote.range_bytes,
            lookup_concurrency=remote.lookup_concurrency,
            lookup_timeout=remote.pending_timeout_ms / 1000,
            index_cache_bytes=remote.index_cache_bytes,
        )
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
    leaders = PartitionLeaders(bootstrap, **connection)
    layout, reads = configured_layout(remote), store_read_executor()
    try:
        connected = with_servers(connection_settings(inner), bootstrap)
        resolver = RemoteSegmentResolver(store, layout, index_cache_bytes=remote.index_cache_bytes, executor=reads)
        tier = _tier(remote, connected, store, layout, resolver, clock, metrics)
    except KafkaException as error:
        raise ConfigurationError(f"cannot follow the metadata topic: {error.args[0]}") from None
    return TierLocationSource(
        leaders,
        tier,
        store,
        layout,
        clock=clock,
        range_bytes=remote.range_bytes,
        reads=reads,
        lookup_concurrency=remote.lookup_concurrency,
        lookup_timeout=remote.pending_timeout_ms / 1000,
    )


def _tier(
    remote: RemoteFetchConfig,
    connection: Mapping[str, str | int | float | bool],
    store: RemoteObjectStore,
    layout: ObjectLayout,
    resolver: RemoteSegmentResolver,
    clock: Clock,
    metrics: FetchMetrics,
) -> TierResolver:
    patience = remote.location_timeout_ms / 1000
    if remote.location_source == "listing":
        return ListedTier(store, layout, resolver, clock=clock, patience=patience)
    followed = MetadataTopicTier(connection, resolver, clock=clock, patience=patience, topic=remote.metadata_topic)
    metrics.watch_total("remote-fetch-metadata-restarts-total", lambda: followed.follower.restarts)
    metrics.watch_total("remote-fetch-metadata-rereads-total", lambda: followed.follower.rereads)
    return followed
