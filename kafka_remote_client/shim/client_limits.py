"""Limits of grants per second for each client: the tables of the setting ``client_limits``. Above a limit the broker serves.

The broker identifies clients, and the shim does not. So the shim identifies a client by::

    the client presents    | its name                                | who can claim another name
    a certificate          | the subject: commonName=app             | only a holder of the certificate's key
    nothing                | client.id@address: app@192.0.2.1        | any client: the limit is advisory

Each field is a token bucket that fills at its rate and holds the tokens of one second. A grant is made if no bucket is
overdrawn, and takes its whole size. So one grant may overdraw, and the next one waits until the bucket is refilled: over time
the rate holds.

A reload keeps overdrafts, in bytes and grants; the new rate refills them. A client that gets its first limit by a reload begins
with the tokens of one second. A limit that a reload removes is dropped.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, TypeAlias

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.shim.pattern_tables import PatternTables, number

__all__ = ["ClientLimit", "ClientLimits", "client_limits", "client_name"]

_MAX_CLIENTS = 10_000
_MAX_CLIENT_ID = 250
_MAX_RATE = 1 << 50


def client_name(principal: str, client_id: str, client: str) -> str:
    """Returns a client's name: ``principal`` if it presented a certificate. ``client``: its address and port.

    Of a client id the first 250 characters count: it may have 32 KB, and thousands of names are kept.
    """
    return principal or f"{client_id[:_MAX_CLIENT_ID]}@{client.rpartition(':')[0]}"


@attrs.frozen
class ClientLimit:
    """Rates; None = no limit."""

    bytes_per_second: float | None = None
    grants_per_second: float | None = None


def client_limits(given: Mapping[str, Any]) -> PatternTables[ClientLimit]:
    """Limits by the name of a client. Raises ConfigurationError."""
    return PatternTables("client_limits", given, _FIELDS, ClientLimit, ClientLimit())


@attrs.define(eq=False)
class _Bucket:
    rate: float
    left: float
    at: float

    def fill(self, now: float) -> float:
        self.left = min(self.rate, self.left + self.rate * (now - self.at))
        self.at = now
        return self.left


_Buckets: TypeAlias = tuple[_Bucket | None, _Bucket | None]


class ClientLimits:
    """Admits and counts grants. Keeps the 10,000 clients with the latest requests.

    One event loop uses it. :meth:`reload` may be called from any thread, so a lock guards the buckets.
    """

    def __init__(self, given: Mapping[str, Any] | None = None, clock: Clock | None = None) -> None:
        self._limits = client_limits(given or {})
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._clients: OrderedDict[str, _Buckets] = OrderedDict()

    def admits(self, client: str) -> bool:
        """Returns whether the client may get a grant now."""
        with self._lock:
            now = self._clock.monotonic()
            return all(bucket is None or bucket.fill(now) > 0 for bucket in self._of(client, now))

    def charge(self, client: str, nbytes: int) -> None:
        """Counts one grant and its size in bytes."""
        with self._lock:
            for bucket, amount in zip(self._of(client, self._clock.monotonic()), (nbytes, 1), strict=True):
                if bucket is not None:
                    bucket.left -= amount

    def reload(self, given: Mapping[str, Any]) -> None:
        """Replaces the limits and keeps overdrafts. Raises ConfigurationError, and then changes nothing."""
        limits = client_limits(given)
        with self._lock:
            now = self._clock.monotonic()
            known, self._clients = self._clients, OrderedDict()
            self._limits = limits
            for client, buckets in known.items():
                limit = limits.of(client)
                if limit != ClientLimit():
                    self._clients[client] = _buckets(limit, now, buckets)

    def _of(self, client: str, now: float) -> _Buckets:
        limit = self._limits.of(client)
        if limit == ClientLimit():
            return None, None
        if client not in self._clients:
            self._clients[client] = _buckets(limit, now)
            if len(self._clients) > _MAX_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        return self._clients[client]


def _buckets(limit: ClientLimit, now: float, known: _Buckets = (None, None)) -> _Buckets:
    of_bytes, of_grants = known
    return _bucket(limit.bytes_per_second, now, of_bytes), _bucket(limit.grants_per_second, now, of_grants)


def _bucket(rate: float | None, now: float, known: _Bucket | None) -> _Bucket | None:
    if rate is None:
        return None
    return _Bucket(rate, rate if known is None else min(rate, known.fill(now)), now)


def _rate(value: Any, name: str) -> float:
    return arguments.finite(number(value, float, name), name, 0, _MAX_RATE)


_FIELDS = {"bytes_per_second": _rate, "grants_per_second": _rate}
