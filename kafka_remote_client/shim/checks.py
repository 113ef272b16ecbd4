"""Checks of a shim's dependencies: brokers, store, layout, metadata topic. Each check returns a problem or ``None``.

``kafka-remote shim --check`` runs all of them once. The management listener runs those of brokers and store on demand.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing
from itertools import islice

from confluent_kafka import Consumer, KafkaException

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.errors import ClientCertificateError, ConfigurationError, DirectFetchError, LocationError
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.shim.bootstrap_servers import BootstrapServers, with_patience
from kafka_remote_client.shim.certificate_dates import certificate_dates
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.tls import broker_context, listener_context

__all__ = ["check_brokers", "check_metadata_topic", "check_shim", "check_store"]

_CLIENT_ID = "kafka-remote-shim"
_SAMPLE = 1_000
_OWN_CERTIFICATE = (
    "; the broker asks for a client certificate, and the shim cannot forward those of its clients: see --allow-shared-identity"
)


def check_shim(config: ShimConfig, clock: Clock) -> Iterator[str]:
    """Returns all problems with the parts that the settings name. Raises ConfigurationError for invalid settings."""
    listener_context(config)
    dates = certificate_dates(config.ssl_certificate)
    found = None if dates is None else dates.problem(clock.time_ms())
    if found is not None:
        yield found
    found = check_brokers(config, clock, broker_context(config), BootstrapServers(config.upstream))
    if found is not None:
        yield found
    if config.store is None:
        return
    layout = layout_named(config.layout, LayoutOptions(config.key_prefix, config.encryption_keys))
    with closing(load_store(config.store, config.store_options)) as store:
        check_store_options(config.store_options, store)
        found = check_store(store, layout)
        if found is not None:
            yield found
    found = check_metadata_topic(config)
    if found is not None:
        yield found


def check_brokers(config: ShimConfig, clock: Clock, context: ssl.SSLContext | None, servers: BootstrapServers) -> str | None:
    """Checks that one of the servers answers ApiVersions, which needs no authentication. Those that do not come last then."""
    why, hint = "", ""
    for (host, port), seconds in with_patience(servers.in_order(), config):
        connection = BrokerConnection(
            host, port, client_id=_CLIENT_ID, clock=clock, connect_timeout=seconds, ssl_context=context
        )
        body = api_versions.encode_request(api_versions.ApiVersionsRequest(), 0)
        try:
            connection.send_receive(ApiKey.API_VERSIONS, 0, body, Deadline(clock, seconds))
        except LocationError as error:
            why = str(error)
            hint = _OWN_CERTIFICATE if isinstance(error, ClientCertificateError) else ""
            servers.failed((host, port))
        else:
            return None
        finally:
            connection.close()
    return f"no broker answers: {why}{hint}"


def check_store(store: RemoteObjectStore, layout: ObjectLayout) -> str | None:
    """Checks that the store can be listed, and has objects of the layout if it has any. An empty store passes."""
    try:
        keys = [found.key for found in islice(store.list(layout.prefix_of()), _SAMPLE)]
    except (DirectFetchError, OSError) as error:
        return f"the store cannot be read: {error}"
    if keys and not any(layout.topic_of(key) for key in keys):
        return f"the store holds objects, but none of the first {len(keys)} has a name of the layout {layout.name}"
    return None


def check_metadata_topic(config: ShimConfig) -> str | None:
    """Checks that the follower's principal can read the metadata topic, within the connect time-out."""
    try:
        consumer = Consumer(
            {"log_level": 0, **config.follower_settings, "group.id": _CLIENT_ID, "allow.auto.create.topics": False}
        )
    except KafkaException as error:
        raise ConfigurationError(f"metadata_consumer: {error.args[0].str()}") from None
    try:
        topic = consumer.list_topics(config.metadata_topic, timeout=config.connect_timeout).topics[config.metadata_topic]
    except KafkaException as error:
        return f"the metadata topic {config.metadata_topic} cannot be read: {error.args[0].str()}"
    finally:
        consumer.close()
    if topic.error is not None:
        return f"the metadata topic {config.metadata_topic} cannot be read: {topic.error.str()}"
    if not topic.partitions:
        return f"the metadata topic {config.metadata_topic} has no partitions"
    return None
