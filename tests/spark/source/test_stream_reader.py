from __future__ import annotations

import logging
import pickle
from typing import Any

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.source.input_partition import KafkaRemotePartition
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader
from tests.support.locations import ManualClock
from tests.support.spark_cluster import A0, A1, FakeCluster

BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "a", "fetch.remote.enabled": "false"}
START, END = {"a": {"0": 10, "1": 20}}, {"a": {"0": 100, "1": 200}}


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def reader(cluster: FakeCluster, **more: str) -> KafkaRemoteStreamReader:
    return KafkaRemoteStreamReader(BASE | more, clock=ManualClock(), make_cluster=lambda _options, _clock: cluster)


def splits(found: Any) -> list[Split]:
    return [partition.split for partition in found]


def test_a_query_begins_where_the_options_say(cluster: FakeCluster) -> None:
    assert reader(cluster).initialOffset() == END
    assert reader(cluster, startingOffsets="earliest").initialOffset() == START
    assert reader(cluster, startingOffsets='{"a":{"0":-1,"1":33}}').initialOffset() == {"a": {"0": 100, "1": 33}}


def test_query_from_latest_does_not_begin_after_its_first_answer(cluster: FakeCluster) -> None:
    stream = reader(cluster)
    assert stream.latestOffset() == END
    cluster.log_ends = {A0: 150, A1: 250}
    assert stream.initialOffset() == END
    assert stream.latestOffset() == {"a": {"0": 150, "1": 250}}


def test_a_batch_is_planned_between_its_offsets(cluster: FakeCluster) -> None:
    found = splits(reader(cluster, minPartitions="3").partitions(START, END))
    assert [(split.topic_partition, split.start, split.end) for split in found] == [
        (A0, 10, 100),
        (A1, 20, 110),
        (A1, 110, 200),
    ]
    assert cluster.asked == 0


def test_a_restart_plans_the_empty_range_and_asks_nothing(cluster: FakeCluster) -> None:
    assert reader(cluster).partitions(END, END) == []
    assert cluster.asked == 0


def test_new_partitions_are_read_from_their_start(cluster: FakeCluster) -> None:
    cluster.log_starts = {A0: 10, A1: 0}
    found = splits(reader(cluster).partitions({"a": {"0": 100}}, END))
    assert [(split.topic_partition, split.start, split.end) for split in found] == [(A1, 0, 200)]


def test_what_is_lost_fails_the_query(cluster: FakeCluster) -> None:
    with pytest.raises(DataLossError, match=r"partitions are gone \(deleted, or no longer subscribed\): a-1"):
        reader(cluster).partitions(START, {"a": {"0": 100}})


def test_without_any_partition_a_query_stays_where_it_is(cluster: FakeCluster) -> None:
    stream = reader(cluster, startingOffsets="earliest")
    cluster.log_ends = {}
    assert stream.latestOffset() == {}
    cluster.log_ends = {A0: 100, A1: 200}
    assert stream.initialOffset() == START
    stream.partitions(START, END)
    cluster.log_ends = {}
    assert stream.latestOffset() == END
    resumed = reader(cluster)
    assert resumed.partitions(END, END) == []
    assert resumed.latestOffset() == END


@pytest.mark.parametrize("offset", [{"a": 5}, {"a": {"0": "x"}}, {"a": {"zero": 1}}])
def test_another_source_s_checkpoint_is_refused(cluster: FakeCluster, offset: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="the checkpoint's offset must be JSON such as"):
        reader(cluster).partitions(offset, END)


def test_only_the_options_travel(cluster: FakeCluster) -> None:
    stream = reader(cluster, startingOffsets="earliest")
    stream.latestOffset()
    travelled = pickle.loads(pickle.dumps(stream))
    assert travelled._given == BASE | {"startingOffsets": "earliest"}
    assert travelled._cluster is None
    assert "b:1" not in repr(stream)


def test_tasks_read_their_split(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster) -> None:
    monkeypatch.setattr("kafka_remote_client.spark.source.stream_reader.SplitReader.read", lambda self, split: iter([split]))
    split = Split(A0, 1, 2, 3)
    found: Any = reader(cluster).read(KafkaRemotePartition(split))
    assert list(found) == [split]


def test_nothing_is_committed_and_connections_end_with_the_query(cluster: FakeCluster) -> None:
    stream = reader(cluster)
    stream.stop()
    stream.latestOffset()
    stream.commit(END)
    stream.stop()
    assert cluster.closed
    assert stream._cluster is None


def test_ignored_options_are_said(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        reader(cluster, **{"kafka.max.poll.records": "5"}).initialOffset()
    assert "kafka.max.poll.records" in caplog.text
