"""Topics on the embedded cluster with a known tiered part, and consumers that read them in both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, Message, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster, EmbeddedRecord
from kafka_remote_client.location.broker import BrokerLocationSource
from kafka_remote_client.model import PartitionOffsets, RemoteLogSegmentMetadata
from tests.support.history import History, Produced
from tests.support.reading import UNHURRIED, by_poll
from tests.support.reading import row as row_in_partition
from tests.support.waiting import wait_until

__all__ = [
    "COUNT",
    "PATIENCE_SECONDS",
    "TOPIC",
    "Row",
    "Take",
    "by_consume",
    "by_poll",
    "decide",
    "delete_first_segment",
    "direct_settings",
    "fallbacks",
    "fill_topic",
    "filled_cluster",
    "from_broker",
    "from_store",
    "is_end",
    "note_filled",
    "note_produced",
    "plain_rows",
    "plain_settings",
    "read_messages",
    "read_to_ends",
    "records",
    "row",
    "rows_of",
    "small_cluster",
    "take",
    "tiered_segments",
    "tiers",
]

PATIENCE_SECONDS = 60.0
TOPIC, COUNT = "orders", 300
"""The topic of ``tests/consumer/conftest.py``, and how many records each of its two partitions has."""
_BATCH = 20

Row = tuple[Any, ...]
Take = Callable[..., list[Message]]
"""Takes messages from a consumer; except for ``by_poll`` it also has a limit."""


def small_cluster(directory: Path, **options: Any) -> EmbeddedCluster:
    """Segments of a few dozen records, which leave the broker once they are in the tier."""
    return EmbeddedCluster(directory, **{"segment_bytes": 4_000, "range_bytes": 64 << 10, "expire_local": True, **options})


def records(count: int, name: str = "") -> list[EmbeddedRecord]:
    """Keys and values that are all different; every seventh value is null, every eleventh key."""
    return [
        (None if n % 11 == 5 else b"key-%d" % n, None if n % 7 == 3 else f"{name} value {n} ".encode() * (1 + n % 4))
        for n in range(count)
    ]


def fill_topic(cluster: EmbeddedCluster, topic: str, count: int = 400, partitions: Iterable[int] = (0,)) -> str:
    """Writes ``count`` records to each partition in many batches, and archives the full segments; the rest stays local."""
    for partition in partitions:
        made = records(count, f"{topic}-{partition}")
        for start in range(0, count, _BATCH):
            cluster.produce(topic, made[start : start + _BATCH], partition=partition)
    cluster.archive()
    return topic


def filled_cluster(topic: str, count: int, partitions: Iterable[int] = (0,), **options: Any) -> Any:
    """A fixture of a module: a :func:`small_cluster` with these ``options`` and a topic that :func:`fill_topic` wrote."""

    @pytest.fixture(scope="module")
    def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
        with small_cluster(tmp_path_factory.mktemp("tier"), **options) as made:
            fill_topic(made, topic, count, partitions)
            yield made

    return cluster


def note_filled(history: History, topic: str, count: int, partitions: Iterable[int] = (0,)) -> None:
    """Adds what :func:`fill_topic` wrote."""
    for partition in partitions:
        note_produced(history, topic, partition, range(count), records(count, f"{topic}-{partition}"))


def note_produced(history: History, topic: str, partition: int, offsets: Iterable[int], made: Iterable[EmbeddedRecord]) -> None:
    """Adds records that the broker acknowledged at these offsets."""
    for offset, (key, value) in zip(offsets, made, strict=True):
        history.add(Produced, topic=topic, partition=partition, offset=offset, key=key, value=value)


def delete_first_segment(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> int:
    """Deletes the first tiered segment, as retention does. Returns the new log start."""
    first = tiered_segments(cluster, topic, partition)[0]
    cluster.kafka.delete_records(topic, partition, first.end_offset + 1)
    assert cluster.kafka.expire_now(topic) == 1
    return first.end_offset + 1


def tiered_segments(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> list[RemoteLogSegmentMetadata]:
    """The segments of a partition that are in the tier, by their start offset."""
    kafka: Any = cluster.kafka
    remote = kafka._topics.partition(topic, partition).remote
    return sorted(remote.segments.values(), key=lambda one: one.start_offset)


def tiers(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> PartitionOffsets:
    source = BrokerLocationSource(cluster.bootstrap_servers, client_id="tests", clock=SystemClock())
    try:
        return source.offsets(topic, partition, Deadline(SystemClock(), PATIENCE_SECONDS))
    finally:
        source.close()


def plain_settings(cluster: EmbeddedCluster, **more: object) -> dict[str, Any]:
    """Returns settings for either consumer; ``_`` in a setting's name stands for ``.``."""
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": f"group-{uuid4()}",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 100,
        "log_level": 0,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def direct_settings(cluster: EmbeddedCluster, **more: object) -> dict[str, Any]:
    return {
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        "remote.storage.fetcher.allowed.hosts": cluster.origin_url.partition("//")[2],
        "remote.storage.fetcher.allow.http": True,
        "remote.storage.fetcher.allow.private.addresses": True,
        # Wide enough for a loaded machine: the tests are about the records and their tier.
        "fetch.remote.location.timeout.ms": 20_000,
        "fetch.remote.read.timeout.ms": 20_000,
        **UNHURRIED,
        **plain_settings(cluster, **more),
    }


