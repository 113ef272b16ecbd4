"""Batches hold the records they were made of, also for the client's reader and for kafka-python's."""

from __future__ import annotations

import struct

import crc32c
import pytest
from kafka.record.default_records import DefaultRecordBatch

from kafka_remote_client.records.reader import read_batches
from kafka_remote_client.tiered_cluster.batches import (
    Batch,
    Codec,
    Marker,
    Producer,
    Record,
    marker_of,
    new_batch,
    new_marker,
    parse_batches,
    placed,
    records_of,
    stamped,
)

RECORDS = (
    Record(5, 1000, b"key", b"value" * 9000, ((b"name", b"content"), (b"empty", None))),
    Record(6, 900, None, b""),
    Record(9, 1_000_000, b"", None),
)


@pytest.mark.parametrize("codec", Codec)
def test_readers_return_the_records_of_a_batch(codec: Codec) -> None:
    batch = new_batch(RECORDS, codec=codec, producer=Producer(7, 1, 40))
    assert parse_batches(batch.data) == (batch,)
    assert records_of(batch) == RECORDS
    rows = [
        Record(r.offset, r.timestamp, r.key, r.value, tuple((name.encode(), content) for name, content in r.headers))
        for r in library_records(batch.data)
    ]
    assert rows == list(RECORDS)
    block = read_batches(batch.data)
    read = [(block.offset(n), block.timestamp(n), block.key(n), block.value(n)) for n in range(len(block))]
    assert read == [(r.offset, r.timestamp, r.key, r.value) for r in RECORDS]


def library_records(data: bytes) -> list:
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    return list(batch)


def test_the_header_describes_the_records() -> None:
    batch = new_batch(RECORDS, producer=Producer(7, 1, 40, transactional=True), codec=Codec.GZIP)
    assert (batch.base_offset, batch.last_offset, batch.count, batch.leader_epoch) == (5, 9, 3, -1)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1_000_000)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (7, 1, 40, 44)
    assert (batch.transactional, batch.control, batch.log_append_time, batch.codec) == (True, False, False, Codec.GZIP)
    assert batch.size == len(batch.data)


def test_a_leader_places_a_batch_without_a_new_checksum() -> None:
    batch = new_batch(RECORDS)
    moved = placed(batch, 100, 3)
    assert parse_batches(moved.data) == (moved,)
    assert [record.offset for record in records_of(moved)] == [100, 101, 104]
    assert (moved.leader_epoch, moved.data[17:]) == (3, batch.data[17:])


def test_log_append_time_replaces_the_time_that_readers_see() -> None:
    batch = stamped(new_batch(RECORDS, codec=Codec.ZSTD), 5_000_000)
    assert batch.log_append_time
    assert {record.timestamp for record in library_records(batch.data)} == {5_000_000}
    assert [record.timestamp for record in records_of(batch)] == [1000, 900, 1_000_000]


@pytest.mark.parametrize("kind", Marker)
def test_markers_end_transactions(kind: Marker) -> None:
    marker = new_marker(kind, Producer(7, 2, 40), 123, coordinator_epoch=9)
    assert (marker.control, marker.transactional, marker.base_sequence, marker.max_timestamp) == (True, True, -1, 123)
    assert marker_of(marker) == (kind, 9)
    assert DefaultRecordBatch(marker.data).is_control_batch
    assert len(read_batches(marker.data)) == 0


@pytest.mark.parametrize(("sequence", "last"), [(-1, -1), (2**31 - 2, 2), (2**31 - 5, 2**31 - 1)])
def test_sequences_wrap_around(sequence: int, last: int) -> None:
    assert new_batch(RECORDS, producer=Producer(7, 0, sequence)).last_sequence == last


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: data[:60], "incomplete batch header at byte 0"),
        (lambda data: data[:-1], "batch at offset 5 ends at byte"),
        (lambda data: data[:11] + b"\0" + data[12:], "batch at offset 5 ends at byte"),
        (lambda data: data[:16] + b"\1" + data[17:], "batch at offset 5 has magic 1, not 2"),
        (lambda data: data[:-1] + b"x", "batch at offset 5 has a wrong checksum"),
    ],
)
def test_refuses_what_is_no_batch(damage, message: str) -> None:
    data = new_batch((Record(5, 0, b"k", b"v"),)).data
    with pytest.raises(ValueError, match=message):
        parse_batches(damage(data))


def test_refuses_a_record_that_ends_elsewhere() -> None:
    batch = new_batch((Record(5, 0, b"k", b"v"),))
    longer = batch.payload[:-1] + b"\2"  # one header more
    with pytest.raises(ValueError, match="record at offset 5 does not end where its length says"):
        records_of(with_payload(batch.data, longer + b"\0\0"))


def with_payload(data: bytes, payload: bytes) -> Batch:
    body = data[21:61] + payload
    front = data[:8] + struct.pack(">i", 9 + len(body)) + data[12:17]
    return parse_batches(front + struct.pack(">I", crc32c.crc32c(body)) + body)[0]


def test_a_batch_holds_a_record() -> None:
    with pytest.raises(ValueError, match="a batch holds at least one record"):
        new_batch(())
