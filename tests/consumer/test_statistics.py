"""The statistics that an application gets, compared with those of confluent_kafka's own consumer."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.statistics import complete_statistics, with_metrics_in_statistics
from kafka_remote_client.metrics import METRICS
from kafka_remote_client.model import IsolationLevel, PartitionOffsets
from tests.support.embedded_topics import direct_settings, fill_topic, plain_settings, small_cluster, take
from tests.support.waiting import wait_until


class Client:
    """A client with fixed statistics."""

    def metrics(self) -> dict[str, int]:
        return {"a": 1}


def knows_more(statistics: dict[str, Any]) -> None:
    statistics["more"] = 1


def test_statistics_have_our_metrics_as_long_as_the_consumer_lives() -> None:
    received: list[str] = []
    client = Client()
    settings: dict[str, Any] = with_metrics_in_statistics(
        {"stats_cb": received.append, "group.id": "g"}, client, Client.metrics, knows_more
    )
    settings["stats_cb"]('{"name": "rdkafka#consumer-1", "brokers": {}}')
    assert json.loads(received[0]) == {"name": "rdkafka#consumer-1", "brokers": {}, "more": 1, "remote_fetch": {"a": 1}}
    assert settings["group.id"] == "g"
    del client
    gc.collect()
    settings["stats_cb"]('{"name": "rdkafka#consumer-1"}')
    assert json.loads(received[1]) == {"name": "rdkafka#consumer-1"}


@pytest.mark.parametrize("settings", [{}, {"stats_cb": None}, {"stats_cb": "no callable"}])
def test_settings_without_a_callback_stay_as_they_are(settings: dict[str, object]) -> None:
    assert with_metrics_in_statistics(settings, Client(), Client.metrics, knows_more) == settings


@pytest.mark.embedded
def test_statistics_of_both_tiers_arrive_together(tmp_path: Path) -> None:
    received: dict[str, list[dict[str, Any]]] = {"plain": [], "direct": []}
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, "orders")
        for name, kind, settings in (
            ("plain", confluent_kafka.Consumer, plain_settings(cluster)),
            ("direct", Consumer, direct_settings(cluster)),
        ):
            every = {"stats_cb": lambda text, name=name: received[name].append(json.loads(text)), "statistics.interval.ms": 50}
            with kind({**settings, **every}) as consumer:
                consumer.assign([TopicPartition("orders", 0, 0)])

                def counted(consumer: Any = consumer, name: str = name) -> bool:
                    consumer.consume(100, 0.1)
                    newest = received[name][-1:]
                    return any(name == "plain" or stats["remote_fetch"]["remote-fetch-records-total"] for stats in newest)

                wait_until(counted, f"the {name} consumer's statistics", seconds=60)
    assert "remote_fetch" not in received["plain"][-1]
    assert received["direct"][-1]["remote_fetch"].keys() == METRICS.keys()
    assert received["plain"][-1].keys() <= received["direct"][-1].keys()


PLACES = ("hi_offset", "ls_offset", "lo_offset", "app_offset", "consumer_lag", "consumer_lag_stored", "stored_offset")
UNKNOWN = dict.fromkeys(PLACES, -1001) | {"consumer_lag": -1, "consumer_lag_stored": -1, "committed_offset": -1001}


def completed(route: Route, level: IsolationLevel, bounds: PartitionOffsets, **values: int) -> dict[str, Any]:
    flow = PartitionFlow("t", 0, 20)
    flow.route, flow.offsets, flow.position, flow.floor = route, bounds, 30, 15
    entry: dict[str, Any] = {**UNKNOWN, **values}
    complete_statistics({"topics": {"t": {"partitions": {"0": entry}}}}, [flow, PartitionFlow("u", 0, 0)], level)
    return entry


BOUNDS = PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150, last_stable=140)


@pytest.mark.parametrize(("level", "end"), [(IsolationLevel.READ_COMMITTED, 140), (IsolationLevel.READ_UNCOMMITTED, 150)])
def test_offsets_and_lag_of_a_direct_read_are_known(level: IsolationLevel, end: int) -> None:
    entry = completed(Route.REMOTE, level, BOUNDS, stored_offset=30)
    assert [entry[name] for name in PLACES] == [150, 140, 10, 30, end - 15, end - 30, 30]
    entry = completed(Route.REMOTE, level, BOUNDS, stored_offset=160, committed_offset=25)
    assert [entry[name] for name in PLACES] == [150, 140, 10, 30, end - 25, -1, 160]


def test_a_direct_read_at_the_end_has_no_lag() -> None:
    entry = completed(Route.REMOTE, IsolationLevel.READ_UNCOMMITTED, BOUNDS, stored_offset=150, committed_offset=150)
    assert (entry["consumer_lag_stored"], entry["consumer_lag"]) == (0, 0)


def test_statistics_omit_unknown_values_of_a_direct_read() -> None:
    entry = completed(Route.REMOTE, IsolationLevel.READ_COMMITTED, PartitionOffsets(), stored_offset=30)
    assert [entry[name] for name in PLACES] == [-1001, -1001, -1001, 30, -1, -1, 30]


def test_statistics_of_the_broker_path_are_librdkafkas() -> None:
    assert completed(Route.BROKER, IsolationLevel.READ_COMMITTED, BOUNDS) == UNKNOWN


@pytest.mark.embedded
def test_a_direct_read_has_the_offsets_and_lag_of_a_plain_one(tmp_path: Path) -> None:
    received: dict[str, dict[str, Any]] = {}
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, "orders")
        for name, kind, settings in (
            ("plain", confluent_kafka.Consumer, plain_settings(cluster)),
            ("direct", Consumer, direct_settings(cluster)),
        ):
            newest: list[dict[str, Any]] = []
            every = {"stats_cb": lambda text, newest=newest: newest.append(json.loads(text)), "statistics.interval.ms": 50}
            with kind({**settings, **every}) as consumer:
                consumer.assign([TopicPartition("orders", 0, 0)])
                take(consumer, 40, lambda one, _count: one.consume(40, 0.1))
                consumer.commit(asynchronous=False)
                consumer.pause([TopicPartition("orders", 0)])

                def entry(newest: list[dict[str, Any]] = newest, consumer: Any = consumer) -> dict[str, Any] | None:
                    assert consumer.consume(1, 0.1) == []
                    found = newest[-1]["topics"]["orders"]["partitions"]["0"] if newest else {}
                    return found if found.get("committed_offset") == found.get("app_offset") == 40 else None

                received[name] = wait_until(entry, f"the {name} consumer's statistics", seconds=60)
    names = (*PLACES, "committed_offset")
    assert {name: received["direct"][name] for name in names} == {name: received["plain"][name] for name in names}
    assert received["direct"]["consumer_lag"] == 360
