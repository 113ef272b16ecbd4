from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.model import EpochEntry, RemoteLogSegmentState
from kafka_remote_client.remote_log.events import (
    RemoteLogSegmentMetadataSnapshot,
    RemoteLogSegmentMetadataUpdate,
    RemotePartitionDeleteState,
)
from tests.support.tier import TIP, metadata

SEGMENT = metadata(0, 9, number=3, custom_metadata=b"secret", txn_index_empty=True)
SNAPSHOT = RemoteLogSegmentMetadataSnapshot(
    UUID(int=3), 0, 9, 1, 1009, 5000, (EpochEntry(0, 0),), 1000, b"secret", RemoteLogSegmentState(0), txn_index_empty=True
)


def test_an_event_has_a_transaction_index_by_default():
    values = {one.name: getattr(SNAPSHOT, one.name) for one in attrs.fields(type(SNAPSHOT)) if one.name != "txn_index_empty"}
    assert not RemoteLogSegmentMetadataSnapshot(**values).txn_index_empty


@pytest.mark.parametrize(
    "event",
    [SNAPSHOT, RemoteLogSegmentMetadataUpdate(SEGMENT.remote_log_segment_id, 1, 0, RemoteLogSegmentState(1), b"secret")],
)
def test_repr_hides_custom_metadata(event):
    assert "secret" not in repr(event)
    assert "<6 bytes>" in repr(event)
    assert "custom_metadata=None" in repr(attrs.evolve(event, custom_metadata=None))


def test_an_update_has_its_partition():
    update = RemoteLogSegmentMetadataUpdate(SEGMENT.remote_log_segment_id, 1, 0, RemoteLogSegmentState(1))
    assert update.topic_id_partition == TIP


def test_delete_states_have_kafkas_numbers():
    assert [(state.name, state.value) for state in RemotePartitionDeleteState] == [
        ("DELETE_PARTITION_MARKED", 0),
        ("DELETE_PARTITION_STARTED", 1),
        ("DELETE_PARTITION_FINISHED", 2),
    ]
