"""Ranges of S3 objects over this package's connections, with boto3's credentials: under the fetcher and the store of S3.

boto3 finds the credentials and signs each GetObject, with Range and, where the version is known, If-Match. The bytes come
straight into the caller's buffer, under one deadline for a range: boto3's time-outs start again with every byte.

If the store rejects the credentials, they are read again and the range is requested once more, within the same deadline.

References: KIP-1254 "Authentication", reliability faults F10-F12.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    LocationExpiredError,
    RemoteStorageAccessError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
)
from kafka_remote_client.plugin import ReadableStream
from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._range_client import RangeClient, range_header
from kafka_remote_fetchers._s3_client import S3Client, S3Clients
from kafka_remote_fetchers._store_url import StoreUrl
from kafka_remote_fetchers.s3_signer import signed_get

__all__ = ["S3Ranges"]

_T = TypeVar("_T")
_TTL_SECONDS = 300  # of a signature that is sent at once; room for clocks that differ


class S3Ranges:
    """Opens ranges of the objects below ``location``. Thread safe. Owns ``connections``."""

    def __init__(self, location: StoreUrl, clients: S3Clients, connections: RangeClient, clock: Clock) -> None:
        self._location = location
        self.clients = clients
        self._connections = connections
        self._clock = clock

    def deadline(self) -> Deadline:
        """When a range that is asked for now has to be read, by the connections' read time-out."""
        return self._connections.deadline()

    def open(self, key: str, wanted: WantedRange, deadline: Deadline, etag: str | None = None) -> ReadableStream:
        """Opens a range of an object, of the version ``etag`` if there is one. Raises RemoteStorageError kinds."""
        name = self._location.name(key)
        client: S3Client | None = self.clients.current
        refused: RemoteStorageError | None = None
        while client is not None:
            try:
                return self._open(client, name, etag, wanted, deadline)
            except (RemoteStorageAccessError, LocationExpiredError) as failure:
                if refused is not None:
                    raise
                refused = failure
            client = self._within(deadline, client.host, self.clients.renew, client)
        assert refused is not None
        raise refused

    def close(self) -> None:
        self._connections.close()

    def _open(self, client: S3Client, name: str, etag: str | None, wanted: WantedRange, deadline: Deadline) -> ReadableStream:
        def sign() -> tuple[StoreTarget, dict[str, str]]:
            signed = signed_get(client, self._location.bucket, name, range_header(wanted), ttl_seconds=_TTL_SECONDS, etag=etag)
            return _target(signed.url), dict(signed.headers)

        target, headers = self._within(deadline, client.host, sign) if client.may_wait() else sign()
        return self._connections.open(target, headers, wanted, deadline)

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
