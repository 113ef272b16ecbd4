from __future__ import annotations

import pytest

from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.spark.offsets.bounds import BoundResolver
from kafka_remote_client.spark.offsets.json_offsets import (
    EARLIEST,
    LATEST,
    GlobalTimestamp,
    NoMatch,
    OffsetBound,
    OffsetName,
    SpecificOffsets,
    SpecificTimestamps,
)
from tests.support.spark_cluster import A0, A1, FakeCluster


def resolved(bound: OffsetBound, no_match: NoMatch = NoMatch.ERROR) -> list[int]:
    resolver = BoundResolver(FakeCluster(), [A0, A1], FakeCluster.log_starts, FakeCluster.log_ends)
    found = resolver.resolve("anOption", bound, no_match)
    assert list(found) == [A0, A1]
    return list(found.values())


def test_the_ends_of_the_log_become_offsets() -> None:
    assert resolved(OffsetName.EARLIEST) == [10, 20]
    assert resolved(OffsetName.LATEST) == [100, 200]


def test_offsets_may_name_the_ends_by_number() -> None:
    assert resolved(SpecificOffsets({A0: EARLIEST, A1: 50})) == [10, 50]
    assert resolved(SpecificOffsets({A0: 7, A1: LATEST})) == [7, 200]


def test_offsets_of_whole_topics_apply_to_their_partitions() -> None:
    assert resolved(SpecificOffsets({A1: 50}, {"a": EARLIEST})) == [10, 50]
    with pytest.raises(ConfigurationError, match="anOption names b, which is not read"):
        resolved(SpecificOffsets({}, {"a": LATEST, "b": LATEST}))


def test_timestamps_become_offsets() -> None:
    assert resolved(GlobalTimestamp(60)) == [60, 60]
    assert resolved(SpecificTimestamps({A0: 30, A1: 40})) == [30, 40]
    assert resolved(GlobalTimestamp(150), NoMatch.LATEST) == [100, 150]


def test_bounds_of_other_partitions_are_refused_by_the_option_s_name() -> None:
    with pytest.raises(ConfigurationError, match="anOption must name all partitions"):
        resolved(SpecificTimestamps({A0: 30}))
    with pytest.raises(ConfigurationError, match="anOption: no record at or after the timestamp in a-0"):
        resolved(GlobalTimestamp(150))
    with pytest.raises(ConfigurationError, match="names b-0"):
        resolved(SpecificOffsets({A0: 1, A1: 1, TopicPartition("b", 0): 1}))
