"""A bounded reader by settings: the tiered records of a partition, and where the broker goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafka_remote_client
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.open_reader import open_reader
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.shim.embedded import EmbeddedCluster
from tests.support.embedded_topics import direct_settings, fill_topic, small_cluster
from tests.support.reading import PATIENCE_SECONDS, PATIENT

pytestmark = pytest.mark.embedded

COUNT = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with small_cluster(tmp_path_factory.mktemp("tier")) as made:
        fill_topic(made, "orders", COUNT)
        yield made


def settings(cluster: EmbeddedCluster, **more: object) -> dict[str, Any]:
    given = direct_settings(cluster)
    del given["fetch.remote.enabled"]
    return {**given, **PATIENT, **more}


def test_is_found_at_the_top() -> None:
    assert kafka_remote_client.open_reader is open_reader


def test_reads_the_tier_and_says_where_the_broker_goes_on(cluster: EmbeddedCluster) -> None:
    metrics, before = FetchMetrics(SystemClock()), cluster.metrics()["origin_requests"]
    with open_reader(settings(cluster), "orders", 0, metrics=metrics) as reader:
        offsets = [message.offset() for message in reader.messages(PATIENCE_SECONDS)]
        assert reader.end is not None
        assert offsets == list(range(reader.end.next_offset))
        assert 0 < reader.end.next_offset < COUNT
        assert reader.end.error is None
    assert metrics.snapshot()["remote-fetch-request-total"] == cluster.metrics()["origin_requests"] - before


def test_reads_from_here_to_there(cluster: EmbeddedCluster) -> None:
    with open_reader(settings(cluster), "orders", 0, 7, 23) as reader:
        batches = list(reader.record_batches(PATIENCE_SECONDS))
        assert [offset for found in batches for offset in found.column("offset").to_pylist()] == list(range(7, 23))
        assert reader.end is not None
        assert (reader.end.reason, reader.end.next_offset) == ("end", 23)


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_the_isolation_level_is_the_configuration_s(cluster: EmbeddedCluster, level: IsolationLevel) -> None:
    with open_reader(settings(cluster, **{"isolation.level": level.name.lower()}), "orders", 0) as reader:
        assert reader.isolation_level is level
    without = {name: value for name, value in settings(cluster).items() if name != "isolation.level"}
    with open_reader(without, "orders", 0) as reader:
        assert reader.isolation_level is IsolationLevel.READ_COMMITTED


def test_what_cannot_work_is_refused_with_its_cause(cluster: EmbeddedCluster) -> None:
    for more, said in (
        ({"isolation.level": "serializable"}, "isolation.level must be"),
        ({"fetch.remote.nonsense": 1}, "no such setting: fetch.remote.nonsense"),
    ):
        with pytest.raises(ConfigurationError, match=said), open_reader(settings(cluster, **more), "orders", 0):
            pass
    without = {name: value for name, value in settings(cluster).items() if name != "remote.storage.fetcher.class"}
    with pytest.raises(ConfigurationError, match="class is not set"), open_reader(without, "orders", 0):
        pass
