"""Reads ranges through URLs that somebody else has signed: no SDK and no credentials on this side.

The URL comes with each range (:class:`LocationMetadata`), from the broker or the shim. It is followed only if it lies on the
user's allow-list, and exactly: https unless http is allowed, no redirect, no proxy, no cookie, no credential of our own.

setting                                            | default | meaning
``remote.storage.fetcher.allowed.hosts``           | empty   | ``host[:port][/path-prefix]``, comma separated
``remote.storage.fetcher.allow.http``              | false   | follow plain http too: bytes and URLs travel in the clear
``remote.storage.fetcher.allow.private.addresses`` | false   | stores at private and loopback addresses
``remote.storage.fetcher.ssl.ca.location``         | null    | PEM file of CAs, in place of the system's
``fetch.remote.connect.timeout.ms``                | 1000    | DNS, connect and TLS together
``fetch.remote.read.timeout.ms``                   | 5000    | one whole range, connect included
``fetch.remote.max.in.flight``                     | 16      | idle connections kept for each store

References: KIP-1254 "Authentication", reliability faults F01-F27, promises S01-S05 and S18.
"""

from __future__ import annotations

import http.client
import logging
import re
import ssl
from collections.abc import Mapping
from http import HTTPStatus

from fetchers._allow_list import AllowList, StoreTarget
from fetchers._byte_range import WantedRange
from fetchers._connections import (
    ConnectionPool,
    Resolver,
    StoreConnection,
    system_resolver,
    tls_context,
)
from fetchers._http import ERROR_BODY_LIMIT, ErrorDocument, classify, partial_content_length
from fetchers._range_stream import HttpRangeStream
from fetchers._settings import bool_setting, int_setting, text_setting
from fetchers._transport_errors import guarded
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream

__all__ = ["PresignedFetcher"]

_log = logging.getLogger(__name__)

_MAX_HEADERS = 32
_HEADER_VALUE = re.compile(r"[!-~](?:[ -~]{0,4094}[!-~])?", re.ASCII)
_SIGNED_HEADER = re.compile(r"if-match|x-(?:amz|goog|ms)-[a-z0-9-]{1,64}", re.ASCII)
_ETAG = re.compile(r'"[!#-~]{0,256}"', re.ASCII)


class PresignedFetcher:
    """The fetcher ``presigned``. ``clock`` and ``resolver`` are for tests."""

    def __init__(self, clock: Clock | None = None, resolver: Resolver = system_resolver) -> None:
        self._clock = clock or SystemClock()
        self._resolver = resolver
        self._read_timeout = 5.0
        self._allow_list = AllowList(())
        self._pool: ConnectionPool | None = None

    def configure(self, configs: Mapping[str, object]) -> None:
        allow_http = bool_setting(configs, "remote.storage.fetcher.allow.http", default=False)
        self._allow_list = AllowList.parse(text_setting(configs, "remote.storage.fetcher.allowed.hosts"), allow_http=allow_http)
        self._read_timeout = int_setting(configs, "fetch.remote.read.timeout.ms", 5000, minimum=1) / 1000
        self._pool = ConnectionPool(
            self._clock,
            connect_timeout=int_setting(configs, "fetch.remote.connect.timeout.ms", 1000, minimum=1) / 1000,
            max_idle=int_setting(configs, "fetch.remote.max.in.flight", 16, minimum=1),
            allow_private=bool_setting(configs, "remote.storage.fetcher.allow.private.addresses", default=False),
            tls=_tls_context(text_setting(configs, "remote.storage.fetcher.ssl.ca.location")),
            resolver=self._resolver,
        )
        if allow_http:
            _log.warning("remote.storage.fetcher.allow.http is on: segments and signed URLs may travel unencrypted")

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        if self._pool is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured")
        deadline = Deadline(self._clock, self._read_timeout)
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.url is None:
            raise RemoteStorageError("the location holds no URL")
        target = self._allow_list.check(location.url)
        headers = _request_headers(location, target, wanted)
        connection, response = self._exchange(self._pool, target, headers, deadline)
        try:
            length = _checked(response, wanted, connection.authority)
        except BaseException:
            self._pool.discard(connection)
            raise
        _log.debug("%s answers %s", connection.authority, wanted)
        return HttpRangeStream(self._pool, connection, response, length)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _exchange(
        self, pool: ConnectionPool, target: StoreTarget, headers: dict[str, str], deadline: Deadline
    ) -> tuple[StoreConnection, http.client.HTTPResponse]:
        """Sends the request; a second time where the store had closed a kept connection before it saw the first."""
        fresh = False
        while True:
            connection = guarded(target.authority, pool.acquire, target, deadline, fresh=fresh)
            kept = connection.used
            try:
                return connection, guarded(target.authority, connection.request_range, target.resource, headers, deadline)
            except BaseException as failure:
                pool.discard(connection)
                pool.drop_idle(connection)
                if not kept or not isinstance(failure, RemoteStorageUnavailableError):
                    raise
            fresh = True


def _checked(response: http.client.HTTPResponse, wanted: WantedRange, host: str) -> int:
    """The length of the answer's body. Raises what the answer means where it is not the range."""
    headers = response.headers
    if response.status != HTTPStatus.PARTIAL_CONTENT:
        raise classify(response.status, headers, ErrorDocument.parse(_front(response)), host)
    for name in ("Content-Range", "Content-Length", "Transfer-Encoding"):
        if len(headers.get_all(name, [])) > 1:
            raise InvalidStorageResponseError(f"{host} answered with more than one {name}")
    return partial_content_length(headers, wanted)


def _front(response: http.client.HTTPResponse) -> bytes:
    """The front of an error's body, or nothing: the status alone says enough."""
    try:
        return guarded("", response.read, ERROR_BODY_LIMIT)
    except RemoteStorageError:
        return b""


def _request_headers(location: LocationMetadata, target: StoreTarget, wanted: WantedRange) -> dict[str, str]:
    """All headers but Host. Raises ForbiddenLocationError for a signed header that is not of a store's kind."""
    byte_range = f"bytes={wanted.start}-{'' if wanted.end is None else wanted.end - 1}"
    headers = {"range": byte_range, "accept-encoding": "identity", "user-agent": "kafka-remote-client"}
    if len(location.signed_headers) > _MAX_HEADERS:
        raise ForbiddenLocationError("the location has too many signed headers")
    for name, value in location.signed_headers:
        lower = name.lower()
        if lower == "host" and value.lower() in target.host_headers:
            continue
        if lower == "range" and value == byte_range:
            continue
        if lower in headers or not _SIGNED_HEADER.fullmatch(lower) or not _HEADER_VALUE.fullmatch(value):
            raise ForbiddenLocationError("the location has a signed header that is not permitted")
        headers[lower] = value
    if location.etag is not None:
        headers.setdefault("if-match", _quoted(location.etag))
    return headers


def _quoted(etag: str) -> str:
    quoted = etag if etag.startswith('"') else f'"{etag}"'
    if not _ETAG.fullmatch(quoted):
        raise ForbiddenLocationError("the location's ETag is malformed")
    return quoted


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    try:
        return tls_context(ca_file)
    except OSError:
        raise ConfigurationError("remote.storage.fetcher.ssl.ca.location cannot be read as PEM") from None
