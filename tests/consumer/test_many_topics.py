"""Many topics and a few tiered partitions, over connections with a slow answer to each request."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.connection import BrokerConnection
from tests.support.embedded_topics import (
    direct_settings,
    fallbacks,
    fill_topic,
    from_broker,
    small_cluster,
    take,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

BESIDE = [f"beside-{number}" for number in range(120)]
TIERED = [("tiered-a", n) for n in range(4)] + [("tiered-b", n) for n in range(4)]
COUNT = 40
SECONDS_PER_REQUEST = 0.1
TIMEOUT_MS = 10_000  # one topic at a time would take 12 s


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier"), segment_bytes=500) as made:
        for topic in ("tiered-a", "tiered-b"):
            fill_topic(made, topic, COUNT, partitions=range(4))
        for topic in BESIDE:
            made.kafka.create_topic(topic)
        yield made


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Counts the requests per API; the answers of each API are delayed."""
    counted: Counter[int] = Counter()
    send_receive = BrokerConnection.send_receive

    def late(self: BrokerConnection, api_key: int, *args: Any) -> memoryview:
        counted[api_key] += 1
        threading.Event().wait(SECONDS_PER_REQUEST)
        return send_receive(self, api_key, *args)

    monkeypatch.setattr(BrokerConnection, "send_receive", late)
    return counted


def test_many_topics_leave_tiered_partitions_to_the_store(cluster: EmbeddedCluster, requests: Counter[int]) -> None:
    beside = [TopicPartition(topic, 0, 0) for topic in BESIDE]
    with Consumer(direct_settings(cluster, fetch_remote_location_timeout_ms=TIMEOUT_MS)) as consumer:
        consumer.assign([*beside, *(TopicPartition(topic, number, 0) for topic, number in TIERED)])
        wait_until(lambda: _read_directly(consumer) == set(TIERED), "the routes to be decided", pause=0)
        first = requests.copy()
        take(consumer, len(TIERED))
        assert (from_broker(consumer), fallbacks(consumer)) == (0, {})
    assert first[ApiKey.METADATA] == 2, "about 32 of 128 partitions, and about the rest"
    # Each has four requests for offsets. A read that has begun meanwhile asks again, for all partitions at once.
    assert 2 * 4 <= first[ApiKey.LIST_OFFSETS] <= 3 * 4


def _read_directly(consumer: Any) -> set[tuple[str, int]]:
    """The partitions whose route is the store. Delivering calls decide the routes."""
    consumer.poll(0.01)
    return {flow.key for flow in consumer._direct_flows if flow.route is Route.REMOTE}
