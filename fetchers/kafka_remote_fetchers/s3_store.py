"""The tier's other objects out of S3 with boto3: ``s3://BUCKET/PREFIX``. Options: :mod:`kafka_remote_fetchers._s3_client`.

Permissions: s3:GetObject on the objects, s3:ListBucket on the bucket. Without the latter nothing can be listed, and S3 answers
403 in place of 404 for an object that is not there; an optional index would then be an error and not an absence.

::

    get, get_range | GetObject
    open_range     | GetObject over this package's connections (:mod:`kafka_remote_fetchers._s3_ranges`), or boto3's
                   | if the environment has a proxy for the endpoint
    size, etag     | GetObject of one byte, because the answer to a HEAD cannot tell a missing object from a missing bucket
    list           | ListObjectsV2, 1,000 keys a page
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    InvalidStorageResponseError,
    LocationExpiredError,
    ObjectNotFoundError,
    RangeNotSatisfiableError,
    RemoteStorageAccessError,
    RemoteStorageTimeoutError,
    SegmentNotFoundError,
)
from kafka_remote_client.plugin import ObjectInfo, ReadableStream
from kafka_remote_client.settings import FETCHER_PREFIX
from kafka_remote_fetchers._byte_range import WantedRange, bytes_between
from kafka_remote_fetchers._range_client import RangeClient, range_header
from kafka_remote_fetchers._s3_client import CONNECT_SECONDS, S3_SETTINGS, S3Client, S3Clients, S3Settings
from kafka_remote_fetchers._s3_errors import s3_guarded
from kafka_remote_fetchers._s3_ranges import S3Ranges
from kafka_remote_fetchers._store_url import StoreUrl

__all__ = ["S3Store"]

_T = TypeVar("_T")
_READ_SECONDS = 60.0
_CONNECT_TIMEOUT = "fetch.remote.connect.timeout.ms"
_PIECE = 256 * 1024
_FIRST_BYTE = WantedRange(0, 1)
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})", re.ASCII)


class S3Store:
    """A RemoteObjectStore over one bucket. Thread safe. ``clock`` is for tests."""

    settings: ClassVar[frozenset[str]] = S3_SETTINGS

    def __init__(self, url: str, options: Mapping[str, object] | None = None, clock: Clock | None = None) -> None:
        """Raises ConfigurationError for a URL or an option that cannot be. Asks nothing of the store yet."""
        self._location = StoreUrl.parse(url, "s3")
        self._clock = clock or SystemClock()
        self._clients = S3Clients(S3Settings.parse(options or {}), self._clock)
        self._configs = {f"{FETCHER_PREFIX}{name}": value for name, value in (options or {}).items()}
        self._lock = threading.Lock()
        self._ranges: S3Ranges | None = None  # made when it is needed: look-ups alone need none

    def get(self, key: str) -> bytes:
        return self._object(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return bytes_between(start, end, lambda: self._object(key, WantedRange(start, end)))

    def open_range(self, key: str, start: int, end: int) -> ReadableStream:
        wanted, deadline = WantedRange.of(start, end), Deadline(self._clock, _READ_SECONDS)
        if self._is_proxied:
            return io.BytesIO(self.get_range(key, start, end))
        try:
            return self._opened_ranges().open(key, wanted, deadline)
        except SegmentNotFoundError:
            pass
        raise ObjectNotFoundError(key)

    def size(self, key: str) -> int:
        answer = self._first_byte(key)
        if answer is None:
            return 0
        return _object_size(answer, _FIRST_BYTE)

    def etag(self, key: str) -> str | None:
        answer = self._first_byte(key)
        return None if answer is None else answer.get("ETag")

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        token: str | None = None
        while True:
            page = self._renewing(lambda client: self._page(client, prefix, token))  # noqa: B023 - called at once
            for item in page.get("Contents", ()):
                key = self._location.key(item["Key"])
                if key is not None:
                    yield ObjectInfo(key, int(item["Size"]))
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or token is None:
                return

    def close(self) -> None:
        with self._lock:
            if self._ranges is not None:
                self._ranges.close()
        self._clients.current.boto.close()

    @cached_property
    def _is_proxied(self) -> bool:
        """Whether boto3 reaches the endpoint through a proxy of the environment."""
        parts = urlsplit(self._clients.current.boto.meta.endpoint_url)
        return parts.scheme in getproxies() and not proxy_bypass(parts.netloc)

    def _opened_ranges(self) -> S3Ranges:
        with self._lock:
            if self._ranges is None:
                configs = {**self._configs, _CONNECT_TIMEOUT: 1000 * CONNECT_SECONDS}
                connections = RangeClient(configs, self._clock, allow_private=True)
                self._ranges = S3Ranges(self._location, self._clients, connections, self._clock)
            return self._ranges

    def _first_byte(self, key: str) -> Any:
        """The answer to a GET of it; None for an object without bytes."""
        try:
            answer = self._asked(key, lambda client, name: self._get(client, name, _FIRST_BYTE))
        except RangeNotSatisfiableError:
            return None
        answer["Body"].close()
        return answer

    def _object(self, key: str, wanted: WantedRange | None = None) -> bytes:
        deadline = Deadline(self._clock, _READ_SECONDS)

        def read(client: S3Client, name: str) -> bytes:
            answer = self._get(client, name, wanted)
            body = answer["Body"]
            try:
                if wanted is not None:
                    _object_size(answer, wanted)
                return s3_guarded(client.host, _read_all, body, deadline)
            finally:
                body.close()

        return self._asked(key, read)

    def _asked(self, key: str, ask: Callable[[S3Client, str], _T]) -> _T:
        name = self._location.name(key)
        try:
            return self._renewing(lambda client: ask(client, name))
        except SegmentNotFoundError:
            pass
        raise ObjectNotFoundError(key)

    def _renewing(self, ask: Callable[[S3Client], _T]) -> _T:
        """Asks; once more with credentials read again if the store rejects the current ones."""
        client = self._clients.current
        try:
            return ask(client)
        except (RemoteStorageAccessError, LocationExpiredError):
            renewed = self._clients.renew(client)
            if renewed is None:
                raise
        return ask(renewed)

    def _get(self, client: S3Client, name: str, wanted: WantedRange | None) -> Any:
        ranged = {} if wanted is None else {"Range": range_header(wanted)}
        return s3_guarded(client.host, client.boto.get_object, Bucket=self._location.bucket, Key=name, **ranged)

    def _page(self, client: S3Client, prefix: str, token: str | None) -> Any:
        at = {} if token is None else {"ContinuationToken": token}
        return s3_guarded(
            client.host, client.boto.list_objects_v2, Bucket=self._location.bucket, Prefix=self._location.prefix + prefix, **at
        )


def _object_size(answer: Mapping[str, Any], wanted: WantedRange) -> int:
    """The size of the object. Raises InvalidStorageResponseError unless the answer has the range, cut at the object's end."""
    found = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
    if found is None:
        raise InvalidStorageResponseError("the store answered without a single Content-Range")
    start, last, size = map(int, found.groups())
    if (start, last + 1) != (wanted.start, size if wanted.end is None else min(wanted.end, size)):
        raise InvalidStorageResponseError(f"the store returned bytes {start}-{last} instead of {wanted}")
    return size


def _read_all(body: Any, deadline: Deadline) -> bytes:
    pieces = []
    while piece := body.read(_PIECE):
        pieces.append(piece)
        if deadline.expired():
            raise RemoteStorageTimeoutError("timed out reading the object")
    return b"".join(pieces)
