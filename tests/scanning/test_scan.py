"""The ``Scan`` value: accepted arguments, and validation before anything is read."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs
import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.fallback import OnFallback
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.records.arrow import SPARK_KAFKA_SCHEMA
from kafka_remote_client.records.block import RECORD_COLUMNS
from kafka_remote_client.scanning.predicate import And, column
from kafka_remote_client.scanning.scan import Scan


def test_a_scan_of_a_name_reads_all_committed_records_in_all_columns() -> None:
    scan = Scan(topics="orders")
    assert (scan.topics, scan.columns, scan.filter) == (("orders",), RECORD_COLUMNS, None)
    assert scan.isolation_level is IsolationLevel.READ_COMMITTED
    assert tuple(SPARK_KAFKA_SCHEMA.names) == RECORD_COLUMNS


def test_a_scan_can_be_replaced_and_pickled() -> None:
    scan = Scan(
        topics=["a", "b", "a"],
        partitions=[2, 0, 2],
        start_offset={("a", 0): 5},
        since="1970-01-01T00:00:00.0015",
        until=datetime(1970, 1, 1, 0, 0, 9, tzinfo=UTC),
        columns=["offset", "key"],
        predicate=column("offset") > 7,
        limit=9,
        isolation_level="read_uncommitted",
        out_of_order=timedelta(0),
    )
    assert (scan.topics, scan.partitions, scan.since, scan.until) == (("a", "b"), (0, 2), 2, 9000)
    assert attrs.evolve(scan) == scan
    assert pickle.loads(pickle.dumps(scan)) == scan
    assert scan.filter == And((column("offset") > 7, column("timestamp") >= 2, column("timestamp") < 9000))


def test_topics_match_by_name_or_full_pattern() -> None:
    named, matched = Scan(topics=("a",), partitions=(1,)), Scan(topic_pattern="orders-.*")
    assert named.takes(TopicPartition("a", 1))
    assert not named.takes(TopicPartition("a", 0))
    assert not named.takes_topic("ab")
    assert matched.takes(TopicPartition("orders-eu", 7))
    assert not matched.takes_topic("all-orders-eu")


def test_offsets_apply_to_all_partitions_or_to_each() -> None:
    scan = Scan(topics="a", start_offset=5, end_offset={TopicPartition("a", 0): 9})
    assert (scan.start_of(TopicPartition("a", 1)), scan.end_of(TopicPartition("a", 1))) == (5, None)
    assert scan.end_of(TopicPartition("a", 0)) == 9


@pytest.mark.parametrize("bound", ["since", "until"])
def test_a_single_time_bound_is_a_filter(bound: str) -> None:
    scan = Scan(topics="a", **{bound: 5})
    assert scan.filter == (column("timestamp") >= 5 if bound == "since" else column("timestamp") < 5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "a scan needs exactly one of topics and topic_pattern"),
        ({"topics": "a", "topic_pattern": "b"}, "a scan needs exactly one of topics and topic_pattern"),
        ({"topics": "a b"}, "not the name of a topic: 'a b'"),
        ({"topics": [7]}, "not the name of a topic: 7"),
        ({"topic_pattern": "("}, r"topic_pattern is not a valid regular expression: '\('"),
        ({"topics": "a", "partitions": "01"}, "partitions must be a list of numbers"),
        ({"topics": "a", "partitions": 5}, "partitions must be a list of numbers"),
        ({"topics": "a", "partitions": [-1]}, "partitions must be a whole number"),
        ({"topics": "a", "start_offset": -1}, "start_offset must be a whole number"),
        ({"topics": "a", "start_offset": {"a": 1}}, r"start_offset must name \(topic, partition\), not 'a'"),
        ({"topics": "a", "end_offset": {("a", 0): "x"}}, "end_offset of a-0 must be a whole number"),
        ({"topics": "a", "start_offset": 5, "end_offset": 4}, "end_offset 4 is below start_offset 5"),
        ({"topics": "a", "start_offset": {("a", 0): 5}, "end_offset": 4}, "end_offset 4 is below start_offset 5"),
        ({"topics": "a", "since": "soon"}, "since is not a time in ISO 8601"),
        ({"topics": "a", "since": 5, "until": 4}, "until is before since"),
        ({"topics": "a", "columns": "offset"}, "columns must be a list of names"),
        ({"topics": "a", "columns": ()}, "columns must name at least one column"),
        ({"topics": "a", "columns": ["ofset"]}, r"unknown columns: \['ofset'\]; known columns: key, value"),
        ({"topics": "a", "columns": ["key", "key"]}, "duplicate columns"),
        ({"topics": "a", "predicate": True}, "not a predicate: True"),
        ({"topics": "a", "limit": -1}, "limit must be a whole number"),
        ({"topics": "a", "isolation_level": "dirty"}, "isolation_level must be an IsolationLevel"),
        ({"topics": "a", "out_of_order": 5}, "out_of_order must be a timedelta"),
        ({"topics": "a", "out_of_order": timedelta(-1)}, "out_of_order must be a timedelta"),
        ({"topics": "a", "split_bytes": 0}, "split_bytes must be a whole number"),
    ],
    ids=str,
)
def test_an_invalid_scan_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Scan(**wrong)


def test_brokers_are_read_only_by_a_live_scan() -> None:
    assert not Scan(topics="t").needs_brokers
    assert Scan(topics="t", live=True).needs_brokers
    assert Scan(topics="t", on_fallback="broker").needs_brokers
    assert Scan(topics="t", on_fallback=OnFallback.FAIL).on_fallback is OnFallback.FAIL
    with pytest.raises(ConfigurationError, match="on_fallback must be 'fail' or 'broker', not 'raise'"):
        Scan(topics="t", on_fallback="raise")
    with pytest.raises(ConfigurationError, match="live must be True or False, not 'yes'"):
        Scan(topics="t", live="yes")
