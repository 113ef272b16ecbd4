"""The limits of librdkafka's queue apply to records from the broker, with direct fetch on or off."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import (
    direct_settings,
    fill_topic,
    from_broker,
    from_store,
    plain_settings,
    small_cluster,
    take,
    tiers,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
COUNT = 4_000
BATCH = 10
VALUE = 1_000
PAGE = 20_000
"""What one answer of the broker holds: at least one batch, so this and a batch at most."""
WHOLE = BATCH * (VALUE + 100)
LIMITS = {"queued_max_messages_kbytes": 64, "queued_min_messages": COUNT, "fetch_message_max_bytes": PAGE}
FEW = {"queued_min_messages": 50, "fetch_message_max_bytes": PAGE}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A cluster with all records in the local log: nothing is archived."""
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        for _ in range(COUNT // BATCH):
            made.produce(TOPIC, [(None, b"v" * VALUE)] * BATCH)
        yield made


class Reader:
    """A consumer of one kind that reads partition 0 from the start; it records the queue's size from each statistics."""

    def __init__(self, cluster: EmbeddedCluster, kind: str, **limits: object) -> None:
        settings = (plain_settings if kind == "confluent" else direct_settings)(
            cluster, enable_partition_eof=False, statistics_interval_ms=10, **limits
        )
        settings["stats_cb"] = self._count_queued
        if kind == "off":
            settings["fetch.remote.enabled"] = False
        self.queued: list[tuple[int, int]] = []
        self.came = 0
        self.consumer = (confluent_kafka.Consumer if kind == "confluent" else Consumer)(settings)
        self.consumer.assign([TopicPartition(TOPIC, 0, 0)])

    def _count_queued(self, statistics: str) -> None:
        partition: dict[str, Any] = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {})
        if partition:
            self.queued.append((partition["fetchq_cnt"], partition["fetchq_size"]))

    def read(self, call: str, limit: int = 20) -> int:
        """Makes one delivering call; returns the number of records."""
        messages = [self.consumer.poll(0.1)] if call == "poll" else self.consumer.consume(limit, 0.1)
        offsets = [message.offset() for message in messages if message is not None]
        assert offsets == list(range(self.came, self.came + len(offsets)))
        self.came += len(offsets)
        return len(offsets)

    def fill(self, count: int) -> None:
        """Reads one record at a time until the queue has held ``count`` records."""
        wait_until(lambda: self.read("consume", 1) >= 0 and self.most >= count, f"{count} records to wait", pause=0.005)

    @property
    def most(self) -> int:
        """The most records that the queue has held."""
        return max((count for count, _ in self.queued), default=0)


@pytest.fixture(params=["confluent", "off", "on"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("call", ["poll", "consume"])
@pytest.mark.parametrize(("limits", "most"), [(LIMITS, 64 * 1024), (FEW, 50 * (VALUE + 100))], ids=["bytes", "messages"])
def test_a_queue_holds_its_limit_and_one_answer_at_most(
    cluster: EmbeddedCluster, kind: str, call: str, limits: dict[str, object], most: int
) -> None:
    reader = Reader(cluster, kind, fetch_queue_backoff_ms=1, **limits)
    with reader.consumer:
        reader.fill(20)
        wait_until(lambda: reader.read(call) >= 0 and reader.came >= COUNT, "all records", pause=0)
        assert not isinstance(reader.consumer, Consumer) or kind != "on" or from_broker(reader.consumer) == COUNT
    counts, sizes = zip(*reader.queued, strict=True)
    assert 0 < max(sizes) <= most + PAGE + WHOLE
    assert 0 < max(counts) < COUNT // 4


def test_without_limits_of_its_own_the_same_queue_holds_more(cluster: EmbeddedCluster, kind: str) -> None:
    """Shows that the limits, and nothing else, keep the queue small in the other tests."""
    reader = Reader(cluster, kind)
    with reader.consumer:
        reader.fill(COUNT // 4)


def test_a_hand_over_does_not_wait_for_a_full_queue(tmp_path: Path) -> None:
    """librdkafka gets the setting unchanged, and a wait of 300 s would exceed this test's time limit.

    Two messages are the least limit: the next test shows why the hand-over's seek, as any seek, may wait with one.
    """
    messages: list[str] = []
    never = {"fetch_queue_backoff_ms": 300_000, "queued_min_messages": 2, "fetch_message_max_bytes": PAGE}
    with small_cluster(tmp_path) as cluster:
        topic = fill_topic(cluster, TOPIC)
        with Consumer(direct_settings(cluster, debug="conf", **never), logger=_logger(messages)) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            rows = take(consumer, tiers(cluster, topic).earliest_local + 1)
            assert from_store(consumer) == len(rows) - 1 > 100
    assert sum(line.endswith("fetch.queue.backoff.ms = 300000") for line in messages) == 1


def test_a_seek_fills_a_queue_of_one_message_in_every_consumer(cluster: EmbeddedCluster, kind: str) -> None:
    """Each seek, pause and resume queues a barrier (``rd_kafka_toppar_op_version_bump``), and ``rd_kafka_q_len`` counts it.

    ``rd_kafka_toppar_fetch_decide`` then finds ``queued.min.messages`` = 1 reached, if the application has not polled since. At
    the end of the log nothing else is in the queue.
    """
    messages: list[str] = []
    limits = {"fetch_queue_backoff_ms": 1, "queued_min_messages": 1, "enable_partition_eof": False}
    settings = (plain_settings if kind == "confluent" else direct_settings)(cluster, debug="fetch", **limits)
    if kind == "off":
        settings["fetch.remote.enabled"] = False
    end = TopicPartition(TOPIC, 0, COUNT)
    with (confluent_kafka.Consumer if kind == "confluent" else Consumer)(settings, logger=_logger(messages)) as consumer:
        consumer.assign([end])
        wait_until(lambda: consumer.poll(0) is None and f"at offset {COUNT}" in "".join(messages), "the first Fetch")
        messages.clear()

        def filled() -> bool:
            consumer.seek(end)
            wait_until(lambda: consumer.poll(0) is None, "the barrier to be taken", pause=0)
            return any("Queue full" in line for line in messages)

        wait_until(filled, "a seek that fills the queue", pause=0)


def _logger(messages: list[str]) -> logging.Logger:
    logger = logging.getLogger(f"queue-limits-{id(messages)}")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_MessageList(messages))
    return logger


class _MessageList(logging.Handler):
    """A handler that keeps the records."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__()
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())
