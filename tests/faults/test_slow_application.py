"""F72: memory for a slow application stays within the limits of its settings."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.fetch.memory import MemoryBudget
from tests.support.embedded_topics import PATIENCE_SECONDS, direct_settings, fallbacks, small_cluster, tiers
from tests.support.reading import total
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

TOPIC = "orders"
VALUE = 8_000
BATCH = 100
COUNT = 2_400
"""Records of 19 MB in total, several times the memory limit."""
BUFFER = 4 << 20
"""The smallest permitted value."""
GATHERED = 4 << 20
"""The largest slice of poll() (consumer/deliveries.py)."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier"), segment_bytes=1 << 20) as made:
        for batch in range(COUNT // BATCH):
            made.produce(TOPIC, [(None, b"%d" % (batch % 10) * VALUE)] * BATCH)
            made.archive()
        yield made


@pytest.fixture
def most(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The most that was held at any time."""
    most, force = [0], MemoryBudget.force

    def counted(self: MemoryBudget, size: int) -> None:
        force(self, size)
        most[0] = max(most[0], self.held)

    monkeypatch.setattr(MemoryBudget, "force", counted)
    return most


@pytest.mark.fault("F72")
@pytest.mark.parametrize("call", ["poll", "consume"])
def test_memory_stays_within_the_limits(cluster: EmbeddedCluster, most: list[int], call: str) -> None:
    local = tiers(cluster, TOPIC).earliest_local
    assert local * VALUE > 3 * BUFFER
    queued: list[int] = []
    settings = direct_settings(
        cluster,
        fetch_remote_buffer_memory=BUFFER,
        fetch_remote_range_bytes=1 << 20,
        queued_max_messages_kbytes=64,
        statistics_interval_ms=100,  # a call of librdkafka does not return while they arrive faster than the callback takes
    )
    with Consumer({**settings, "stats_cb": lambda text: queued.append(_queued(text))}) as consumer:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        offset = 0
        while offset < local:
            if offset % 200 == 0:  # the application is slow, so reading ahead reaches its limit
                wait_until(lambda: not consumer._direct_engine._scheduler.in_flight, "nothing to be on its way", pause=0.01)
            messages = [consumer.poll(PATIENCE_SECONDS)] if call == "poll" else consumer.consume(min(50, local - offset), 1)
            for message in messages:
                assert message is not None
                assert (message.error(), message.offset()) == (None, offset)
                offset += 1
            counts = consumer.metrics()
            assert total(counts, "remote-fetch-buffer-bytes") <= BUFFER
            assert total(counts, "remote-fetch-record-bytes-total") - offset * VALUE <= BUFFER + GATHERED
        assert fallbacks(consumer) == {}
    assert 0 < most[0] <= BUFFER
    assert set(queued) == {0}, "the inner consumer fetched records of a partition that is read directly"


def _queued(statistics: str) -> int:
    """Bytes in librdkafka's queue of the partition."""
    partitions = json.loads(statistics)["topics"].get(TOPIC, {}).get("partitions", {})
    return partitions.get("0", {}).get("fetchq_size", 0)
