"""Indexes have the entries that Kafka's documentation of LogSegment tells. Golden files judge them in test_segment_files."""

from __future__ import annotations

from kafka_remote_client.remote_log.offset_index import OffsetIndex, OffsetPosition
from kafka_remote_client.remote_log.time_index import TimeIndex, TimestampOffset
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from kafka_remote_client.tiered_cluster.batches import Batch, Record, new_batch, placed
from kafka_remote_client.tiered_cluster.indexes import (
    AbortedEntry,
    max_timestamp,
    offset_index,
    offset_index_entries,
    time_index,
    transaction_index,
)


def batches(*timestamps: int) -> tuple[Batch, ...]:
    """Batches of two records each from offset 100 on, of the same size."""
    return tuple(
        placed(new_batch([Record(0, time, None, b"v" * 50), Record(1, time, None, b"v" * 50)]), 100 + 2 * number, 0)
        for number, time in enumerate(timestamps)
    )


def test_an_entry_follows_each_interval() -> None:
    segment = batches(50, 49, 48, 47, 46, 45)
    size = segment[0].size
    assert list(offset_index_entries(segment, 2 * size - 1)) == [(105, 2 * size), (109, 4 * size)]
    assert list(offset_index_entries(segment, 2 * size)) == [(107, 3 * size)]
    index = OffsetIndex(offset_index(100, segment, 2 * size - 1), 100)
    assert list(index) == [OffsetPosition(105, 2 * size), OffsetPosition(109, 4 * size)]


def test_the_time_index_has_each_highest_time_once() -> None:
    # Times fall: the first batch keeps the maximum.
    assert list(TimeIndex(time_index(100, batches(50, 49, 48), 1), 100)) == [TimestampOffset(50, 101)]
    rising = TimeIndex(time_index(100, batches(1, 5, 3, 9), 1), 100)
    assert list(rising) == [TimestampOffset(5, 103), TimestampOffset(9, 107)]


def test_offsets_count_from_the_segments_own_base() -> None:
    # Compaction may remove the first batches, and the file keeps its name.
    segment = batches(1, 2, 3)
    assert [one.offset for one in OffsetIndex(offset_index(90, segment, 1), 90)] == [103, 105]
    assert list(TimeIndex(time_index(90, segment, 1), 90))[-1] == TimestampOffset(3, 105)
    assert offset_index(90, (), 1) == time_index(90, (), 1) == b""


def test_records_without_a_time_have_no_entry() -> None:
    assert time_index(100, batches(-1, -1), 1) == b""
    assert (max_timestamp(batches(-1, -1)), max_timestamp(()), max_timestamp(batches(4, 9, 2))) == (-1, -1, 9)


def test_the_client_reads_the_transaction_index() -> None:
    data = transaction_index([AbortedEntry(7, 10, 20, 15), AbortedEntry(8, 15, 30, 31)])
    index = TransactionIndex.parse(data, 0, 100)
    found = [(one.producer_id, one.first_offset, one.last_offset, one.last_stable_offset) for one in index]
    assert found == [(7, 10, 20, 15), (8, 15, 30, 31)]
