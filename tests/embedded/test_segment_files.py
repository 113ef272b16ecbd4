"""Segments made of batches have the files that readers of a tier expect."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_remote_client.embedded.segment_files import SegmentFiles, segment_files
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentState
from kafka_remote_client.remote_log.layout import REQUIRED, ObjectKind
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.offset_index import OffsetIndex, OffsetPosition
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.remote_log.time_index import TimeIndex, TimestampOffset
from tests.support.tier import TIP, batch

ID = RemoteLogSegmentId(TIP, UUID(int=9))


def made(log: bytes, *lineage: tuple[int, int], interval: int = 4096) -> SegmentFiles:
    entries = [EpochEntry(*entry) for entry in lineage or [(0, 0)]]
    return segment_files(ID, log, entries, broker_id=3, event_timestamp_ms=77, index_interval=interval)


def test_makes_all_objects_but_a_transaction_index() -> None:
    assert made(batch(5)).objects.keys() == REQUIRED
    assert made(batch(5)).metadata.txn_index_empty
    assert open_transactions(made(batch(5)).objects[ObjectKind.PRODUCER_SNAPSHOT]) == ()


def test_metadata_describes_the_batches() -> None:
    log = batch(5, 3, timestamps=[50, 90, 60]) + batch(8, 2, epoch=2, timestamps=[70, 71])
    segment = made(log, (0, 0), (2, 8), (4, 100)).metadata
    assert (segment.start_offset, segment.end_offset, segment.segment_size_in_bytes) == (5, 9, len(log))
    assert (segment.max_timestamp_ms, segment.broker_id, segment.event_timestamp_ms) == (90, 3, 77)
    assert segment.segment_leader_epochs == (EpochEntry(0, 5), EpochEntry(2, 8))
    assert segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED


def test_the_checkpoint_has_the_lineage_up_to_the_end() -> None:
    files = made(batch(5, 3) + batch(8, epoch=2), (0, 0), (2, 8), (4, 100))
    lineage = parse_leader_epoch_checkpoint(files.objects[ObjectKind.LEADER_EPOCH])
    assert list(lineage) == [EpochEntry(0, 0), EpochEntry(2, 8)]


def test_indexes_have_an_entry_after_each_interval() -> None:
    batches = [batch(10 * number, 10, timestamps=[1000 - number] * 10) for number in range(6)]
    size = len(batches[0])
    files = made(b"".join(batches), interval=2 * size - 1)
    index = OffsetIndex(files.objects[ObjectKind.OFFSET_INDEX], 0)
    assert list(index) == [OffsetPosition(29, 2 * size), OffsetPosition(49, 4 * size)]
    index.check_against(files.metadata.end_offset, files.metadata.segment_size_in_bytes)
    # Times decrease: the first batch keeps the maximum, and its entry is written once.
    assert list(TimeIndex(files.objects[ObjectKind.TIME_INDEX], 0)) == [TimestampOffset(1000, 9)]


def test_the_last_time_entry_has_the_maximum() -> None:
    log = b"".join(batch(number, timestamps=[number]) for number in range(6))
    times = TimeIndex(made(log, interval=100).objects[ObjectKind.TIME_INDEX], 0)
    assert times.last_entry() == TimestampOffset(5, 5)
    assert len(times) == 3


def test_refuses_bytes_that_are_not_a_batch() -> None:
    damaged = bytearray(batch(5))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        made(bytes(damaged))
