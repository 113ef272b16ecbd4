"""Builds the engine of a consumer from its configuration, or says why there is none."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.engine import DEFAULT_FORMATS, FetchEngine
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.registry import MissingExtraError, load_fetcher

__all__ = ["build_engine", "isolation_level"]

_log = logging.getLogger(__name__)


def isolation_level(config: Mapping[str, object]) -> IsolationLevel:
    """librdkafka's ``isolation.level``; its default is read_committed."""
    text = str(config.get("isolation.level", "read_committed"))
    return IsolationLevel.READ_UNCOMMITTED if text == "read_uncommitted" else IsolationLevel.READ_COMMITTED


def build_engine(
    remote: RemoteFetchConfig, inner: Mapping[str, object], clock: Clock, metrics: FetchMetrics
) -> FetchEngine | None:
    """The engine, or ``None`` with one log line where direct fetch cannot work; the broker path is untouched then.

    Raises ConfigurationError for a fetcher that does not exist or refuses its settings.
    """
    if not remote.enabled:
        return None
    if remote.fetcher_class is None:
        _log.warning("direct fetch is off: remote.storage.fetcher.class is not set")
        return None
    protocol = str(inner.get("security.protocol", "plaintext")).lower()
    if protocol != "plaintext":
        _log.warning("direct fetch is off: locations cannot be asked over security.protocol=%s yet", protocol)
        return None
    bootstrap = remote.bootstrap_servers or inner.get("bootstrap.servers") or inner.get("metadata.broker.list")
    if not bootstrap:
        raise ConfigurationError("bootstrap.servers is not set")
    try:
        fetcher = load_fetcher(remote)
    except MissingExtraError as error:
        _log.warning("direct fetch is off: %s", error)
        return None
    source = BrokerLocationSource(
        str(bootstrap), client_id=str(inner.get("client.id", "rdkafka")), clock=clock, formats=DEFAULT_FORMATS
    )
    return FetchEngine(source, fetcher, remote, clock=clock, metrics=metrics)
