"""The code of Spark's tasks, without Spark: splits of a real tier by every location source equal a plain consumer."""

from __future__ import annotations

import logging
import pickle
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kafka_remote_client.clock import SystemClock
from kafka_remote_client.location.tier_source import TierLocationSource
from kafka_remote_client.spark.offsets.admin_cluster import AdminCluster
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.planning.batch_plan import batch_ranges, learn_segments
from kafka_remote_client.spark.reading.task_engine import TaskEngines
from kafka_remote_client.spark.source.datasource import KafkaRemoteDataSource
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import Row, plain
from tests.support.scenario import TransactionalTopic
from tests.support.spark_topics import directly, small_grants_shim

pytestmark = pytest.mark.broker


def read(options: dict[str, str]) -> tuple[int, list[Row]]:
    """The number of splits, and offset, key and value of all rows. Reader and splits go through a pickle, as in Spark."""
    reader = KafkaRemoteDataSource(options).reader(None)
    travelled, partitions = pickle.loads(pickle.dumps((reader, reader.partitions())))
    batches = [records for partition in partitions for records in travelled.read(partition)]
    return len(partitions), [(row["offset"], row["key"], row["value"]) for found in batches for row in found.to_pylist()]


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("source", ["broker", "metadata-topic", "listing"])
def test_splits_of_every_location_source_equal_a_plain_consumer(
    transactional_topic: TransactionalTopic,
    kafka_broker: KafkaBroker,
    caplog: pytest.LogCaptureFixture,
    source: str,
    isolation: str,
) -> None:
    topic = transactional_topic.topic
    expected = [(offset, key, value) for offset, _, _, key, value, _ in plain(kafka_broker, topic, isolation)]
    with small_grants_shim(kafka_broker) as shim, caplog.at_level(logging.WARNING, "kafka_remote_client.spark"):
        options = directly(shim, subscribe=topic, minPartitions="5", **{"kafka.isolation.level": isolation})
        if source != "broker":
            options |= {
                "kafka.bootstrap.servers": kafka_broker.bootstrap_servers,
                "fetch.remote.location.source": source,
                "remote.storage.store.url": kafka_broker.store_url,
                "remote.storage.store.layout": "local",
            }
            options = {name: value for name, value in options.items() if not name.startswith("remote.storage.fetcher.")}
        splits, rows = read(options)
        asked = shim.metrics().get("locations_granted", 0)
    assert rows == expected
    assert splits >= 5
    assert (asked > 0) == (source == "broker")
    taken_over = [record.getMessage() for record in caplog.records if "the broker takes over" in record.getMessage()]
    # Only the end of the tier needs the broker; there is no fallback before it.
    tiered_end = transactional_topic.offsets.latest_tiered + 1
    assert [line for line in taken_over if int(line.split("offset ")[1].split(":")[0]) < tiered_end] == []


@pytest.mark.parametrize("source", ["metadata-topic", "listing"])
def test_a_plan_without_a_shim_lists_all_segments(
    transactional_topic: TransactionalTopic, kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    topic = transactional_topic.topic
    logs = Path(urlsplit(kafka_broker.store_url).path).rglob(f"*{topic}-0-*/*.log")
    named = sorted(int(found[1]) for found in (re.match(r"(\d{20})-", log.name) for log in logs) if found)
    starts = [max(start, transactional_topic.offsets.log_start) for start in named]  # older records are deleted
    options = parse_options(
        {
            "kafka.bootstrap.servers": kafka_broker.bootstrap_servers,
            "subscribe": topic,
            "fetch.remote.location.source": source,
            "fetch.remote.location.timeout.ms": "60000",
            "remote.storage.store.url": kafka_broker.store_url,
            "remote.storage.store.layout": "local-tiered-storage",
        }
    )
    monkeypatch.delattr(TierLocationSource, "locate")  # a request would be a warning, and no segment
    cluster, engines = AdminCluster(options, SystemClock()), TaskEngines()
    try:
        (found,) = learn_segments(options, batch_ranges(options, cluster), reads=False, engines=engines)
    finally:
        engines.close()
        cluster.close()
    assert len(starts) > 3
    assert [span.start for span in found.segments] == starts
    assert all(one.end == following.start for one, following in pairwise(found.segments))
    assert found.segments[-1].end == found.tiered_end == transactional_topic.offsets.latest_tiered + 1
