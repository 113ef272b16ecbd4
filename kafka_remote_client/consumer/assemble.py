"""What a consumer's configuration says: about librdkafka's own behaviour, and which engine to build from it."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.chunked_fetcher import CHUNKED_FORMATS, ChunkedFetcher
from kafka_remote_client.fetch.engine import DEFAULT_FORMATS, FetchEngine
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.protocol.tls import client_context, security_protocol
from kafka_remote_client.registry import MissingExtraError, load_fetcher
from kafka_remote_client.remote_log.aiven.extra import INSTALL, can_decrypt

__all__ = ["InnerBehaviour", "build_engine"]

_log = logging.getLogger(__name__)

_TRUE = frozenset({"true", "t", "1"})
_FALSE = frozenset({"false", "f", "0"})
_EARLIEST = frozenset({"smallest", "earliest", "beginning"})
_READ_UNCOMMITTED = frozenset({"read_uncommitted"})


@attrs.frozen
class InnerBehaviour:
    """The settings of librdkafka that direct fetch has to act on, with librdkafka's defaults.

    ``stores_offsets``: ``enable.auto.offset.store``, ``None`` for a value that librdkafka will refuse. ``incremental``: whether
    rebalances come as increments. ``announces_ends``: ``enable.partition.eof``.
    """

    stores_offsets: bool | None
    resets_to_earliest: bool
    incremental: bool
    announces_ends: bool
    isolation_level: IsolationLevel

    @classmethod
    def of(cls, config: Mapping[str, object]) -> InnerBehaviour:
        """Reads a configuration, ``default.topic.config`` included."""
        topic_config = config.get("default.topic.config")
        merged = {**(topic_config if isinstance(topic_config, Mapping) else {}), **config}

        def text(name: str, default: str) -> str:
            value = merged.get(name)
            return default if value is None else str(value).lower()

        stores = text("enable.auto.offset.store", "true")
        uncommitted = text("isolation.level", "read_committed") in _READ_UNCOMMITTED
        return cls(
            stores_offsets=stores in _TRUE if stores in _TRUE | _FALSE else None,
            resets_to_earliest=text("auto.offset.reset", "largest") in _EARLIEST,
            incremental="cooperative" in text("partition.assignment.strategy", "")
            or text("group.protocol", "classic") == "consumer",
            announces_ends=text("enable.partition.eof", "false") in _TRUE,
            isolation_level=IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED,
        )


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
