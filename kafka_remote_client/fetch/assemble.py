"""Which engine to build from a client's configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.caching_fetcher import with_cache
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import DEFAULT_FORMATS, FetchEngine
from kafka_remote_client.fetch.location_sources import build_source, configured_store, reads_the_store, servers
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location.sasl_settings import authenticator
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

    A client that reads the store itself needs no fetcher's name: ranges are then read as indexes are, through the store.

    Raises ConfigurationError for a fetcher that does not exist or refuses its settings.
    """
    if not remote.enabled:
        return None
    if remote.fetcher_class is None and not reads_the_store(remote):
        _log.warning("direct fetch is off: remote.storage.fetcher.class is not set")
        return None
    try:
        sasl = authenticator(inner, clock)
        ssl_context = client_context(inner) if security_protocol(inner).endswith("ssl") else None
    except ConfigurationError as error:
        _log.warning("direct fetch is off: %s", error)
        return None
    if not servers(remote, inner) and (remote.location_source != "listing" or remote.listing_broker):
        _log.warning("direct fetch is off: bootstrap.servers is not set")
        return None
    formats = _readable_formats()
    with ExitStack() as undone:
        try:
            # First what can only be refused, then what holds connections and threads.
            store = None
            if reads_the_store(remote):
                store = configured_store(remote)
                undone.callback(store.close)
            fetcher = load_fetcher(remote) if store is None or remote.fetcher_class is not None else StoreFetcher(store)
            undone.callback(fetcher.close)
            cached = with_cache(fetcher, remote, clock, metrics)
            source = build_source(remote, inner, clock, store, formats=formats, ssl_context=ssl_context, sasl=sasl)
        except MissingExtraError as error:
            _log.warning("direct fetch is off: %s", error)
            return None
        undone.pop_all()
    # ChunkedFetcher passes on what is not in chunks, so one that is never offered any costs nothing.
    return FetchEngine(source, ChunkedFetcher(cached), remote, clock=clock, metrics=metrics, formats=formats)


def _readable_formats() -> tuple[str, ...]:
    """The storage formats that this process can read, and offers. Logs which it cannot."""
    if can_decrypt():
        return CHUNKED_FORMATS
    _log.info("segments that are kept in chunks are left to the broker; to read them directly: %s", INSTALL)
    return DEFAULT_FORMATS
