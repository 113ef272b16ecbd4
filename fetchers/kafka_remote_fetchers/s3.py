"""Reads segments from S3 with the consumer's own credentials: boto3's provider chain, a profile or a role.

Requests, signatures and renewed credentials: :mod:`kafka_remote_fetchers._s3_ranges`.

Settings: ``store.url`` (``s3://BUCKET/PREFIX``: what keys are relative to), those of :mod:`kafka_remote_fetchers._s3_client`,
and of the client those of :mod:`kafka_remote_fetchers._range_client`.

References: KIP-1254 "Authentication".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageError, RemoteStorageUnavailableError
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import RangeClient
from kafka_remote_fetchers._s3_client import S3_SETTINGS, S3Clients, S3Settings
from kafka_remote_fetchers._s3_ranges import S3Ranges
from kafka_remote_fetchers._settings import fetcher_settings, store_options, store_url
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["S3Fetcher"]


class S3Fetcher:
    """The fetcher ``s3``. ``clock`` is for tests."""

    settings: ClassVar[frozenset[str]] = S3_SETTINGS | fetcher_settings("store.url")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._ranges: S3Ranges | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        location = StoreUrl.parse(store_url(configs), "s3")
        clients = S3Clients(S3Settings.parse(store_options(configs)), self._clock)
        # The endpoint is the user's own word, unlike a URL out of a grant: it may well be a private address.
        connections = RangeClient(configs, self._clock, allow_private=True)
        self._ranges = S3Ranges(location, clients, connections, self._clock)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        if self._ranges is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured")
        deadline = self._ranges.deadline()
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.object_key is None:
            raise RemoteStorageError("the location has no object key")
        return self._ranges.open(location.object_key, wanted, deadline, location.etag)

    def close(self) -> None:
        if self._ranges is not None:
            self._ranges.close()
