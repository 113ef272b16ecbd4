"""Reads a partition of the real broker to its end, with the plain consumer and with ours, as rows that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias
from uuid import uuid4

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, Message, TopicPartition

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_cluster import KafkaCluster

__all__ = [
    "PATIENCE_SECONDS",
    "PATIENT",
    "PATIENT_ENGINE",
    "UNHURRIED",
    "Row",
    "by_consume",
    "by_poll",
    "direct",
    "plain",
    "read_to_end",
    "row",
    "settings",
    "settings_of",
    "shim_before",
    "total",
]

PATIENCE_SECONDS = 60.0
UNHURRIED: dict[str, Any] = {f"fetch.remote.{what}.bytes.per.second": 0 for what in ("min", "slow")}
"""Accepts any throughput, because on a loaded machine a small range may take seconds, and the broker may seem faster."""

PATIENT: dict[str, Any] = {
    **{f"fetch.remote.{what}.timeout.ms": 60_000 for what in ("location", "read", "connect")},
    "fetch.remote.hedge.max.percent": 0,
    **UNHURRIED,
}
"""Wide enough for a loaded machine, and no GET that depends on times: for tests that allow no fallback, or count GETs."""

PATIENT_ENGINE = RemoteFetchConfig(
    enabled=True,
    location_timeout_ms=60_000,
    read_timeout_ms=60_000,
    connect_timeout_ms=60_000,
    min_bytes_per_second=0,
    slow_bytes_per_second=0,
    hedge_max_percent=0,
)
"""The same for an engine without a consumer."""

Row: TypeAlias = tuple[Any, ...]


@contextmanager
def shim_before(brokers: KafkaBroker | KafkaCluster) -> Iterator[Shim]:
    """A shim that is ready, in front of the real broker, or of three, and the tier."""
    with Shim(ShimConfig(brokers.bootstrap_servers, store=brokers.store_url)) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def settings(bootstrap_servers: str, isolation: str, **more: object) -> dict[str, Any]:
    """The settings of a consumer that reads everything once and reports the ends of partitions."""
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": f"direct-{uuid4()}",
        "auto.offset.reset": "earliest",
        "isolation.level": isolation,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "check.crcs": True,
        "log_level": 0,
        **more,
    }


def direct(shim: Shim, isolation: str, **more: object) -> dict[str, Any]:
    """The same for this project's consumer, which reads from the shim's origin."""
    origin = shim.origin_url
    assert origin is not None
    return settings(
        shim.bootstrap_servers,
        isolation,
        **{
            "fetch.remote.enabled": True,
            "remote.storage.fetcher.class": "presigned",
            "remote.storage.fetcher.allowed.hosts": origin.partition("//")[2],
            "remote.storage.fetcher.allow.http": True,
            "remote.storage.fetcher.allow.private.addresses": True,
            **PATIENT,
            **more,
        },
    )


def settings_of(kind: str, brokers: KafkaBroker | KafkaCluster, shim: Shim, **more: object) -> dict[str, Any]:
    """Returns the settings of a read_committed consumer of a kind (``group_member.KINDS``)."""
    if kind == "plain":
        return settings(brokers.bootstrap_servers, "read_committed", **more)
    return direct(shim, "read_committed", **more, **{"fetch.remote.enabled": kind == "direct"})


def row(message: Message) -> Row:
    """All fields of a record."""
    return (
        message.offset(),
        message.timestamp(),
        message.leader_epoch(),
        message.key(),
        message.value(),
        message.headers(),
    )


def by_poll(consumer: confluent_kafka.Consumer) -> list[Message]:
    message = consumer.poll(1.0)
    return [] if message is None else [message]


def by_consume(consumer: confluent_kafka.Consumer) -> list[Message]:
    return consumer.consume(500, 0.2)


def read_to_end(
    consumer: confluent_kafka.Consumer, take: Callable[[confluent_kafka.Consumer], list[Message]] = by_consume
) -> list[Row]:
    """Everything up to the end of the one assigned partition."""
    rows: list[Row] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while not deadline.expired():
        for message in take(consumer):
            error = message.error()
            if error is None:
                rows.append(row(message))
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                return rows
            else:
                raise AssertionError(error)
    raise AssertionError(f"no end after {len(rows)} records")


def plain(broker: KafkaBroker, topic: str, isolation: str, start: int = OFFSET_BEGINNING) -> list[Row]:
    """Returns the records that confluent's consumer gets from the broker."""
    consumer = confluent_kafka.Consumer(settings(broker.bootstrap_servers, isolation))
    try:
        consumer.assign([TopicPartition(topic, 0, start)])
        return read_to_end(consumer)
    finally:
        consumer.close()


def total(metrics: dict[str, Any], name: str) -> int:
    """A metric that counts."""
    value = metrics[name]
    assert isinstance(value, int)
    return value
