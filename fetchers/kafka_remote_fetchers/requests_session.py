"""Reads ranges through signed URLs with a Session of ``requests``, for networks where a store is behind a proxy.

The fetcher ``requests`` follows the same URLs as ``presigned`` under the same allow-list, and checks the same of each answer.
``presigned`` is the default: it is faster and holds its time-outs exactly. This one has what ``requests`` has::

    what a network asks for                 | how
    a proxy                                 | requests.proxy
    its own certificate authorities         | ssl.ca.location
    a client certificate (mTLS)             | requests.client.certificate
    anything else: headers, hooks, adapters | a subclass with its own new_session(), registered as a plugin

Two differences from ``presigned``. A proxy resolves the store's name, so addresses are checked only without one, and
``requests`` resolves the name once more. ``requests`` starts its read time-out again with every byte; the time of a range is
checked between reads, so a range may take up to twice ``fetch.remote.read.timeout.ms``.

References: KIP-1254 "Authentication", docs/plugins.md, decision 6.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from pathlib import Path
from typing import Any, ClassVar, ParamSpec, TypeVar
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import resolve_proxies, select_proxy
from urllib3.exceptions import HTTPError, ReadTimeoutError, SSLError

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    ConfigurationError,
    InvalidStorageResponseError,
    RemoteStorageError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.plugin import LocationMetadata, ReadableStream, WritableBuffer
from kafka_remote_fetchers._allow_list import AllowList, StoreTarget
from kafka_remote_fetchers._body_deadline import BodyDeadline
from kafka_remote_fetchers._byte_range import WantedRange
from kafka_remote_fetchers._http import ERROR_BODY_LIMIT, ErrorDocument, classify, partial_content_length
from kafka_remote_fetchers._range_client import range_header
from kafka_remote_fetchers._settings import bool_setting, fetcher_settings, int_setting, text_setting
from kafka_remote_fetchers._signed_headers import signed_headers
from kafka_remote_fetchers._store_addresses import Resolver, StoreAddresses, system_resolver
from kafka_remote_fetchers._transport_errors import guarded, tls_failure

__all__ = ["RequestsFetcher"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_log = logging.getLogger(__name__)

_CA_FILE = "remote.storage.fetcher.ssl.ca.location"
_CERTIFICATE = "remote.storage.fetcher.requests.client.certificate"
_PROXY = "remote.storage.fetcher.requests.proxy"
_READ_BYTES = 1 << 20
_QUERY = re.compile(r"\?[^\s'\"]+")


class RequestsFetcher:
    """The fetcher ``requests``. Thread safe. ``clock`` and ``resolver`` are for tests."""

    settings: ClassVar[frozenset[str]] = fetcher_settings(
        "allowed.hosts",
        "allow.http",
        "allow.private.addresses",
        "ssl.ca.location",
        "requests.proxy",
        "requests.client.certificate",
    )

    def __init__(self, clock: Clock | None = None, resolver: Resolver = system_resolver) -> None:
        self._clock = clock or SystemClock()
        self._resolver = resolver
        self._session: requests.Session | None = None

    def new_session(self) -> requests.Session:
        """Returns the Session, without the settings. Override it to add headers, hooks, adapters or authentication.

        By default it takes nothing from the environment: no proxy variables, no ``.netrc``.
        """
        session = requests.Session()
        session.trust_env = False
        return session

    def configure(self, configs: Mapping[str, object]) -> None:
        """Raises ConfigurationError for a value that cannot be used, and without allowed hosts."""
        hosts = text_setting(configs, "remote.storage.fetcher.allowed.hosts")
        if hosts is None:
            raise ConfigurationError(
                "fetcher 'requests' needs remote.storage.fetcher.allowed.hosts: the hosts of the stores that it may read"
            )
        allow_http = bool_setting(configs, "remote.storage.fetcher.allow.http")
        allow_private = bool_setting(configs, "remote.storage.fetcher.allow.private.addresses")
        self._allow_list = AllowList.parse(hosts, allow_http=allow_http)
        self._addresses = StoreAddresses(self._clock, allow_private=allow_private, resolver=self._resolver)
        self._connect_timeout = int_setting(configs, "fetch.remote.connect.timeout.ms") / 1000
        self._read_timeout = int_setting(configs, "fetch.remote.read.timeout.ms") / 1000
        self._floor = int_setting(configs, "fetch.remote.min.bytes.per.second")
        _hide_queries_in_logs()
        session = self.new_session()
        adapter = HTTPAdapter(pool_maxsize=int_setting(configs, "fetch.remote.max.in.flight"), max_retries=0)
        for prefix in ("http://", "https://"):
            if type(session.get_adapter(prefix)) is HTTPAdapter:  # a subclass is the user's
                session.mount(prefix, adapter)
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=()))
        if proxy := text_setting(configs, _PROXY):
            session.proxies = dict.fromkeys(("http", "https"), _checked_proxy(proxy))
        if authorities := text_setting(configs, _CA_FILE):
            session.verify = _readable(authorities, _CA_FILE)
        if certificate := text_setting(configs, _CERTIFICATE):
            session.cert = _readable(certificate, _CERTIFICATE)
        self._session = session
        if allow_http:
            _log.warning("remote.storage.fetcher.allow.http is on: segments and signed URLs may travel unencrypted")

    def fetch_log_segment(
        self, remote_log_segment_metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int
    ) -> ReadableStream:
        """As RemoteStorageFetcher. Raises RemoteStorageError kinds, with nothing of the URL but its host."""
        if self._session is None:
            raise RemoteStorageUnavailableError("the fetcher is not configured, or closed")
        deadline = Deadline(self._clock, self._read_timeout)
        wanted = WantedRange.of(start_position, end_position)
        location = LocationMetadata.decode(remote_log_segment_metadata.custom_metadata)
        if location.url is None:
            raise RemoteStorageError("the location has no URL")
        target = self._allow_list.check(location.url)
        headers = {
            **signed_headers(location, target, wanted),
            "Range": range_header(wanted),
            "Accept-Encoding": "identity",
            "User-Agent": "kafka-remote-client",
        }
        response = self._sent(self._session, location.url, headers, target, deadline)
        try:
            length = _checked(response, wanted, target)
        except BaseException:
            response.close()
            raise
        return _Body(response, target.authority, length, BodyDeadline(self._clock, deadline, self._floor))

    def close(self) -> None:
        """Closes idle connections. Streams that are open go on."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _sent(
        self, session: requests.Session, url: str, headers: dict[str, str], target: StoreTarget, deadline: Deadline
    ) -> requests.Response:
        host = target.authority
        request = _translated(host, session.prepare_request, requests.Request("GET", url, headers))
        proxies = resolve_proxies(request, session.proxies, session.trust_env)
        if select_proxy(url, proxies) is None:  # a proxy resolves the name itself
            connecting = Deadline(self._clock, min(self._connect_timeout, deadline.remaining()))
            guarded(host, self._addresses.of, target.host, target.port, connecting)
        request.url = url  # as it was signed: requests quotes it again
        timeout = (self._connect_timeout, self._read_timeout)
        return _translated(host, session.send, request, proxies=proxies, stream=True, allow_redirects=False, timeout=timeout)


