"""The result of an export: end offsets where consumers continue."""

from __future__ import annotations

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, ClassVar

import attrs
import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError

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


def test_starting_offsets_have_sparks_format() -> None:
    assert RESULT.starting_offsets() == '{"orders":{"0":50,"2":7},"päid":{"0":0}}'
    everything = json.loads(RESULT.starting_offsets({"orders": 4}))
    assert everything == {"orders": {"0": 50, "1": -2, "2": 7, "3": -2}, "päid": {"0": 0}}


class Admin:
    """Fake AdminClient that commits offsets of groups; it can refuse partition 2.

    ``committed``: the offset that the group has of each partition before.
    """

    requests: ClassVar[list[Any]] = []
    refuses = False
    committed = OFFSET_INVALID

    def __init__(self, config: dict[str, Any]) -> None:
        assert config == {"bootstrap.servers": "localhost:9092"}

    def list_consumer_group_offsets(self, requests: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        (request,) = requests
        answers = [
            SimpleNamespace(topic=one.topic, partition=one.partition, offset=self.committed) for one in request.topic_partitions
        ]
        done: Future[Any] = Future()
        done.set_result(SimpleNamespace(topic_partitions=answers))
        return {request.group_id: done}

    def alter_consumer_group_offsets(self, requests: list[Any], *, request_timeout: float) -> dict[str, Future[Any]]:
        (request,) = requests
        self.requests.append(request)
        refused = KafkaError(KafkaError.UNKNOWN_MEMBER_ID) if self.refuses else None
        answers = [
            SimpleNamespace(topic=one.topic, partition=one.partition, error=refused if one.partition == 2 else None)
            for one in request.topic_partitions
        ]
        done: Future[Any] = Future()
        done.set_result(SimpleNamespace(topic_partitions=answers))
        return {request.group_id: done}


def test_end_offsets_are_committed_for_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.scanning.export.result.AdminClient", Admin)
    monkeypatch.setattr(Admin, "requests", [])
    RESULT.commit_to_group("readers", {"bootstrap.servers": "localhost:9092"})
    (request,) = Admin.requests
    assert request.group_id == "readers"
    assert {(one.topic, one.partition): one.offset for one in request.topic_partitions} == RESULT.ends
    attrs.evolve(RESULT, ends={}).commit_to_group("readers", {})
    assert len(Admin.requests) == 1
    monkeypatch.setattr(Admin, "refuses", True)
    with pytest.raises(ExportError, match="cannot commit offsets for group readers: orders-2: "):
        RESULT.commit_to_group("readers", {"bootstrap.servers": "localhost:9092"})


def test_a_group_that_has_read_on_does_not_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.scanning.export.result.AdminClient", Admin)
    monkeypatch.setattr(Admin, "requests", [])
    monkeypatch.setattr(Admin, "committed", 49)
    with pytest.raises(
        ExportError, match=r"it has read past the export \(orders-2 at 49, where the export ends at 7; päid-0 at 49"
    ):
        RESULT.commit_to_group("readers", {"bootstrap.servers": "localhost:9092"})
    assert not Admin.requests
    ahead_of_none = attrs.evolve(RESULT, ends={TopicPartition("orders", 0): 49})
    ahead_of_none.commit_to_group("readers", {"bootstrap.servers": "localhost:9092"})
    assert len(Admin.requests) == 1


def test_a_failed_commit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_remote_client.scanning.export.result._TIMEOUT_SECONDS", 0.2)
    (port,) = free_ports(1)
    with pytest.raises(ExportError, match="cannot commit offsets for group readers"):
        RESULT.commit_to_group("readers", {"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    with pytest.raises(ConfigurationError, match="cannot commit offsets for group readers"):
        RESULT.commit_to_group("readers", {"bootstrap.server": "a:1"})
