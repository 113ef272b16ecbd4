from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.scanning.splits import OffsetRange, Split
from kafka_remote_client.segment_spans import SegmentSpan
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.planning import job_planner
from kafka_remote_client.spark.planning.asked_requests import AskedRequests
from kafka_remote_client.spark.planning.job_figures import Prices
from kafka_remote_client.spark.planning.job_plan import JobPlan
from kafka_remote_client.spark.planning.job_planner import plan
from tests.support.spark_cluster import FakeCluster

OPTIONS = {"kafka.bootstrap.servers": "b:1", "subscribe": "a"}


def planned(cluster: FakeCluster, *given: Any, **more: Any) -> JobPlan:
    return plan(*given, make_cluster=lambda _options, _clock: cluster, **more)


def test_without_direct_fetch_all_records_come_from_the_broker() -> None:
    cluster = FakeCluster()
    found = planned(cluster, OPTIONS | {"fetch.remote.enabled": "false"}, minPartitions=3)
    assert (found.figures.splits, found.figures.records, found.figures.gets) == (3, 270, 0)
    assert found.local_bytes == 270 * 1024
    assert cluster.closed


def test_splits_are_the_query_s_own_and_each_segment_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def learn(
        options: SourceOptions, ranges: Sequence[OffsetRange], *, split_bytes: int | None = None, reads: bool
    ) -> list[OffsetRange]:
        assert not reads
        asked.append(split_bytes)
        every = [SegmentSpan(start, start + 10, 100) for start in range(0, 200, 10)]
        seen = every if split_bytes else every[:4]
        return [OffsetRange(found.topic_partition, found.start, found.end, seen, tiered_end=200) for found in ranges]

    def learn_requests(options: SourceOptions, splits: Sequence[Split], *, budget: int) -> list[AskedRequests]:
        assert budget == 512
        return [AskedRequests(split.end, 1, split.size_in_bytes) for split in splits]

    monkeypatch.setattr(job_planner, "learn_segments", learn)
    monkeypatch.setattr(job_planner, "learn_requests", learn_requests)
    found = planned(FakeCluster(), OPTIONS, **{"remote.splitBytes": 400, "failOnDataLoss": True})
    assert asked == [None, 1]
    assert found.segments_exact
    assert found.requests_exact
    assert (found.figures.segments, found.figures.read_bytes, found.figures.gets) == (9 + 18, 2700, found.figures.splits)
    assert found.figures.splits == 3 + 5  # partitions without known segments are cut by size


def test_assumptions_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    options = OPTIONS | {
        "fetch.remote.enabled": "false",
        "fetch.remote.max.in.flight": "3",
        "fetch.remote.range.bytes": "100000",
    }
    assert planned(FakeCluster(), options).assumptions.cores == 1
    told = planned(FakeCluster(), options, cores=7, latency_ms=5, megabytes_per_second=2.5, prices=Prices(per_gb=0.09))
    assert (told.assumptions.cores, told.assumptions.latency_ms, told.assumptions.bytes_per_second) == (7, 5, 2.5e6)
    assert (told.assumptions.in_flight, told.assumptions.range_bytes, told.prices.per_gb) == (3, 100_000, 0.09)


def test_filters_leave_out_what_the_query_leaves_out() -> None:
    @attrs.frozen
    class EqualTo:
        attribute: tuple[str, ...]
        value: object

    options = OPTIONS | {"fetch.remote.enabled": "false"}
    only = [EqualTo(("partition",), 1)]
    found = planned(FakeCluster(), options | {"remote.pushFilters": "true"}, filters=only)
    assert [(one.partition, one.start, one.end) for one in found.partitions] == [(1, 20, 200)]
    with pytest.raises(ConfigurationError, match=r"filters need remote\.pushFilters=true"):
        planned(FakeCluster(), options, filters=only)


def test_bad_options_are_refused_as_by_the_query() -> None:
    with pytest.raises(ConfigurationError, match="exactly one of assign, subscribe and subscribePattern"):
        planned(FakeCluster(), {"kafka.bootstrap.servers": "b:1"})