class _Body:
    """The ReadableStream of a checked 206: exactly ``length`` bytes."""

    def __init__(self, response: requests.Response, host: str, length: int, deadline: BodyDeadline) -> None:
        self._response = response
        self._host = host
        self._length = self._remaining = length
        self._deadline = deadline
        self._failure: RemoteStorageError | None = None
        self._closed = False

    def readinto(self, buffer: WritableBuffer, /) -> int:
        """Fills ``buffer`` as far as the range goes. Where the store fails first, returns what came; the next call raises."""
        if self._failure is not None:
            raise self._failure
        filled = 0
        with memoryview(buffer) as whole, whole.cast("B") as data:
            wanted = min(len(data), self._remaining)
            if wanted and self._closed:
                raise RemoteStorageUnavailableError("the stream is closed")
            try:
                while filled < wanted:
                    piece = self._read(min(wanted - filled, _READ_BYTES))
                    data[filled : filled + len(piece)] = piece
                    filled += len(piece)
                    self._remaining -= len(piece)
                if filled and not self._remaining:
                    self._finish()
            except RemoteStorageError as failure:
                self._failure = failure
                self.close()
                if not filled or isinstance(failure, InvalidStorageResponseError):
                    raise
        return filled

    def close(self) -> None:
        self._closed = True
        self._response.close()

    def _read(self, most: int) -> bytes:
        self._deadline.waits()
        if self._deadline.expired():
            raise RemoteStorageTimeoutError(f"{self._host} timed out")
        piece: bytes = _translated(self._host, self._response.raw.read1, most, decode_content=False)
        if not piece:
            raise RemoteStorageUnavailableError(f"{self._host} ended its response before the range of {self._length} bytes did")
        self._deadline.received(len(piece))
        return piece

    def _finish(self) -> None:
        """The range is complete. A response that goes on is refused; the connection is kept otherwise."""
        try:
            more = _translated(self._host, self._response.raw.read, 1, decode_content=False)
        except RemoteStorageError:
            more = b""  # the range is whole, only the connection is not kept
        self.close()
        if more:
            raise InvalidStorageResponseError(f"{self._host} sent more than the range")


