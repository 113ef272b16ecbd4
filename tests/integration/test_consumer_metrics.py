"""The metrics of a consumer on a real broker agree with what was read, in each way to show them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry

from kafka_remote_client import Consumer
from kafka_remote_client.exporters.opentelemetry import observe
from kafka_remote_client.exporters.prometheus import FetchCollector
from kafka_remote_client.metrics import BY_BOUND, BY_CAUSE, BY_PARTITION
from kafka_remote_client.shim.config import ShimConfig
from kafka_remote_client.shim.server import Shim
from tests.support.embedded_topics import decide
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, total
from tests.support.waiting import wait_until

pytestmark = pytest.mark.broker

_HEADINGS = {
    *("request-total", "request-rate", "bytes-total", "bytes-rate", "latency-avg", "latency-max", "errors-total"),
    *("fallbacks-total", "over-read-bytes-total", "chunk-cache-hits-total"),
    *("partition-tier", "partition-local-log-start-lag"),
}
"""What KIP-1254 has a heading for, and what users ask for beside it."""
_BY_TIME = ("-rate", "-avg", "-max")


@pytest.fixture
def shim(kafka_broker: KafkaBroker) -> Iterator[Shim]:
    config = ShimConfig(kafka_broker.bootstrap_servers, store=kafka_broker.store_url, range_bytes=64 << 10)
    with Shim(config) as running:
        assert running.wait_ready(PATIENCE_SECONDS)
        yield running


def read_to_end(consumer: Consumer) -> list[Message]:
    """Returns all records up to the end of the one assigned partition."""
    records: list[Message] = []
    while True:
        for message in consumer.consume(100, 1.0):
            error = message.error()
            if error is None:
                records.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF
                return records


def counted(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the metrics without those that change with time."""
    return {name: value for name, value in metrics.items() if not name.endswith(_BY_TIME)}


def test_metrics_report_records_by_tier_and_requests_to_the_store(
    kafka_broker: KafkaBroker, wide_topic: str, shim: Shim
) -> None:
    here, local = f"{wide_topic}-0", kafka_broker.offsets(wide_topic).earliest_local
    with Consumer(direct(shim, "read_committed")) as consumer:
        assert {f"remote-fetch-{heading}" for heading in _HEADINGS} <= consumer.metrics().keys()
        consumer.assign([TopicPartition(wide_topic, 0, OFFSET_BEGINNING)])
        decide(consumer)
        assert consumer.metrics()["remote-fetch-partition-tier"] == {here: 1}
        assert consumer.metrics()["remote-fetch-partition-local-log-start-lag"] == {here: local}
        records = read_to_end(consumer)
        metrics = consumer.metrics()
        direct_ones = [message for message in records if (message.offset() or 0) < local]
        assert [message for message in records if consumer.tier(message) == "remote"] == direct_ones
        assert metrics["remote-fetch-partition-tier"] == {here: 0}
        assert metrics["remote-fetch-partition-local-log-start-lag"] == {here: 0}
    assert total(metrics, "remote-fetch-records-total") == len(direct_ones)
    assert total(metrics, "broker-fetch-records-total") == len(records) - len(direct_ones)
    payload = sum(len(message.key() or b"") + len(message.value() or b"") for message in direct_ones)
    assert total(metrics, "remote-fetch-record-bytes-total") >= payload
    # The origin counts bytes after it has sent them.
    wait_until(lambda: shim.metrics()["origin_bytes"] >= total(metrics, "remote-fetch-bytes-total"), "the origin's count")
    served = shim.metrics()
    assert total(metrics, "remote-fetch-request-total") == served["origin_requests"] > 5
    assert total(metrics, "remote-fetch-bytes-total") == served["origin_bytes"]
    assert total(metrics, "remote-fetch-location-request-total") >= served["locations_granted"] > 0
    assert metrics["remote-fetch-errors-total"] == metrics["remote-fetch-fallbacks-total"] == {}
    rates = {name: metrics[name] for name in metrics if name.endswith(_BY_TIME)}
    assert all(isinstance(rate, float) and rate > 0 for rate in rates.values()), rates
    assert rates["remote-fetch-latency-avg"] <= rates["remote-fetch-latency-max"]


def test_statistics_prometheus_and_opentelemetry_show_the_same_numbers(
    kafka_broker: KafkaBroker, wide_topic: str, shim: Shim
) -> None:
    told: list[dict[str, Any]] = []
    reader, registry, collector = InMemoryMetricReader(), CollectorRegistry(), FetchCollector()
    registry.register(collector)
    provider = MeterProvider([reader])
    more = {"stats_cb": lambda text: told.append(json.loads(text)), "statistics.interval.ms": 50}
    with Consumer(direct(shim, "read_committed", **more)) as consumer:
        collector.add(consumer, "reader")
        observe(provider.get_meter("tests"), consumer)
        consumer.assign([TopicPartition(wide_topic, 0, OFFSET_BEGINNING)])
        read_to_end(consumer)
        consumer.pause([TopicPartition(wide_topic, 0)])  # nothing more is counted from here on
        expected = counted(consumer.metrics())
        told.clear()
        wait_until(lambda: consumer.poll(0) is None and bool(told), "statistics", pause=0.02)
        by_prometheus = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in registry.collect()
            for sample in family.samples
            if not sample.name.endswith(("_rate", "_avg", "_max"))
        }
        data = reader.get_metrics_data()
        provider.shutdown()
    assert told[-1]["type"] == "consumer"
    assert counted(told[-1]["remote_fetch"]) == expected
    instruments = {} if data is None else {one.name: one for one in data.resource_metrics[0].scope_metrics[0].metrics}
    for name, value in expected.items():
        points = list(instruments[f"kafka.{name}"].data.data_points) if f"kafka.{name}" in instruments else []
        prometheus = f"kafka_{name.replace('-', '_')}"
        if name in BY_PARTITION:
            number = value[f"{wide_topic}-0"]
            labels = ("client", "reader"), ("partition", "0"), ("topic", wide_topic)
            assert {(one.attributes["topic"], one.attributes["partition"]): one.value for one in points} == {
                (wide_topic, "0"): number
            }
            assert by_prometheus[prometheus, *labels] == number
        elif name in BY_BOUND:
            assert {one.attributes["le"]: one.value for one in points} == value
            assert {le: by_prometheus[prometheus, ("client", "reader"), ("le", le)] for le in value} == value
            assert value["+Inf"] > 0
        elif name.endswith("-seconds-sum"):
            assert [one.value for one in points] == [value]
            assert by_prometheus[prometheus, ("client", "reader")] == value > 0
        elif name in BY_CAUSE:
            assert (value, points) == ({}, [])
        else:
            assert [one.value for one in points] == [value]
            assert by_prometheus[prometheus, ("cause", ""), ("client", "reader")] == value