def decide(consumer: Consumer) -> None:
    """Waits until the tier of every assigned partition is known, without delivering records."""

    def decided() -> bool:
        with consumer._direct_gate:
            consumer._direct_routing.decide(0.0)
            return not consumer._direct_flows.routes.undecided

    wait_until(decided, "all routes", seconds=PATIENCE_SECONDS)


def row(message: Message) -> Row:
    """All fields of a record."""
    return (message.topic(), message.partition(), *row_in_partition(message))


def by_consume(consumer: confluent_kafka.Consumer, limit: int = 50) -> list[Message]:
    return consumer.consume(limit, 0.1)


def is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def rows_of(messages: Sequence[Message]) -> list[Row]:
    """Returns the rows of messages, none of which is an error."""
    for message in messages:
        assert message.error() is None, message.error()
    return [row(message) for message in messages]


def take(consumer: confluent_kafka.Consumer, count: int, one: Take = by_consume) -> list[Row]:
    """Returns exactly the next ``count`` records, without ends of partitions."""
    rows: list[Row] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while len(rows) < count:
        assert not deadline.expired(), f"{len(rows)} of {count} records came"
        batch = one(consumer) if one is by_poll else one(consumer, count - len(rows))
        rows += rows_of([message for message in batch if not is_end(message)])
    return rows


def read_to_ends(consumer: confluent_kafka.Consumer, one: Take = by_consume) -> dict[tuple[str, int], list[Row]]:
    """Returns all records by partition, until each assigned partition has reported its end."""
    rows: dict[tuple[str, int], list[Row]] = {}
    ended: set[tuple[str, int]] = set()
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    while not ended or any((tp.topic, tp.partition) not in ended for tp in consumer.assignment()):
        assert not deadline.expired(), f"only {ended} ended"
        for message in one(consumer):
            key = str(message.topic()), int(message.partition() or 0)
            if is_end(message):
                assert key not in ended, "a partition may end once"
                ended.add(key)
            else:
                rows.setdefault(key, []).extend(rows_of([message]))
    return rows


def plain_rows(cluster: EmbeddedCluster, topic: str, partition: int = 0, **more: object) -> list[Row]:
    """Returns the records that confluent_kafka.Consumer reads from a partition."""
    return rows_of(read_messages(cluster, topic, partition, **more))


def read_messages(cluster: EmbeddedCluster, topic: str, partition: int = 0, **more: object) -> list[Message]:
    """Returns the messages that confluent_kafka.Consumer reads from a partition, up to its end."""
    consumer = confluent_kafka.Consumer(plain_settings(cluster, **more))
    messages: list[Message] = []
    deadline = Deadline(SystemClock(), PATIENCE_SECONDS)
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while not (messages and is_end(messages[-1])):
            assert not deadline.expired(), f"{topic}-{partition} has no end"
            messages += by_consume(consumer)
        return messages[:-1]
    finally:
        consumer.close()


def from_store(consumer: Consumer) -> int:
    count = consumer.metrics()["remote-fetch-records-total"]
    assert isinstance(count, int)
    return count


def from_broker(consumer: Consumer) -> int:
    count = consumer.metrics()["broker-fetch-records-total"]
    assert isinstance(count, int)
    return count


def fallbacks(consumer: Consumer) -> dict[str, int]:
    counts = consumer.metrics()["remote-fetch-fallbacks-total"]
    assert isinstance(counts, dict)
    return counts
