"""A partition without known bounds, whose log does not start at 0, is read by the broker from its beginning, and once."""

from __future__ import annotations

from threading import Event
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

from kafka_remote_client import Consumer
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, settings
from tests.support.slow_resumes import after_resumes

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

_LOG_START, _RECORDS = 100, 300
_DELAYS_MS = range(106, 114)
"""Around the moment when librdkafka looks up where to start after an offset was out of range: after 100 ms."""
_LOOK_UP_SECONDS = 0.7
"""Longer than it waits before it repeats a look-up."""


@pytest.fixture
def topic(kafka_broker: KafkaBroker) -> str:
    name = f"deleted-{uuid4()}"
    kafka_broker.create_topic(name)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    for number in range(_RECORDS):
        producer.produce(name, b"%d" % number)
    assert producer.flush(PATIENCE_SECONDS) == 0
    kafka_broker.delete_records(name, _LOG_START)
    return name


@pytest.fixture
def slow_resumes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    return after_resumes(monkeypatch, lambda number: Event().wait(_DELAYS_MS[number] / 1000))


def _offsets_around_a_seek(broker: KafkaBroker, topic: str) -> tuple[list[int], list[int]]:
    """Returns the offsets before and after a seek to the third record."""
    way = {
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        "remote.storage.fetcher.allowed.hosts": "nowhere.invalid",
        "fetch.remote.location.timeout.ms": 1,
    }
    with Consumer(settings(broker.bootstrap_servers, "read_committed", **way)) as consumer:

        def read(count: int) -> list[int]:
            return [message.offset() for message in consumer.consume(count, PATIENCE_SECONDS)]

        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        before = read(31)
        consumer.seek(TopicPartition(topic, 0, _LOG_START + 2, leader_epoch=0))
        after = read(5)
        Event().wait(_LOOK_UP_SECONDS)
        return before, after + read(5)


def test_a_seek_soon_after_the_beginning_is_not_undone(kafka_broker: KafkaBroker, topic: str, slow_resumes: list[int]) -> None:
    """librdkafka went back to the beginning after it if the resumed partition had been fetched at 0, which is out of range."""
    expected = list(range(_LOG_START, _LOG_START + 31)), list(range(_LOG_START + 2, _LOG_START + 12))
    reads = [_offsets_around_a_seek(kafka_broker, topic) for _ in _DELAYS_MS]
    assert reads == [expected] * len(_DELAYS_MS)
    assert set(slow_resumes) == set(range(len(_DELAYS_MS)))
