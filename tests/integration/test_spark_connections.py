"""A stream on real Spark opens its connections once: micro-batches open none, for any duration of the query."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from tests.support.embedded_topics import fill_topic
from tests.support.spark import SparkDriver
from tests.support.spark_tailing import CLIENT_ID

# The first test waits for the session.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(580)]

JOBS = "tests.support.spark_tailing"
COUNT = 400
"""Records of each of the two partitions at the start, most of them tiered."""
BATCHES = 20
LONGER_THAN_SECONDS = 12.0
"""The time that a shim gives to a client to be admitted is over by then."""


def test_micro_batches_open_no_connections(spark_newest: SparkDriver, tmp_path: Path) -> None:
    with EmbeddedCluster(tmp_path / "tier", segment_bytes=20_000, expire_local=True) as cluster:
        topic = fill_topic(cluster, "stream", COUNT, partitions=(0, 1))
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "assign": f'{{"{topic}":[0,1]}}',
            "startingOffsets": "earliest",
            "fetch.remote.bootstrap.servers": cluster.bootstrap_servers,
            "remote.storage.fetcher.allowed.hosts": cluster.origin_url.partition("//")[2],
            "remote.storage.fetcher.allow.http": "true",
            "remote.storage.fetcher.allow.private.addresses": "true",
        }

        def opened() -> list[str]:
            return [client for client in cluster.clients() if not client.endswith(f" {CLIENT_ID}")]

        produced = {"bootstrap_servers": cluster.bootstrap_servers, "topic": topic}
        assert sum(spark_newest(f"{JOBS}:begin", options=options, checkpoint=str(tmp_path / "checkpoint"))) == 2 * COUNT
        try:
            # Each Python worker of the session opens its own, also those to coordinators of groups, which come late.
            spark_newest(f"{JOBS}:advance", **produced, times=3, seconds=5.0)
            first = opened()
            batches = spark_newest(f"{JOBS}:advance", **produced, times=BATCHES, seconds=LONGER_THAN_SECONDS)
            assert len(batches) >= BATCHES
            assert sum(batches) == BATCHES * 10
            assert opened() == first
        finally:
            spark_newest(f"{JOBS}:end")
