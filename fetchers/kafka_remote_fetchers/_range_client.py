"""One ranged GET to a store: the request, what its answer means, and the stream of its body. Under all fetchers by HTTP.

It sits between a fetcher, which knows where the range lies and what its request has to carry, and the connections
(:mod:`kafka_remote_fetchers._connections`), which know deadlines.
"""

from __future__ import annotations

import http.client
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import (
    ConfigurationError,
    ForbiddenLocationError,
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageUnavailableError,
)
from kafka_remote_fetchers._allow_list import StoreTarget
from kafka_remote_fetchers._body_deadline import BodyDeadline
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._connections import ConnectionPool, StoreConnection, tls_context
from kafka_remote_fetchers._http import ERROR_BODY_LIMIT, ErrorDocument, classify, partial_content_length
from kafka_remote_fetchers._range_stream import HttpRangeStream
from kafka_remote_fetchers._settings import int_setting, text_setting
from kafka_remote_fetchers._store_addresses import Resolver, system_resolver
from kafka_remote_fetchers._transport_errors import guarded

__all__ = ["RangeClient", "quoted_etag", "range_header"]

_log = logging.getLogger(__name__)

_CA_FILE = "remote.storage.fetcher.ssl.ca.location"
_ETAG = re.compile(r'"[!#-~]{0,256}"', re.ASCII)


class RangeClient:
    """Opens ranges on pooled connections. Thread safe.

    Reads ``ssl.ca.location`` and four settings of the client: the connect time-out bounds DNS, connect and TLS together, the
    read time-out the whole range; a body slower than ``min.bytes.per.second`` ends sooner. As many idle connections are kept
    for each store as ranges may be in flight.

    Raises ConfigurationError for a value that it cannot accept.
    """

    def __init__(
        self, configs: Mapping[str, object], clock: Clock, *, allow_private: bool, resolver: Resolver = system_resolver
    ) -> None:
        self._clock = clock
        self._read_timeout = int_setting(configs, "fetch.remote.read.timeout.ms") / 1000
        self._floor = int_setting(configs, "fetch.remote.min.bytes.per.second")
        self._pool = ConnectionPool(
            clock,
            connect_timeout=int_setting(configs, "fetch.remote.connect.timeout.ms") / 1000,
            max_idle=int_setting(configs, "fetch.remote.max.in.flight"),
            allow_private=allow_private,
            tls=_tls(text_setting(configs, _CA_FILE)),
            resolver=resolver,
        )

    def deadline(self) -> Deadline:
        """When a range that is asked for now has to be read."""
        return Deadline(self._clock, self._read_timeout)

    def open(self, target: StoreTarget, headers: dict[str, str], wanted: WantedRange, deadline: Deadline) -> HttpRangeStream:
        """The range's bytes. ``headers``: lower-case names, besides Range and Host. Raises RemoteStorageError kinds."""
        carried = {
            "range": range_header(wanted),
            "accept-encoding": "identity",
            "user-agent": "kafka-remote-client",
            **headers,
        }
        connection, response = self._exchange(target, carried, deadline)
        try:
            length = _checked(response, wanted, connection.authority)
        except BaseException:
            self._pool.discard(connection)
            raise
        _log.debug("%s answers %s", connection.authority, wanted)
        body = BodyDeadline(self._clock, deadline, self._floor)
        connection.bound(body)
        return HttpRangeStream(self._pool, connection, response, length, body)

    def close(self) -> None:
        """Closes idle connections and cuts those in use."""
        self._pool.close()

    def _exchange(
        self, target: StoreTarget, headers: dict[str, str], deadline: Deadline
    ) -> tuple[StoreConnection, http.client.HTTPResponse]:
        """Sends the request; a second time where the store had closed a kept connection before it saw the first."""
        fresh = False
        while True:
            connection = guarded(target.authority, self._pool.acquire, target, deadline, fresh=fresh)
            kept = connection.used
            try:
                return connection, guarded(target.authority, connection.request_range, target.resource, headers, deadline)
            except BaseException as failure:
                self._pool.discard(connection)
                self._pool.drop_idle(connection)
                if not kept or not isinstance(failure, RemoteStorageUnavailableError):
                    raise
            fresh = True


def range_header(wanted: WantedRange) -> str:
    """The value of the Range header: both ends inclusive."""
    return f"bytes={wanted.start}-{'' if wanted.end is None else wanted.end - 1}"


def quoted_etag(etag: str) -> str:
    """An ETag as If-Match has it. Raises ForbiddenLocationError for what is none."""
    quoted = etag if etag.startswith('"') else f'"{etag}"'
    if not _ETAG.fullmatch(quoted):
        raise ForbiddenLocationError("the location's ETag is malformed")
    return quoted


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


def _tls(ca_file: str | None) -> Callable[[], ssl.SSLContext]:
    """Makes the TLS context: now if the file may be bad, or when a connection needs it."""
    if ca_file is None:
        return partial(tls_context, None)
    try:
        context = tls_context(ca_file)
    except OSError:
        raise ConfigurationError(f"{_CA_FILE} cannot be read as PEM") from None
    return lambda: context
