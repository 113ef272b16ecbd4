"""Which URLs a fetcher may follow. Pure: nothing here resolves or connects.

A URL is taken apart by one strict grammar, so that no two parsers can disagree on where it leads, and then has to lie on the
user's list. The list names each host, port and path prefix; nothing on it means nothing allowed.

::

    remote.storage.fetcher.allowed.hosts = store.example, 10.0.0.7:9000/tier, [::1]:9000
                                           host           host:port/prefix    host:port

Without a port, the one of the URL's scheme is meant. A prefix matches whole path segments.

References: RFC 3986 (the grammar, of which we take a subset), reliability promise S01.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import unquote

import attrs

from kafka_remote_client.errors import ConfigurationError, ForbiddenLocationError

__all__ = ["AllowList", "StoreTarget"]

_SETTING = "remote.storage.fetcher.allowed.hosts"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_URL = 8192
_MAX_DECODINGS = 4

_AUTHORITY = r"(?P<host>[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[1-9][0-9]{0,4}))?"
_PATH = r"(?P<path>(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*)*)"
_QUERY = r"(?:\?(?P<query>(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*))?"
_URL = re.compile(rf"(?P<scheme>https?)://{_AUTHORITY}{_PATH}{_QUERY}", re.ASCII)
_ENTRY = re.compile(_AUTHORITY + _PATH, re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


@attrs.frozen
class StoreTarget:
    """Where a request goes. ``host`` is lower-case, an IPv6 address without brackets; ``resource`` is path and query."""

    scheme: str
    host: str
    port: int
    resource: str = attrs.field(repr=lambda _: "<redacted>")

    @property
    def authority(self) -> str:
        """``host:port``, which is no secret and may stand in messages."""
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    @property
    def host_headers(self) -> tuple[str, ...]:
        """What a Host header of this target may say."""
        bare = f"[{self.host}]" if ":" in self.host else self.host
        return (bare, self.authority) if self.port == _DEFAULT_PORTS[self.scheme] else (self.authority,)

    @property
    def tls(self) -> bool:
        return self.scheme == "https"


@attrs.frozen
class _Entry:
    host: str
    port: int | None
    prefix: str

    def covers(self, scheme: str, host: str, port: int, path: str) -> bool:
        if host != self.host or port != (self.port or _DEFAULT_PORTS[scheme]):
            return False
        return path == self.prefix or path.startswith(f"{self.prefix}/")


@attrs.frozen
class AllowList:
    """The user's list. Plain http is refused unless ``allow_http``."""

    entries: tuple[_Entry, ...]
    allow_http: bool = False

    @classmethod
    def parse(cls, text: str | None, *, allow_http: bool = False) -> AllowList:
        """Raises ConfigurationError, naming the entry by its place, for what is not ``host[:port][/path-prefix]``."""
        texts = [part.strip() for part in (text or "").split(",")]
        return cls(tuple(_parse_entries([part for part in texts if part])), allow_http)

    def check(self, url: str) -> StoreTarget:
        """Takes ``url`` apart. Raises ForbiddenLocationError, which shows no more of it than a well-formed host."""
        parts = _URL.fullmatch(url) if len(url) <= _MAX_URL else None
        if parts is None:
            raise ForbiddenLocationError("the location has no valid http(s) URL")
        scheme, path = parts["scheme"], parts["path"] or "/"
        if scheme == "http" and not self.allow_http:
            raise ForbiddenLocationError("the URL is plain http; set remote.storage.fetcher.allow.http=true to permit it")
        host = _host(parts["host"])
        port = int(parts["port"] or _DEFAULT_PORTS[scheme])
        if host is None or port > 0xFFFF:
            raise ForbiddenLocationError("the location's host or port is malformed")
        if not _is_plain(path):
            raise ForbiddenLocationError("the location's path contains '..' or an empty segment")
        query = parts["query"]
        target = StoreTarget(scheme, host, port, path if query is None else f"{path}?{query}")
        if not any(entry.covers(scheme, host, port, path) for entry in self.entries):
            listed = any(entry.host == host and port == (entry.port or _DEFAULT_PORTS[scheme]) for entry in self.entries)
            what = "the path of a URL on host" if listed else "URL host"
            raise ForbiddenLocationError(f"{what} '{target.authority}' is not in {_SETTING}")
        return target


def _parse_entries(texts: Iterable[str]) -> Iterable[_Entry]:
    for place, text in enumerate(texts, start=1):
        parts = _ENTRY.fullmatch(text)
        host = None if parts is None else _host(parts["host"])
        if parts is None or host is None or int(parts["port"] or 1) > 0xFFFF or not _is_plain(parts["path"]):
            form = "host[:port][/path-prefix]"
            what = f"a URL; write {form} without the scheme" if "://" in text else f"not {form}"
            raise ConfigurationError(f"{_SETTING}: entry {place} is {what}")
        yield _Entry(host, int(parts["port"]) if parts["port"] else None, parts["path"].rstrip("/"))


def _host(text: str) -> str | None:
    """The host in its one spelling; None for what is neither a name nor an address in its usual form."""
    host = text.lower()
    if host.startswith("["):
        return _address(host[1:-1], 6)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):  # what a resolver would read as a number: 127.1, 0x7f000001, 017700000001
        return _address(host, 4)
    return host if all(_LABEL.fullmatch(label) for label in labels) else None


def _address(text: str, version: int) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return str(address) if address.version == version else None


def _is_plain(path: str) -> bool:
    """No dot segments, control characters or backslashes, however many times the store decodes the path."""
    for _ in range(_MAX_DECODINGS):
        if _CONTROL.search(path):
            return False
        if any(segment.partition(";")[0] in (".", "..") for segment in path.split("/")):
            return False
        decoded = unquote(path)
        if decoded == path:
            return True
        path = decoded
    return False
