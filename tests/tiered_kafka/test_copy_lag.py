"""A direct read is the plain one wherever delayed upload (KIP-1241) lets the tier end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from kafka_remote_client.tiered_kafka import TieredCluster
from tests.support.reading import direct, read_to_end, total
from tests.tiered_kafka.clients import plain, produce, values

NEVER, AT_ONCE, SOME_BYTES = "-1", "0", "12000"
LAGS = {
    "at-once": {"remote.copy.lag.ms": AT_ONCE, "remote.copy.lag.bytes": NEVER},
    "some-bytes": {"remote.copy.lag.ms": NEVER, "remote.copy.lag.bytes": SOME_BYTES},
    "never": {"remote.copy.lag.ms": NEVER, "remote.copy.lag.bytes": NEVER},
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[TieredCluster]:
    with TieredCluster(partitions=1, segment_bytes=4096) as running:
        yield running


def test_a_read_crosses_from_the_tier_to_the_broker_at_any_lag(cluster: TieredCluster) -> None:
    from_store = {}
    for name, lags in LAGS.items():
        cluster.create_topic(name, settings={**lags, "local.retention.bytes": "1"})
        produce(cluster, name, 400)
        cluster.tier_now(name)
    with Shim(ShimConfig(cluster.bootstrap_servers, store=cluster.store.url)) as shim:
        assert shim.wait_ready(60)
        for name in LAGS:
            with Consumer(direct(shim, "read_committed")) as consumer:
                consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
                rows = read_to_end(consumer)
                from_store[name] = total(consumer.metrics(), "remote-fetch-records-total")
            assert rows == plain(cluster, name)
            assert values(rows) == [*range(400)]
    assert from_store["at-once"] > from_store["some-bytes"] > from_store["never"] == 0
