"""Partitions whose log starts above 0 are read from their end, without a committed offset: no record after it is skipped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from threading import Event, Thread, Timer
from uuid import uuid4

import pytest
from confluent_kafka import Producer, TopicPartition

from kafka_remote_client import Consumer
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, settings
from tests.support.slow_resumes import after_resumes
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

_LOG_START = 100
_PARTITIONS = (0, 1)
_FETCHED_SECONDS = 0.06
"""In this time librdkafka fetches a resumed partition at its old offset, if it fetches another one of that broker."""
_LOOKED_UP_SECONDS = 0.16
"""By then it has asked where to continue, because that offset was out of range; 100 ms after it has heard that."""


@pytest.fixture
def growing(restartable_broker: KafkaBroker) -> Iterator[str]:
    """A topic to which records are written all the time, sooner than a consumer that fetches them one by one can follow."""
    topic = f"growing-{uuid4()}"
    restartable_broker.create_topic(topic, partitions=len(_PARTITIONS))
    servers = restartable_broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "batch.num.messages": 1, "log_level": 0})
    ends = Event()

    def write() -> None:
        for partition in _PARTITIONS:
            producer.produce(topic, b"more", partition=partition)

    def write_on() -> None:
        while not ends.wait(0.002):
            producer.poll(0)
            for _ in range(3 if len(producer) < _LOG_START else 0):
                write()

    for _ in range(2 * _LOG_START):
        write()
    assert producer.flush(PATIENCE_SECONDS) == 0
    for partition in _PARTITIONS:
        restartable_broker.delete_records(topic, _LOG_START, partition)
    writer = Thread(target=write_on)
    writer.start()
    yield topic
    ends.set()
    writer.join()
    producer.purge()


@pytest.fixture
def late_seeks(restartable_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The broker's answers to what librdkafka asks after a resume arrive after the seek that follows."""
    pid = restartable_broker.pid

    def hold_answers(_: int) -> None:
        Event().wait(_FETCHED_SECONDS)
        os.kill(pid, signal.SIGSTOP)
        Timer(_LOOKED_UP_SECONDS, os.kill, (pid, signal.SIGCONT)).start()
        Event().wait(_LOOKED_UP_SECONDS - _FETCHED_SECONDS)

    return after_resumes(monkeypatch, hold_answers)


@pytest.mark.parametrize("attempt", range(4))
def test_no_record_after_the_first_is_skipped(
    restartable_broker: KafkaBroker, growing: str, late_seeks: list[int], attempt: int
) -> None:
    """librdkafka looked up the end twice, and went to the second answer after it had delivered records from the first.

    One to three attempts of four found that.
    """
    direct = {
        "fetch.remote.enabled": True,
        "remote.storage.fetcher.class": "presigned",
        "remote.storage.fetcher.allowed.hosts": "nowhere.invalid",
    }
    given = {"auto.offset.reset": "latest", "enable.partition.eof": False, "fetch.message.max.bytes": 1, **direct}
    read: dict[int, list[int]] = {partition: [] for partition in _PARTITIONS}
    with Consumer(settings(restartable_broker.bootstrap_servers, "read_committed", **given)) as consumer:

        def reads(count: int) -> bool:
            for message in consumer.consume(100, 0.05):
                read[message.partition()].append(message.offset())
            return min(map(len, read.values())) >= count

        consumer.assign([TopicPartition(growing, partition) for partition in _PARTITIONS])
        wait_until(lambda: reads(50), "records of each partition", seconds=PATIENCE_SECONDS, pause=0)
    skipped = [(before, after) for offsets in read.values() for before, after in pairwise(offsets) if after != before + 1]
    assert not skipped
    assert late_seeks, "nothing was resumed, so nothing was late"
