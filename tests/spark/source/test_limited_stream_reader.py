from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.offsets.data_loss import DataLossError
from kafka_remote_client.spark.source import pyspark_api
from kafka_remote_client.spark.source.limited_stream_reader import LimitedStreamReader, stream_reader
from kafka_remote_client.spark.source.stream_reader import KafkaRemoteStreamReader
from tests.support.locations import ManualClock
from tests.support.spark_cluster import A0, A1, FakeCluster

BASE = {"kafka.bootstrap.servers": "b:1", "subscribe": "a", "fetch.remote.enabled": "false"}
START, END = {"a": {"0": 10, "1": 20}}, {"a": {"0": 100, "1": 200}}


@dataclass
class ReadAllAvailable:
    pass


@dataclass
class ReadMaxRows:
    max_rows: int


@dataclass
class ReadMaxBytes:
    max_bytes: int


@dataclass
class ReadMinRows:
    min_rows: int


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on PySpark 4.2."""
    kinds = (ReadAllAvailable, ReadMaxRows, ReadMaxBytes, ReadMinRows)
    found = SimpleNamespace(**{kind.__name__: kind for kind in kinds})
    monkeypatch.setattr(pyspark_api, "READ_LIMITS", found)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


def limited(cluster: FakeCluster, clock: ManualClock | None = None, **more: str) -> LimitedStreamReader:
    return LimitedStreamReader(BASE | more, clock=clock or ManualClock(), make_cluster=lambda _options, _clock: cluster)


def splits(found: Any) -> list[Split]:
    return [partition.split for partition in found]


@pytest.mark.usefixtures("limits")
def test_without_any_partition_a_limited_query_stays_where_it_is(cluster: FakeCluster) -> None:
    cluster.log_ends = {}
    stream = limited(cluster, maxOffsetsPerTrigger="5")
    assert stream.latestOffset(END, ReadMaxRows(5)) == END
    assert stream.latestOffset(END, ReadAllAvailable()) == END


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize(
    ("ends", "complaint"),
    [({A0: 100}, "partitions are gone: a-1"), ({A0: 100, A1: 199}, "a-1 ends at 199, before 200")],
)
def test_available_now_fails_when_its_end_cannot_be_reached(
    cluster: FakeCluster, ends: dict[TopicPartition, int], complaint: str, fail: str
) -> None:
    stream = limited(cluster, failOnDataLoss=fail)
    stream.prepareForTriggerAvailableNow()
    cluster.log_ends = ends
    assert stream.partitions(END, END) == []
    with pytest.raises(DataLossError, match=f"Trigger.AvailableNow began with cannot be reached: {complaint}"):
        stream.partitions(START, END)


@pytest.mark.usefixtures("limits")
def test_earlier_available_now_batch_need_not_name_new_partitions(cluster: FakeCluster) -> None:
    stream = limited(cluster)
    stream.prepareForTriggerAvailableNow()
    assert splits(stream.partitions({"a": {"0": 10}}, {"a": {"0": 100}})) == [Split(A0, 10, 100, 90 * 1024)]


def test_limits_are_refused_by_name_where_pyspark_knows_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark_api, "READ_LIMITS", None)
    assert type(stream_reader(BASE)) is KafkaRemoteStreamReader
    with pytest.raises(
        ConfigurationError, match=r"PySpark 4\.2 is the oldest version that supports maxOffsetsPerTrigger, maxTriggerDelay"
    ):
        stream_reader(BASE | {"maxoffsetspertrigger": "5", "maxTriggerDelay": "1m"})
    with pytest.raises(ConfigurationError, match=r"PySpark 4\.2 is the oldest version that supports maxBytesPerTrigger"):
        stream_reader(BASE | {"MAXBYTESPERTRIGGER": "5"})


@pytest.mark.usefixtures("limits")
def test_limits_are_passed_to_pyspark() -> None:
    found = stream_reader(BASE | {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2"})
    assert isinstance(found, LimitedStreamReader)
    assert found.getDefaultReadLimit() == ReadMaxRows(5)
    assert limited(FakeCluster(), minOffsetsPerTrigger="2").getDefaultReadLimit() == ReadMinRows(2)
    assert limited(FakeCluster()).getDefaultReadLimit() == ReadAllAvailable()


@pytest.mark.usefixtures("limits")
def test_a_bad_time_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="maxTriggerDelay must be a time"):
        limited(FakeCluster(), maxTriggerDelay="soon")


@pytest.mark.usefixtures("limits")
def test_a_batch_ends_within_its_limit(cluster: FakeCluster) -> None:
    stream = limited(cluster, maxOffsetsPerTrigger="27")
    assert stream.latestOffset(START, ReadMaxRows(27)) == {"a": {"0": 19, "1": 38}}
    assert stream.latestOffset(START, ReadAllAvailable()) == END
    assert stream.reportLatestOffset() == END


@pytest.mark.usefixtures("limits")
def test_a_new_partition_counts_from_its_start(cluster: FakeCluster) -> None:
    found = limited(cluster, maxOffsetsPerTrigger="10").latestOffset({"a": {"0": 100}}, ReadMaxRows(10))
    assert found == {"a": {"0": 100, "1": 30}}


@pytest.mark.usefixtures("limits")
def test_a_batch_waits_for_enough_but_not_for_ever(cluster: FakeCluster) -> None:
    clock = ManualClock()
    stream = limited(cluster, clock, minOffsetsPerTrigger="1000", maxTriggerDelay="10s")
    # The first batch takes what there is.
    assert stream.latestOffset(START, ReadMinRows(1000)) == END
    assert stream.latestOffset(START, ReadMinRows(1000)) == START
    clock.now += 9
    assert stream.latestOffset(START, ReadMinRows(1000)) == START
    clock.now += 1
    assert stream.latestOffset(START, ReadMinRows(1000)) == END, "the time is over"
    assert stream.latestOffset(START, ReadMinRows(1000)) == START
    cluster.log_ends = {A0: 900, A1: 900}
    assert stream.latestOffset(START, ReadMinRows(1000)) == {"a": {"0": 900, "1": 900}}


@pytest.mark.usefixtures("limits")
def test_available_now_ends_at_the_end_that_was_fixed_at_the_start(cluster: FakeCluster) -> None:
    stream = limited(cluster, maxOffsetsPerTrigger="100", minOffsetsPerTrigger="99")
    stream.prepareForTriggerAvailableNow()
    cluster.log_ends = {A0: 900, A1: 900}
    at, steps = START, 0
    while (following := stream.latestOffset(at, ReadMaxRows(100))) != at:
        at, steps = following, steps + 1
    assert at == END
    assert steps == 3
    assert stream.latestOffset(START, ReadAllAvailable()) == END


@pytest.mark.usefixtures("limits")
def test_bytes_limit_a_batch_and_known_sizes_are_not_asked_again(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def learn(_options: object, ranges: Any, *, again: bool) -> Any:
        assert not again
        asked.append(len(ranges))
        return [attrs.evolve(found, segments=(SegmentSpan(0, 100, 1000),)) for found in ranges]

    monkeypatch.setattr("kafka_remote_client.spark.source.limited_stream_reader.learn_segments", learn)
    stream = limited(cluster, maxBytesPerTrigger="540")
    assert stream.getDefaultReadLimit() == ReadMaxBytes(540)
    assert stream.latestOffset(START, ReadMaxBytes(540)) == {"a": {"0": 28, "1": 56}}
    stream.prepareForTriggerAvailableNow()
    cluster.log_ends = {A0: 900, A1: 900}
    at, steps = START, 0
    while (following := stream.latestOffset(at, ReadMaxBytes(540))) != at:
        at, steps = following, steps + 1
    assert (at, steps) == (END, 5)
    assert asked == [2]


@pytest.mark.usefixtures("limits")
def test_the_lower_of_two_limits_holds(cluster: FakeCluster) -> None:
    stream = limited(cluster, maxBytesPerTrigger="1000000", maxOffsetsPerTrigger="27")
    assert stream.getDefaultReadLimit() == ReadMaxRows(27)
    assert stream.latestOffset(START, ReadMaxRows(27)) == {"a": {"0": 19, "1": 38}}
    stream = limited(cluster, maxBytesPerTrigger="1024", maxOffsetsPerTrigger="27")
    assert stream.latestOffset(START, ReadMaxRows(27)) == {"a": {"0": 11, "1": 21}}
