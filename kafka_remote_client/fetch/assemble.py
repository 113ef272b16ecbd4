"""Builds the engine from a client's configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, MissingExtraError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.location_sources import asks_compacted, build_source, configured_store, reads_the_store, servers
from kafka_remote_client.fetch.storage_formats import RestoringFetcher, installed_formats, readable_formats
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location.sasl_settings import authenticator
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.protocol.tls import context_of_protocol
from kafka_remote_client.registry import check_class_name, check_settings, load_fetcher

__all__ = ["DirectFetchOffError", "build_engine", "required_engine"]

_log = logging.getLogger(__name__)


class DirectFetchOffError(ConfigurationError):
    """Direct fetch cannot work with these settings. A consumer still works, through the brokers."""


def build_engine(
    remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock, metrics: FetchMetrics
) -> FetchEngine | None:
    """Returns the engine, or ``None`` if it is off or cannot work. One log line then gives the reason, and nothing is opened.

    Raises ConfigurationError for a fetcher that does not exist or rejects its settings.
    """
    if not remote.enabled:
        return None
    try:
        return required_engine(remote, inner, clock, metrics)
    except DirectFetchOffError as error:
        _log.warning("direct fetch is off: %s", error)
        return None


def required_engine(remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock, metrics: FetchMetrics) -> FetchEngine:
    """Returns the engine, for an owner that requires one.

    A client with a store needs no fetcher: it reads ranges through the store, as it reads indexes.

    Raises ConfigurationError for a fetcher that does not exist or rejects its settings, and DirectFetchOffError.
    """
    if remote.fetcher_class is None and not reads_the_store(remote):
        check_class_name(remote)
        raise DirectFetchOffError("remote.storage.fetcher.class is not set")
    try:
        sasl = authenticator(inner, clock)
        ssl_context = context_of_protocol(inner)
    except ConfigurationError as error:
        raise DirectFetchOffError(str(error)) from error
    if not servers(remote, inner)[1] and (remote.location_source != "listing" or remote.listing_broker):
        raise DirectFetchOffError("bootstrap.servers is not set")
    installed = installed_formats()
    formats = readable_formats(installed)
    with ExitStack() as undone:
        try:
            # First the checks that can fail, then the parts with connections and threads.
            store = None
            if reads_the_store(remote):
                store = configured_store(remote)
                undone.callback(store.close)
            if store is None or remote.fetcher_class is not None:
                fetcher = load_fetcher(remote, store)
            else:
                check_settings(remote, store)
                fetcher = StoreFetcher(store)
            undone.callback(fetcher.close)
            if remote.cache_directory is not None:
                from kafka_remote_client.fetch.caching_fetcher import cached  # noqa: PLC0415 - only this setting needs it

                fetcher = cached(fetcher, Path(remote.cache_directory), remote, clock, metrics)
            source = build_source(
                remote, inner, clock, store, metrics=metrics, formats=formats, ssl_context=ssl_context, sasl=sasl
            )
        except MissingExtraError as error:
            raise DirectFetchOffError(str(error)) from error
        undone.callback(source.close)
        engine = FetchEngine(
            source,
            RestoringFetcher(fetcher, installed),  # with plugins, which may raise anything
            remote,
            clock=clock,
            metrics=metrics,
            formats=formats,
            compacted=asks_compacted(remote, inner, clock),
        )
        undone.pop_all()
    return engine