def _checked(response: requests.Response, wanted: WantedRange, target: StoreTarget) -> int:
    """The length of the answer's body. Raises what the answer means where it is not the range."""
    host = target.authority
    if response.status_code != HTTPStatus.PARTIAL_CONTENT:
        try:
            front = _translated(host, response.raw.read, ERROR_BODY_LIMIT, decode_content=False)
        except RemoteStorageError:
            front = b""
        raise classify(response.status_code, response.headers, ErrorDocument.parse(front), host)
    return partial_content_length(response.headers, wanted)


def _translated(host: str, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """The call's result; errors of requests and urllib3 become RemoteStorageErrors that name ``host``.

    They are raised outside of the handler: texts of requests and urllib3 have the URL in them.
    """
    try:
        return call(*args, **kwargs)
    except (requests.RequestException, HTTPError, OSError, ValueError) as error:
        failure = _transport_error(error, host)
    raise failure


def _transport_error(error: Exception, host: str) -> RemoteStorageError:
    if isinstance(error, requests.Timeout | ReadTimeoutError | TimeoutError):
        return RemoteStorageTimeoutError(f"{host} timed out")
    if isinstance(error, requests.exceptions.ProxyError):
        return RemoteStorageUnavailableError(f"the proxy does not connect to {host}; check {_PROXY}")
    if isinstance(error, requests.exceptions.SSLError | SSLError):
        return tls_failure(error, host) or RemoteStorageError(
            f"the TLS handshake with {host} failed; {_CA_FILE} must name the CA that signed its certificate"
        )
    return RemoteStorageUnavailableError(f"cannot connect to {host}, or it closed the connection before the end of its answer")


def _checked_proxy(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{_PROXY} must be http://host:port or https://host:port")
    return url


def _readable(path: str, setting: str) -> str:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError:
        raise ConfigurationError(f"{setting} cannot be read") from None
    return path


class _QueryFilter(logging.Filter):
    """Removes the query of each URL, which has the signature, from what urllib3 logs."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_without_query(each) for each in record.args)
        record.msg = _without_query(record.msg)
        return True


def _without_query(value: Any) -> Any:
    if isinstance(value, str):
        return _QUERY.sub("?…", value)
    return value if isinstance(value, int | float) else _QUERY.sub("?…", str(value))


_FILTER = _QueryFilter()


def _hide_queries_in_logs() -> None:
    """Adding the same filter again changes nothing."""
    for name in ("urllib3.connectionpool", "urllib3.util.retry"):
        logging.getLogger(name).addFilter(_FILTER)
