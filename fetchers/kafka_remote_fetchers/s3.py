"""Reads segments from S3 with the consumer's own credentials: boto3's provider chain, a profile or a role.

boto3 finds the credentials and signs each GetObject, with Range and, where the location has an ETag, If-Match. The bytes
come over this package's connections, under one deadline for a range: boto3's time-outs start again with every byte.

Settings: ``store.url`` (``s3://BUCKET/PREFIX``: what keys are relative to), those of :mod:`kafka_remote_fetchers._s3_client`,
and of the client those of :mod:`kafka_remote_fetchers._range_client`.

If the store rejects the credentials, they are read again and the range is requested once more, within the same deadline.

References: KIP-1254 "Authentication", reliability faults F10-F12.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar
from urllib.parse import urlsplit

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    LocationExpiredError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream
from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import RangeClient, range_header
from kafka_remote_fetchers._s3_client import S3_SETTINGS, S3Client, S3Clients, S3Settings
from kafka_remote_fetchers._settings import fetcher_settings, store_options, store_url
from kafka_remote_fetchers._store_url import StoreUrl
from kafka_remote_fetchers.s3_signer import signed_get

__all__ = ["S3Fetcher"]

_T = TypeVar("_T")
_TTL_SECONDS = 300  # of a signature that is sent at once; room for clocks that differ


class S3Fetcher:
    """The fetcher ``s3``. ``clock`` is for tests."""

    settings: ClassVar[frozenset[str]] = S3_SETTINGS | fetcher_settings("store.url")

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._location = StoreUrl("", "")
        self._clients: S3Clients | None = None
        self._client: RangeClient | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        self._location = StoreUrl.parse(store_url(configs), "s3")
        self._clients = S3Clients(S3Settings.parse(store_options(configs)), self._clock)
        # The endpoint is the user's own word, unlike a URL out of a grant: it may well be a private address.
        self._client = RangeClient(configs, self._clock, allow_private=True)

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        if self._client is None or self._clients is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured")
        deadline = self._client.deadline()
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.object_key is None:
            raise RemoteStorageError("the location has no object key")
        name = self._location.name(location.object_key)
        client: S3Client | None = self._clients.current
        refused: RemoteStorageError | None = None
        while client is not None:
            try:
                return self._open(self._client, client, name, location.etag, wanted, deadline)
            except (RemoteStorageAccessError, LocationExpiredError) as failure:
                if refused is not None:
                    raise
                refused = failure
            client = self._within(deadline, client.host, self._clients.renew, client)
        assert refused is not None
        raise refused

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def _open(
        self,
        ranges: RangeClient,
        client: S3Client,
        name: str,
        etag: str | None,
        wanted: WantedRange,
        deadline: Deadline,
    ) -> ReadableStream:
        def sign() -> tuple[StoreTarget, dict[str, str]]:
            signed = signed_get(client, self._location.bucket, name, range_header(wanted), ttl_seconds=_TTL_SECONDS, etag=etag)
            return _target(signed.url), dict(signed.headers)

        target, headers = self._within(deadline, client.host, sign) if client.may_wait() else sign()
        return ranges.open(target, headers, wanted, deadline)

    def _within(self, deadline: Deadline, host: str, call: Callable[..., _T], *args: object) -> _T:
        """The call's result, if it comes in time: fetching credentials takes no deadline, so it gets a thread."""
        results: list[_T] = []
        failures: list[BaseException] = []
        done = threading.Event()

        def run() -> None:
            try:
                results.append(call(*args))
            except BaseException as failure:  # noqa: BLE001 - handed to the thread that waits
                failures.append(failure)
            done.set()

        threading.Thread(target=run, name="s3-credentials", daemon=True).start()
        if not self._clock.wait(done, deadline.remaining()):
            raise RemoteStorageTimeoutError(f"timed out getting credentials for {host}")
        if failures:
            raise failures[0]
        return results[0]


def _target(url: str) -> StoreTarget:
    """Where boto3's own URL leads."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return StoreTarget(parts.scheme, parts.hostname or "", port, f"{parts.path}?{parts.query}")
