"""Builds the location sources that look up locations in the tier. Only clients with such a source import this module.

The table of sources is in location_sources.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.location.bootstrap import connection_settings, with_servers
from kafka_remote_client.location.leaders import PartitionLeaders
from kafka_remote_client.location.listed_tier import ListedTier
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.location.metadata_topic import MetadataTopicTier
from kafka_remote_client.location.tier_source import TierLocationSource, TierResolver
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.breaker_store import guarded_store
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.layouts import LayoutOptions, encryption_key_files, layout_named
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver

__all__ = ["configured_layout", "confirmed_source", "listing_source"]

_KEYS = "remote.storage.store.encryption.keys"


def configured_layout(remote: RemoteFetchConfig) -> ObjectLayout:
    """The layout of the configured store. Raises ConfigurationError, MissingExtraError where keys need a package."""
    pairs = (pair.strip() for pair in remote.store_encryption_keys.split(","))
    keys = encryption_key_files([pair for pair in pairs if pair], _KEYS)
    return layout_named(remote.store_layout, LayoutOptions(remote.store_key_prefix, keys))


def listing_source(remote: RemoteFetchConfig, store: RemoteObjectStore, clock: Clock) -> ListingLocationSource:
    """The source that lists the store and asks no broker. Raises as :func:`configured_layout`."""
    return ListingLocationSource(
        _guarded(remote, store, clock),
        configured_layout(remote),
        range_bytes=remote.range_bytes,
        lookup_concurrency=remote.lookup_concurrency,
        lookup_timeout=remote.pending_timeout_ms / 1000,
        index_cache_bytes=remote.index_cache_bytes,
    )


def confirmed_source(
    remote: RemoteFetchConfig,
    inner: Mapping[str, object],
    bootstrap: str,
    leaders: PartitionLeaders,
    store: RemoteObjectStore,
    clock: Clock,
    metrics: FetchMetrics,
) -> TierLocationSource:
    """The source whose locations the partition's leader confirms. ``inner``: librdkafka's settings.

    Raises as :func:`configured_layout`, and ConfigurationError for settings that librdkafka rejects.
    """
    store = _guarded(remote, store, clock)
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


def _guarded(remote: RemoteFetchConfig, store: RemoteObjectStore, clock: Clock) -> RemoteObjectStore:
    return guarded_store(store, clock, failures=remote.breaker_failures, reset_seconds=remote.breaker_reset_ms / 1000)


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
