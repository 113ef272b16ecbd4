from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.statistics import partition_metrics
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.model import PartitionOffsets
from tests.support.embedded_topics import decide, direct_settings, fill_topic, read_to_ends, small_cluster, take, tiers

TIER, LAG = "remote-fetch-partition-tier", "remote-fetch-partition-local-log-start-lag"
BOUNDS = PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150)


def flow(partition: int, next_offset: int, route: Route, offsets: PartitionOffsets = BOUNDS) -> PartitionFlow:
    made = PartitionFlow("orders", partition, next_offset)
    made.route, made.offsets = route, offsets
    return made


def test_tiers_and_lags_are_told_by_partition() -> None:
    flows = [flow(0, 30, Route.REMOTE), flow(1, 120, Route.BROKER), flow(12, 60, Route.BROKER)]
    assert partition_metrics(flows) == {
        TIER: {"orders-0": 1, "orders-1": 0, "orders-12": 0},
        LAG: {"orders-0": 70, "orders-1": 0, "orders-12": 40},
    }


def test_unknown_lags_are_omitted() -> None:
    flows = [flow(0, 30, Route.BROKER, PartitionOffsets()), flow(1, OFFSET_BEGINNING, Route.BROKER)]
    assert partition_metrics(flows) == {TIER: {"orders-0": 0, "orders-1": 0}, LAG: {}}


class TestConsumer:
    pytestmark = pytest.mark.embedded

    @pytest.fixture
    def cluster(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
        with small_cluster(tmp_path_factory.mktemp("tier")) as made:
            fill_topic(made, "orders", 200)
            yield made

    def test_a_consumer_reports_the_lag_of_its_partitions(self, cluster: EmbeddedCluster) -> None:
        local_start = tiers(cluster, "orders").earliest_local
        with Consumer(direct_settings(cluster)) as consumer:
            assert consumer.metrics()[TIER] == {}
            consumer.assign([TopicPartition("orders", 0, 0)])
            decide(consumer)
            assert consumer.metrics()[TIER] == {"orders-0": 1}
            assert consumer.metrics()[LAG] == {"orders-0": local_start}
            take(consumer, 20)
            assert consumer.metrics()[LAG] == {"orders-0": local_start - 20}
            read_to_ends(consumer)
            assert consumer.metrics()[TIER] == {"orders-0": 0}
            assert consumer.metrics()[LAG] == {"orders-0": 0}
        assert consumer.metrics()[TIER] == {}
