"""open_reader: a bounded read of a partition's tiered records, and the offset where the broker continues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import kafka_remote_client
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fetch.open_reader import open_reader
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel
from tests.support.embedded_topics import direct_settings, filled_cluster
from tests.support.reading import PATIENCE_SECONDS, PATIENT
from tests.support.waiting import wait_until

pytestmark = pytest.mark.embedded

COUNT = 300


cluster = filled_cluster("orders", COUNT)


def settings(cluster: EmbeddedCluster, **more: object) -> dict[str, Any]:
    given = direct_settings(cluster)
    del given["fetch.remote.enabled"]
    return {**given, **PATIENT, **more}


def test_open_reader_is_exported_at_the_top() -> None:
    assert kafka_remote_client.open_reader is open_reader


def test_reads_the_tier_and_reports_where_the_broker_continues(cluster: EmbeddedCluster) -> None:
    metrics, before = FetchMetrics(SystemClock()), cluster.metrics()["origin_requests"]
    with open_reader(settings(cluster), "orders", 0, metrics=metrics) as reader:
        offsets = [message.offset() for message in reader.messages(PATIENCE_SECONDS)]
        assert reader.end is not None
        assert offsets == list(range(reader.end.next_offset))
        assert 0 < reader.end.next_offset < COUNT
        assert reader.end.error is None
    assert metrics.snapshot()["remote-fetch-request-total"] == cluster.metrics()["origin_requests"] - before


def test_reads_between_two_offsets(cluster: EmbeddedCluster) -> None:
    with open_reader(settings(cluster), "orders", 0, 7, 23) as reader:
        batches = list(reader.record_batches(PATIENCE_SECONDS))
        assert [offset for found in batches for offset in found.column("offset").to_pylist()] == list(range(7, 23))
        assert reader.end is not None
        assert (reader.end.reason, reader.end.next_offset) == ("end", 23)


LARGE, LARGE_COUNT, SIZE = "large", 1500, 1000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """One segment of 1.5 MB, in batches of 20 records."""
    with EmbeddedCluster(tmp_path_factory.mktemp("tier"), segment_bytes=2 << 20, expire_local=True) as made:
        for start in range(0, LARGE_COUNT, 20):
            made.produce(LARGE, [(None, b"%0*d" % (SIZE, start + n)) for n in range(20)])
        made.archive(keep_open=False)
        yield made


def test_ten_records_of_a_large_segment_cost_little_more_than_their_size(large: EmbeddedCluster) -> None:
    before = large.metrics()
    with open_reader(settings(large), LARGE, 0, 705, 715) as reader:
        assert [message.offset() for message in reader.messages(PATIENCE_SECONDS)] == list(range(705, 715))
    after = large.metrics()
    assert after["origin_requests"] - before["origin_requests"] <= 2
    received = after["origin_bytes"] - before["origin_bytes"]
    assert received <= 20 * SIZE * 1.1 + 2 * (4096 + 21 * SIZE), "their batch, and an index interval at each end"


def test_the_first_record_of_an_unbounded_read_needs_one_small_window(large: EmbeddedCluster) -> None:
    """The read of the next window begins when a record is taken, so the requests are counted before."""
    before = large.metrics()
    with open_reader(settings(large), LARGE, 0, 700) as reader:
        wait_until(lambda: reader.has_ready, "the first records", seconds=PATIENCE_SECONDS)
        needed = large.metrics()
        assert next(reader.messages(PATIENCE_SECONDS)).offset() == 700
    assert needed["origin_requests"] - before["origin_requests"] <= 2
    assert needed["origin_bytes"] - before["origin_bytes"] <= 256 * 1024 + 2 * 21 * SIZE


@pytest.mark.parametrize("level", list(IsolationLevel))
def test_the_configuration_sets_the_isolation_level(cluster: EmbeddedCluster, level: IsolationLevel) -> None:
    with open_reader(settings(cluster, **{"isolation.level": level.name.lower()}), "orders", 0) as reader:
        assert reader._read.isolation_level is level
    without = {name: value for name, value in settings(cluster).items() if name != "isolation.level"}
    with open_reader(without, "orders", 0) as reader:
        assert reader._read.isolation_level is IsolationLevel.READ_COMMITTED


def test_an_unusable_configuration_is_refused_with_its_cause(cluster: EmbeddedCluster) -> None:
    for more, said in (
        ({"isolation.level": "serializable"}, "isolation.level must be"),
        ({"fetch.remote.nonsense": 1}, "unknown setting: fetch.remote.nonsense"),
    ):
        with pytest.raises(ConfigurationError, match=said), open_reader(settings(cluster, **more), "orders", 0):
            pass
    without = {name: value for name, value in settings(cluster).items() if name != "remote.storage.fetcher.class"}
    with pytest.raises(ConfigurationError, match="class is not set"), open_reader(without, "orders", 0):
        pass
