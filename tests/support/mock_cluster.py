"""librdkafka's in-process mock cluster: a broker without Java, for one test at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

__all__ = ["mock_cluster"]

_SECONDS = 30


@contextmanager
def mock_cluster(topic: str, values: list[bytes]) -> Iterator[tuple[str, int]]:
    """The address of a mock broker that holds ``values`` in partition 0 of ``topic``, from offset 0 on, one per batch."""
    producer = Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "batch.num.messages": 1, "log_level": 0})
    producer.list_topics(topic, timeout=_SECONDS)
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(_SECONDS) == 0
    (broker,) = producer.list_topics(timeout=_SECONDS).brokers.values()
    yield broker.host, broker.port
