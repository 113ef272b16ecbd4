"""A thousand assigned partitions, all read directly: memory stays within its budget, and each partition makes progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.consumer.message_positions import key_of
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import decide, direct_settings, fallbacks, small_cluster

pytestmark = pytest.mark.embedded

TOPICS = 250
PARTITIONS = 4
BUDGET = 4 << 20
DECODED = 64 << 10
"""What is decoded may be somewhat larger than its range; the next range waits for it."""
SECONDS = 250.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier"), segment_bytes=4_000) as made:
        for topic in range(TOPICS):
            for partition in range(PARTITIONS):
                for batch in range(2):
                    made.produce(f"wide-{topic}", [(None, b"%d" % batch * 800)] * 10, partition=partition)
        made.archive()
        yield made


def test_a_thousand_partitions_all_move_within_the_budget(cluster: EmbeddedCluster) -> None:
    patient = {"fetch_remote_location_timeout_ms": 60_000, "fetch_remote_pending_timeout_ms": int(SECONDS * 1000)}
    settings = direct_settings(cluster, fetch_remote_buffer_memory=BUDGET, enable_partition_eof=False, **patient)
    assigned = [TopicPartition(f"wide-{topic}", number, 0) for topic in range(TOPICS) for number in range(PARTITIONS)]
    deadline = Deadline(SystemClock(), SECONDS)
    seen: Counter[tuple[str, int]] = Counter()
    with Consumer(settings) as consumer:
        consumer.assign(assigned)
        decide(consumer)
        assert {flow.route for flow in consumer._direct_flows} == {Route.REMOTE}
        while len(seen) < len(assigned):
            assert not deadline.expired(), f"{len(seen)} of {len(assigned)} partitions moved"
            one = consumer.poll(0.1)
            for message in [*([] if one is None else [one]), *consumer.consume(500, 0.1)]:
                assert message.error() is None
                assert message.offset() == seen[key_of(message)]
                seen[key_of(message)] += 1
            assert consumer._direct_engine.memory.held <= BUDGET + DECODED
        assert fallbacks(consumer) == {}
