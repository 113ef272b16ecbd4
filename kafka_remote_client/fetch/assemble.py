"""Which engine to build from a client's configuration."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import DEFAULT_FORMATS, FetchEngine
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.protocol.tls import client_context, security_protocol
from kafka_remote_client.registry import MissingExtraError, load_fetcher
from kafka_remote_client.remote_log.aiven.extra import INSTALL, can_decrypt

__all__ = ["build_engine"]

_log = logging.getLogger(__name__)


def build_engine(
    remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock, metrics: FetchMetrics
) -> FetchEngine | None:
    """The engine, or ``None``, with one log line where direct fetch is wanted and cannot work; nothing is touched then.

    Raises ConfigurationError for a fetcher that does not exist or refuses its settings.
    """
    if not remote.enabled:
        return None
    if remote.fetcher_class is None:
        _log.warning("direct fetch is off: remote.storage.fetcher.class is not set")
        return None
    try:
        ssl_context = _tls(inner)
    except ConfigurationError as error:
        _log.warning("direct fetch is off: %s", error)
        return None
    bootstrap = remote.bootstrap_servers or inner.get("bootstrap.servers") or inner.get("metadata.broker.list")
    if not bootstrap:
        raise ConfigurationError("bootstrap.servers is not set")
    # First what can only be refused, then what holds resources.
    formats = _readable_formats()
    client_id = str(inner.get("client.id", "rdkafka"))
    source = BrokerLocationSource(str(bootstrap), client_id=client_id, clock=clock, formats=formats, ssl_context=ssl_context)
    try:
        fetcher = load_fetcher(remote)
    except MissingExtraError as error:
        _log.warning("direct fetch is off: %s", error)
        return None
    # It passes on what is not in chunks, so one that is never offered any costs nothing.
    return FetchEngine(source, ChunkedFetcher(fetcher), remote, clock=clock, metrics=metrics, formats=formats)


def _tls(inner: Mapping[str, object]) -> ssl.SSLContext | None:
    """How location peers are spoken to. Raises ConfigurationError for what only librdkafka can do."""
    protocol = security_protocol(inner)
    if protocol not in ("plaintext", "ssl"):
        raise ConfigurationError(f"locations cannot be asked over security.protocol={protocol} yet")
    return client_context(inner) if protocol == "ssl" else None


def _readable_formats() -> tuple[str, ...]:
    """The storage formats that this process can read, and offers. Logs which it cannot."""
    if can_decrypt():
        return CHUNKED_FORMATS
    _log.info("segments that are kept in chunks are left to the broker; to read them directly: %s", INSTALL)
    return DEFAULT_FORMATS
