"""Which figures of a followed metadata topic miss their targets, and that the generated records are those of the serde."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.remote_log.partitioner import metadata_partition
from kafka_remote_client.remote_log.serde import RemoteLogMetadataSerde
from tests.benchmarks.metadata_follower import TARGETS, missed, templates


@pytest.mark.parametrize("name", TARGETS)
def test_each_target_of_the_follower_can_be_missed(name: str) -> None:
    assert missed(TARGETS) == []
    (line,) = missed(TARGETS | {name: 2 * TARGETS[name]})
    assert line.startswith(f"missed: {name} is ")


def test_two_events_are_generated_for_each_segment() -> None:
    serde, segment_id = RemoteLogMetadataSerde(), UUID(int=5)
    for number, template in enumerate(templates(101)):
        first, second = map(serde.deserialize, template.records(7, segment_id.bytes))
        assert isinstance(first, RemoteLogSegmentMetadata)
        assert (first.start_offset, first.end_offset, first.segment_leader_epochs[0].start_offset) == (70_000, 79_999, 70_000)
        assert first.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED
        assert second.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        assert second.remote_log_segment_id == first.remote_log_segment_id
        assert (second.remote_log_segment_id.id, second.topic_id_partition.partition) == (segment_id, number % 100)
        assert template.place == metadata_partition(second.topic_id_partition, 50)
