"""What a plan learns of a tier, from the golden one and from its listing alone."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_remote_client.errors import ConfigurationError, NoSegmentsError
from kafka_remote_client.fetch.tier_reader import TierReader, open_tier
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.plan import TieredPartition
from kafka_remote_client.scanning.scan import Scan
from kafka_remote_client.scanning.tier_survey import partitions_of, survey
from tests.support.golden import golden_local
from tests.support.scanned import expected_rows

FIRST_UNDECIDED = 2455


def test_committed_records_end_where_a_transaction_is_undecided(golden: TierReader) -> None:
    (committed,) = survey(golden, Scan(topics="txn"))
    (all_records,) = survey(golden, Scan(topics="txn", isolation_level="read_uncommitted"))
    assert (committed.start, committed.end) == (0, FIRST_UNDECIDED)
    assert all_records.end > FIRST_UNDECIDED
    assert committed.segments == all_records.segments
    assert [one.end for one in committed.segments][:-1] == [one.start for one in committed.segments][1:]


def test_segments_are_those_of_the_tier_with_sizes_and_times(golden: TierReader) -> None:
    (known,) = survey(golden, Scan(topics="codec-zstd-rdk"))
    rows = expected_rows("codec-zstd-rdk", 0, "read_uncommitted")
    for span in known.segments:
        times = [row["timestamp"] for row in rows if span.start <= row["offset"] < span.end]
        assert span.max_timestamp == max(times)
        assert span.size_in_bytes > 1000


def test_times_are_looked_up_as_far_as_they_are_wanted(rising: TierReader) -> None:
    def found(**scan: object) -> tuple[int | None, int | None]:
        (known,) = survey(rising, Scan(topics="orders", **scan))  # type: ignore[arg-type]
        return known.first_young_enough, known.first_too_young

    ordered = timedelta(0)
    assert found() == (None, None)
    assert found(since=1500, until=2500) == (500, None)
    assert found(since=1500, until=2500, out_of_order=ordered) == (500, 1500)
    assert found(since=1500, until=2500, out_of_order=timedelta(milliseconds=7)) == (500, 1507)
    assert found(since=1500, start_offset=700) == (700, None)
    assert found(since=10**9, until=2 * 10**9, out_of_order=ordered) == (3000, 3000)
    assert found(since=0, until=0, out_of_order=ordered) == (None, None)


def test_topics_come_by_name_or_by_a_pattern(golden: TierReader) -> None:
    names = [(tip.topic, tip.partition) for tip in partitions_of(golden, Scan(topic_pattern="codec-(zstd|lz4)-rdk|epochs"))]
    assert names == [("codec-lz4-rdk", 0), ("codec-zstd-rdk", 0), ("epochs", 0), ("epochs", 1)]
    (one,) = survey(golden, Scan(topics="epochs", partitions=[1]))
    assert one.topic_partition == TopicPartition("epochs", 1)
    assert survey(golden, Scan(topic_pattern="none-such.*")) == []


def test_a_partition_of_half_copied_segments_alone_is_empty(tmp_path: Path) -> None:
    for directory in (golden_local() / "remote" / "kafka-tiered-storage").glob("logappend-0-*"):
        shutil.copytree(directory, tmp_path / "kafka-tiered-storage" / directory.name)
    for index in tmp_path.glob("*/*/*.timeindex"):
        index.unlink()
    with open_tier(tmp_path.as_uri()) as tier:
        assert survey(tier, Scan(topics="logappend")) == [TieredPartition(TopicPartition("logappend", 0), 0, 0)]


def test_missing_topics_and_partitions_raise(golden: TierReader) -> None:
    with pytest.raises(NoSegmentsError, match="orders"):
        survey(golden, Scan(topics=["epochs", "orders"]))
    with pytest.raises(ConfigurationError, match=r"no segments of partitions \[7\] of epochs"):
        survey(golden, Scan(topics="epochs", partitions=[1, 7]))
