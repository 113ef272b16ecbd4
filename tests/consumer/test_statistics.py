"""The statistics that an application gets, beside those of confluent_kafka's own consumer."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from kafka_remote_client import Consumer
from kafka_remote_client.consumer.statistics import with_metrics_in_statistics
from kafka_remote_client.metrics import METRICS
from tests.support.embedded_topics import direct_settings, fill_topic, plain_settings, small_cluster
from tests.support.waiting import wait_until


class Client:
    """What a consumer shows."""

    def metrics(self) -> dict[str, int]:
        return {"a": 1}


def test_the_metrics_stand_beside_what_librdkafka_tells_for_as_long_as_the_consumer_lives() -> None:
    told: list[str] = []
    client = Client()
    settings: dict[str, Any] = with_metrics_in_statistics({"stats_cb": told.append, "group.id": "g"}, client)
    settings["stats_cb"]('{"name": "rdkafka#consumer-1", "brokers": {}}')
    assert json.loads(told[0]) == {"name": "rdkafka#consumer-1", "brokers": {}, "remote_fetch": {"a": 1}}
    assert settings["group.id"] == "g"
    del client
    gc.collect()
    settings["stats_cb"]('{"name": "rdkafka#consumer-1"}')
    assert json.loads(told[1]) == {"name": "rdkafka#consumer-1"}


@pytest.mark.parametrize("settings", [{}, {"stats_cb": None}, {"stats_cb": "no callable"}])
def test_settings_without_a_callback_stay_as_they_are(settings: dict[str, object]) -> None:
    assert with_metrics_in_statistics(settings, Client()) == settings


@pytest.mark.embedded
def test_an_application_is_told_both_at_once_and_a_plain_consumer_its_own(tmp_path: Path) -> None:
    told: dict[str, list[dict[str, Any]]] = {"plain": [], "direct": []}
    with small_cluster(tmp_path) as cluster:
        fill_topic(cluster, "orders")
        for name, kind, settings in (
            ("plain", confluent_kafka.Consumer, plain_settings(cluster)),
            ("direct", Consumer, direct_settings(cluster)),
        ):
            every = {"stats_cb": lambda text, name=name: told[name].append(json.loads(text)), "statistics.interval.ms": 50}
            with kind({**settings, **every}) as consumer:
                consumer.assign([TopicPartition("orders", 0, 0)])

                def counted(consumer: Any = consumer, name: str = name) -> bool:
                    consumer.consume(100, 0.1)
                    newest = told[name][-1:]
                    return any(name == "plain" or stats["remote_fetch"]["remote-fetch-records-total"] for stats in newest)

                wait_until(counted, f"the {name} consumer's statistics", seconds=60)
    assert "remote_fetch" not in told["plain"][-1]
    assert told["direct"][-1]["remote_fetch"].keys() == METRICS.keys()
    assert told["plain"][-1].keys() <= told["direct"][-1].keys()
