"""Where an export ends, for whoever goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as CommittedPartition

from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.errors import ConfigurationError, ExportError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.result import ExportResult
from kafka_remote_client.scanning.export.written_files import WrittenFile
from tests.support.ports import HOST, free_ports

RESULT = ExportResult(
    "january",
    (WrittenFile("_staging/a", "a.parquet", 5, 100), WrittenFile("_staging/b", "b.parquet", 6, 200)),
    {TopicPartition("orders", 0): 50, TopicPartition("orders", 2): 7, TopicPartition("päid", 0): 0},
    splits=3,
)


def test_a_result_counts_its_files() -> None:
    assert (RESULT.rows, RESULT.size_in_bytes) == (11, 300)
    assert "_staging" not in repr(RESULT)


def test_starting_offsets_are_those_of_spark() -> None:
    assert RESULT.starting_offsets() == '{"orders":{"0":50,"2":7},"päid":{"0":0}}'
    everything = json.loads(RESULT.starting_offsets({"orders": 4}))
    assert everything == {"orders": {"0": 50, "1": -2, "2": 7, "3": -2}, "päid": {"0": 0}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tmp_path_factory.mktemp("tier")) as running:
        yield running


@pytest.mark.embedded
def test_a_group_goes_on_where_the_export_ends(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.produce("orders", [(b"k", b"%d" % n) for n in range(60)], partition=0)
    result = ExportResult("january", (), {TopicPartition("orders", 0): 50}, splits=1)
    config = {"bootstrap.servers": cluster.bootstrap_servers}
    result.commit_to_group("readers", config)
    member = Consumer({**config, "group.id": "readers", "auto.offset.reset": "error"})
    try:
        assert [one.offset for one in member.committed([CommittedPartition("orders", 0)], 10)] == [50]
    finally:
        member.close()
    ExportResult("january", (), {}, splits=0).commit_to_group("readers", config)


def test_a_cluster_that_does_not_commit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.scanning.export.result._TIMEOUT_SECONDS", 0.2)
    (port,) = free_ports(1)
    with pytest.raises(ExportError, match="cannot commit offsets for group readers"):
        RESULT.commit_to_group("readers", {"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    with pytest.raises(ConfigurationError, match="cannot commit offsets for group readers"):
        RESULT.commit_to_group("readers", {"bootstrap.server": "a:1"})
