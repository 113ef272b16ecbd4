"""Reads ranges through URLs that another party has signed: no SDK and no credentials on this side.

The URL comes with each range (:class:`LocationMetadata`), from the broker or the shim. It is followed only if it lies on the
user's allow-list, and exactly: https unless http is allowed, no redirect, no proxy, no cookie, no credential of our own.

Settings: ``PresignedFetcher.settings``, declared in :mod:`kafka_remote_fetchers._settings`, and those of the client that
:mod:`kafka_remote_fetchers._range_client` reads.

References: KIP-1254 "Authentication", reliability faults F01-F27, promises S01-S05 and S18.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import (
    ConfigurationError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_fetchers._allow_list import AllowList
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import RangeClient
from kafka_remote_fetchers._settings import bool_setting, fetcher_settings, text_setting
from kafka_remote_fetchers._signed_headers import signed_headers
from kafka_remote_fetchers._store_addresses import Resolver, system_resolver

__all__ = ["PresignedFetcher"]

_log = logging.getLogger(__name__)


class PresignedFetcher:
    """The fetcher ``presigned``. ``clock`` and ``resolver`` are for tests."""

    settings: ClassVar[frozenset[str]] = fetcher_settings(
        "allowed.hosts", "allow.http", "allow.private.addresses", "ssl.ca.location"
    )

    def __init__(self, clock: Clock | None = None, resolver: Resolver = system_resolver) -> None:
        self._clock = clock or SystemClock()
        self._resolver = resolver
        self._allow_list = AllowList(())
        self._client: RangeClient | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        hosts = text_setting(configs, "remote.storage.fetcher.allowed.hosts")
        if hosts is None:
            raise ConfigurationError(
                "fetcher 'presigned' needs remote.storage.fetcher.allowed.hosts: the hosts of the stores that it may read"
            )
        allow_http = bool_setting(configs, "remote.storage.fetcher.allow.http")
        allow_private = bool_setting(configs, "remote.storage.fetcher.allow.private.addresses")
        self._allow_list = AllowList.parse(hosts, allow_http=allow_http)
        self._client = RangeClient(configs, self._clock, allow_private=allow_private, resolver=self._resolver)
        if allow_http:
            _log.warning("remote.storage.fetcher.allow.http is on: segments and signed URLs may travel unencrypted")

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        if self._client is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured")
        deadline = self._client.deadline()
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.url is None:
            raise RemoteStorageError("the location has no URL")
        target = self._allow_list.check(location.url)
        return self._client.open(target, signed_headers(location, target, wanted), wanted, deadline)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
