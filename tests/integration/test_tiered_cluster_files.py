"""Kafka's own tools read the files and the metadata records that the model of a tiered partition writes."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from kafka_remote_client.tiered_cluster.batches import Marker, Record, new_batch
from kafka_remote_client.tiered_cluster.indexes import offset_index_entries
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_cluster.partition import RunCopy
from kafka_remote_client.tiered_cluster.segment_files import segment_files
from tests.support import artifacts
from tests.tiered_cluster.logs import data, marker, new_log
from tests.tiered_cluster.world import World

pytestmark = pytest.mark.broker

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


def dumped(*options: str, files: list[Path]) -> str:
    """What DumpLogSegments prints."""
    shown = ("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(map(str, files)))
    command = artifacts.kafka_tool(*shown)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tiered() -> World:
    """Two copied segments: a transaction begins in the first, and is aborted in the second."""
    batches = [data(), data(producer=7), data(), marker(Marker.ABORT, 7), data(5), data(), data()]
    world = World(new_log(index_interval_bytes=1).appended(batches, 0).replicated())
    world.custom_metadata = b"where"
    world.do(RunCopy(10_000, (UUID(int=1), UUID(int=2))))
    return world


def test_kafkas_tools_read_the_files_of_a_segment(tmp_path: Path) -> None:
    log = tiered().log
    batches = log.segments[1].batches
    for kind, content in segment_files(log, 1).items():
        (tmp_path / f"{20:020d}{kind.value}").write_bytes(content)
    files = [path for path in sorted(tmp_path.iterdir()) if path.suffix in SUFFIXES]
    assert {path.suffix for path in files} == set(SUFFIXES)
    text = dumped("--print-data-log", files=files)
    assert text.count("isvalid: true") == len(batches) == 3
    assert text.count("endTxnMarker: ABORT") == 1
    entries = list(offset_index_entries(batches, 1))
    assert [last for last, _ in entries] == [batch.last_offset for batch in batches[1:]]
    assert all(f"offset: {last} position: {position}" in text for last, position in entries)
    assert "version: 0 producerId: 7 firstOffset: 10 lastOffset: 30 lastStableOffset: 31" in text
    assert "producerId: 7 producerEpoch: 0 coordinatorEpoch: 0 currentTxnFirstOffset: OptionalLong.empty" in text
    assert not re.search("mismatch|Found|corrupt", text, re.IGNORECASE), text


def test_kafkas_serde_reads_the_metadata_records(tmp_path: Path) -> None:
    world = tiered()
    topic = PartitionLog(TopicConfig()).elected(0)
    topic = topic.appended([new_batch([Record(0, 5, None, value)]) for value in world.topic], 0)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(topic.segments[0].log)
    text = dumped("--print-data-log", "--remote-log-metadata-decoder", files=[path])
    assert text.count("RemoteLogSegmentMetadata{") == text.count("RemoteLogSegmentMetadataUpdate{") == 2, text
    assert text.count("state=COPY_SEGMENT_STARTED") == text.count("state=COPY_SEGMENT_FINISHED") == 2
    found = re.findall(r"startOffset=(\d+), endOffset=(\d+), brokerId=1, maxTimestampMs=1000", text)
    assert found == [("0", "19"), ("20", "35")]
    assert text.count("segmentLeaderEpochs={0=0}") == text.count("segmentLeaderEpochs={0=20}") == 1
