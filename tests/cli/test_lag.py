from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import attrs
import pytest

from kafka_remote_client.cli.lag import lag_lines
from kafka_remote_client.cli.offsets import OffsetsLine
from kafka_remote_client.clock import SystemClock
from kafka_remote_client.embedded.cluster import EmbeddedCluster
from kafka_remote_client.model import RemoteLogSegmentId, RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.events import RemoteLogMetadata
from kafka_remote_client.remote_log.follower import METADATA_TOPIC
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.support.cli_run import failed, printed
from tests.support.embedded_topics import fill_topic, small_cluster

pytestmark = pytest.mark.embedded

TEXT = """\
topic   partition  copied  end  lag  busy  dangling
orders          0     240  300   60     1         2
orders          1     240  300   60     0         0
orders          2       0    0    0     0         0
orders          3       0    0    0     0         0
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """Two partitions of "orders" are tiered; of partition 0 a copy has just begun, and two began an hour ago."""
    events: list[RemoteLogMetadata] = []
    with small_cluster(tmp_path_factory.mktemp("tier"), observe=events.append) as made:
        fill_topic(made, "orders", 300, (0, 1))
        producer, partitions = made.producer(), 5  # as many as the broker's metadata topic has
        begun = next(
            event for event in events if isinstance(event, RemoteLogSegmentMetadata) and event.topic_id_partition.partition == 0
        )
        now = SystemClock().time_ms()
        for age_ms in (0, 3_600_000, 3_600_000):
            identity = RemoteLogSegmentId(begun.topic_id_partition, uuid4())
            event = attrs.evolve(begun, remote_log_segment_id=identity, event_timestamp_ms=now - age_ms)
            partition = metadata_partition(begun.topic_id_partition, partitions)
            producer.produce(METADATA_TOPIC, RemoteLogMetadataSerde().serialize(event), partition=partition)
        assert producer.flush(60) == 0
        yield made


def test_lag_and_unfinished_segments_are_a_table(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "lag", "orders", "--bootstrap-servers", cluster.bootstrap_servers) == TEXT


def test_grace_decides_what_dangles(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["lag", "orders", "--bootstrap-servers", cluster.bootstrap_servers, "--output", "json", "--grace", "7200"]
    first, *_ = map(json.loads, printed(capsys, *asked).splitlines())
    assert first == {
        "topic": "orders",
        "partition": 0,
        "copied_offset": 240,
        "end_offset": 300,
        "lag_records": 60,
        "busy_segments": 3,
        "dangling_segments": 0,
    }


@pytest.mark.parametrize(
    ("start", "tiered", "copied", "lag"),
    [
        (0, 99, 100, 200),
        (200, 99, 200, 100),
        (300, 99, 300, 0),
        (7, None, 7, 293),
        (None, 99, 100, 200),
        (None, None, None, None),
    ],
)
def test_deleted_records_are_no_lag(start: int | None, tiered: int | None, copied: int | None, lag: int | None) -> None:
    (line,) = lag_lines([OffsetsLine("orders", 0, start, None, tiered, 300)], None, 0, 0)
    assert (line.copied_offset, line.lag_records) == (copied, lag)


def test_segments_are_not_counted_without_metadata(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    rows = printed(capsys, "lag", "orders", "--bootstrap-servers", cluster.bootstrap_servers, "--no-metadata").splitlines()
    assert rows[1].split() == ["orders", "0", "240", "300", "60", "-", "-"]


def test_missing_metadata_topic_is_an_error_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with small_cluster(tmp_path) as plain:
        fill_topic(plain, "orders", 20)
        asked = ["lag", "orders", "--bootstrap-servers", plain.bootstrap_servers, "--metadata-topic", "none"]
        text, status = failed(capsys, *asked, "--metadata-timeout", "1e9")
    assert "the metadata topic none cannot be read: " in text
    assert "Unknown topic or partition; check --metadata-topic" in text
    assert status == 1
