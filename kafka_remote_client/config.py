"""A consumer's configuration, taken apart: our settings as one frozen value, librdkafka's as they were.

The settings are those of :mod:`kafka_remote_client.settings`. Keys that begin with ``remote.storage.fetcher.`` and are not
listed there belong to the fetcher and are handed to it unread; the registry refuses those that the fetcher does not declare. An
unknown ``fetch.remote.*`` or other ``remote.*`` key is an error, because a misspelt setting that is silently ignored is
found in production.

References: KIP-1254, "New Consumer Configs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.settings import (
    FETCHER_PREFIX,
    LOCATION_SOURCES,
    PREFIX,
    SETTINGS,
    STORE_PREFIX,
    Setting,
    default_of,
    unknown_setting,
)

__all__ = [
    "FETCHER_PREFIX",
    "LOCATION_SOURCES",
    "PREFIX",
    "SETTINGS",
    "STORE_PREFIX",
    "RemoteFetchConfig",
    "Setting",
    "split_config",
]

_OURS = (PREFIX, "remote.")
"""Prefixes of keys that belong to this package: librdkafka has no key with them."""
_BY_NAME = {setting.name: setting for setting in SETTINGS}


@attrs.frozen
class RemoteFetchConfig:
    """All settings as one frozen value. Time-outs are in milliseconds, sizes in bytes, as in the table."""

    enabled: bool = default_of("fetch.remote.enabled")
    fetcher_class: str | None = default_of("remote.storage.fetcher.class")
    fetcher_class_path: str | None = default_of("remote.storage.fetcher.class.path")
    connect_timeout_ms: int = default_of("fetch.remote.connect.timeout.ms")
    read_timeout_ms: int = default_of("fetch.remote.read.timeout.ms")
    min_bytes_per_second: int = default_of("fetch.remote.min.bytes.per.second")
    bootstrap_servers: str | None = default_of("fetch.remote.bootstrap.servers")
    topics: str | None = default_of("fetch.remote.topics")
    location_timeout_ms: int = default_of("fetch.remote.location.timeout.ms")
    pending_timeout_ms: int = default_of("fetch.remote.pending.timeout.ms")
    buffer_memory: int = default_of("fetch.remote.buffer.memory")
    max_in_flight: int = default_of("fetch.remote.max.in.flight")
    range_bytes: int = default_of("fetch.remote.range.bytes")
    hedge_max_percent: int = default_of("fetch.remote.hedge.max.percent")
    max_bytes_per_second: int | None = default_of("fetch.remote.max.bytes.per.second")
    max_requests_per_second: int | None = default_of("fetch.remote.max.requests.per.second")
    cache_directory: str | None = default_of("fetch.remote.cache.directory")
    cache_max_bytes: int = default_of("fetch.remote.cache.max.bytes")
    retries: int = default_of("fetch.remote.retries")
    fallback_backoff_ms: int = default_of("fetch.remote.fallback.backoff.ms")
    recheck_interval_ms: int = default_of("fetch.remote.recheck.interval.ms")
    breaker_failures: int = default_of("fetch.remote.breaker.failures")
    breaker_reset_ms: int = default_of("fetch.remote.breaker.reset.ms")
    slow_bytes_per_second: int = default_of("fetch.remote.slow.bytes.per.second")
    progress_cb: Callable[..., object] | None = attrs.field(default=default_of("fetch.remote.progress.cb"))
    progress_interval_ms: int = default_of("fetch.remote.progress.interval.ms")
    max_decompressed_bytes: int = default_of("fetch.remote.max.decompressed.bytes")
    allow_offset_gaps: bool = default_of("fetch.remote.allow.offset.gaps")
    allow_class_path: bool = default_of("fetch.remote.allow.class.path")
    location_source: str = default_of("fetch.remote.location.source")
    metadata_topic: str = default_of("fetch.remote.metadata.topic")
    listing_broker: bool = default_of("fetch.remote.listing.broker")
    lookup_concurrency: int = default_of("fetch.remote.lookup.concurrency")
    index_cache_bytes: int = default_of("fetch.remote.index.cache.bytes")
    store_url: str | None = default_of("remote.storage.store.url")
    store_layout: str = default_of("remote.storage.store.layout")
    store_key_prefix: str = default_of("remote.storage.store.key.prefix")
    store_encryption_keys: str = default_of("remote.storage.store.encryption.keys")
    fetcher_options: Mapping[str, object] = attrs.field(factory=dict, repr=lambda options: f"<{len(options)} options>")

    def __attrs_post_init__(self) -> None:
        """Raises ConfigurationError for what is no whole number, is negative, or is 0 where the table does not allow it.

        The table's larger minimums are not checked here: they keep applications from settings that work badly, and tests go
        below them.
        """
        for setting in SETTINGS:
            value = getattr(self, setting.attribute)
            if setting.type is int and value is not None:
                highest = None if setting.maximum is None else int(setting.maximum)
                arguments.whole(value, setting.attribute, min(int(setting.minimum or 0), 1), highest)
            if setting.choices and value not in setting.choices:
                raise ConfigurationError(f"{setting.attribute} must be one of: {', '.join(setting.choices)}")

    def fetcher_configs(self) -> dict[str, object]:
        """What a fetcher's ``configure`` receives: shared time-outs and limits, the store's URL, and all of its own keys."""
        shared = {
            "fetch.remote.connect.timeout.ms": self.connect_timeout_ms,
            "fetch.remote.read.timeout.ms": self.read_timeout_ms,
            "fetch.remote.min.bytes.per.second": self.min_bytes_per_second,
            "fetch.remote.max.in.flight": self.max_in_flight,
        }
        store = {} if self.store_url is None else {"remote.storage.store.url": self.store_url}
        return {**shared, **store, **self.fetcher_options}

    def store_options(self) -> dict[str, object]:
        """What a store is built with: the fetcher's own keys, without their prefix."""
        return {name.removeprefix(FETCHER_PREFIX): value for name, value in self.fetcher_options.items()}


def split_config(config: Mapping[str, object]) -> tuple[RemoteFetchConfig, dict[str, object]]:
    """Takes our settings out of a consumer's configuration; the rest is librdkafka's, in its order, untouched.

    Raises ConfigurationError for an unknown ``fetch.remote.*`` or ``remote.*`` key, a value of the wrong type or
    out of bounds, a class path without its opt-in, and a source that reads a store where none is named.
    """
    values: dict[str, Any] = {}
    fetcher_options: dict[str, object] = {}
    inner: dict[str, object] = {}
    for name, value in config.items():
        if not isinstance(cast("object", name), str):  # librdkafka refuses it
            inner[name] = value
            continue
        setting = _BY_NAME.get(name)
        if setting is not None:
            values[setting.attribute] = setting.parse(value)
        elif name.startswith(FETCHER_PREFIX):
            fetcher_options[name] = value
        elif name.startswith(_OURS):
            raise unknown_setting(name, _BY_NAME)
        else:
            inner[name] = value
    remote = RemoteFetchConfig(**values, fetcher_options=fetcher_options)
    if remote.fetcher_class_path is not None and not remote.allow_class_path:
        raise ConfigurationError("remote.storage.fetcher.class.path needs fetch.remote.allow.class.path=true")
    if remote.location_source != "broker" and remote.store_url is None:
        raise ConfigurationError(f"fetch.remote.location.source={remote.location_source} needs remote.storage.store.url")
    return remote, inner
