"""The first run fixes a job. Jobs of one target have disjoint offsets."""

from __future__ import annotations

import json
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.job import ExportedPartition, ExportJob, job_of, options_of
from kafka_remote_client.scanning.predicate import column
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.scan_plan import ScanPlan
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.scanning.tier_address import TierAddress

ONE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
IDS = {"orders": "an-id"}
PLAN = ScanPlan(
    Scan(topics="orders"),
    (Split(ONE, 10, 20, 100), Split(ONE, 20, 50, 300), Split(OTHER, 0, 5, 50)),
    {ONE: 60, OTHER: 5, TopicPartition("orders", 2): 7},
    3,
    3,
)
JOB = job_of("january", PLAN, {"columns": "key"}, IDS)


def at(start: int, end: int, topic_id: str = "an-id", name: str = "february") -> ExportJob:
    return ExportJob(name, {}, (ExportedPartition(ONE, topic_id, start, end),))


def test_a_job_has_the_splits_and_end_offsets_of_the_plan() -> None:
    assert JOB.splits == PLAN.splits
    assert JOB.ends == PLAN.ends
    assert [(one.start, one.end) for one in JOB.partitions] == [(10, 60), (0, 5), (7, 7)]


def test_a_job_survives_a_json_round_trip() -> None:
    assert ExportJob.of_json(json.loads(json.dumps(JOB.to_json()))) == JOB
    assert ExportJob.of_json(JOB.to_json(splits=False)) == attrs.evolve(JOB, splits=())


def test_a_job_of_another_version_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="started by another version"):
        ExportJob.of_json({**JOB.to_json(), "version": 2})


def test_changed_options_are_named() -> None:
    JOB.check_options({"columns": "key"})
    with pytest.raises(ConfigurationError, match="columns was key, since was not set"):
        JOB.check_options({"columns": "value", "since": "5"})


def test_a_recreated_topic_is_reported() -> None:
    JOB.check_topics(IDS)
    for now in ({"orders": "another"}, {}):
        with pytest.raises(ConfigurationError, match="topic orders was created again since export job january started"):
            JOB.check_topics(now)
    with pytest.raises(ConfigurationError, match="topic orders was created again since export job february"):
        JOB.check_beside(at(60, 70, "another"))


@pytest.mark.parametrize(("start", "end", "overlaps"), [(0, 10, False), (60, 99, False), (0, 11, True), (59, 60, True)])
def test_overlapping_offsets_of_two_jobs_are_detected(start: int, end: int, overlaps: bool) -> None:
    if overlaps:
        with pytest.raises(ConfigurationError, match=f"export job february has offsets {start} to {end - 1} of orders-0"):
            JOB.check_beside(at(start, end))
    else:
        JOB.check_beside(at(start, end))


def test_options_include_all_that_changes_the_table() -> None:
    address = TierAddress("file:///tier", store_options={"s3.secret.key": "canary"}, topic_id=UUID(int=5))
    scan = Scan(
        topics="orders", start_offset={OTHER: 5, ONE: 3}, end_offset=100, predicate=column("key") == b"a", columns=["key"]
    )
    options = options_of(scan, address, {"compression": "zstd", "partition_by": ("topic", "day"), "no": None})
    assert options["start_offset"] == "orders-0: 3, orders-1: 5"
    assert options["end_offset"] == "100"
    assert options["partition_by"] == "topic, day"
    assert "no" not in options
    assert "canary" not in repr(options)
    changed = [
        attrs.evolve(scan, columns=["value"]),
        attrs.evolve(scan, predicate=column("key") == b"b"),
        attrs.evolve(scan, isolation_level="read_uncommitted"),
        attrs.evolve(scan, since=5),
        attrs.evolve(scan, partitions=[1]),
    ]
    writing = {"compression": "zstd", "partition_by": ("topic", "day")}
    assert all(options_of(one, address, writing) != options for one in changed)
    assert options_of(scan, address, writing) == options
