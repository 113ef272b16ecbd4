from __future__ import annotations

import struct

import pytest

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import read_batches
from kafka_remote_client.records.control import ABORT, COMMIT, control_type
from kafka_remote_client.records.faults import BatchFault
from tests.support.batches import Rec, abort_marker, batch, commit_marker, control_batch, record

pytestmark = pytest.mark.usefixtures("kernel")

# Written by Kafka: offset 42, producer 77, epoch 2, coordinator 9, leader epoch 5, timestamp 1000
ABORT_VECTOR = bytes.fromhex(
    "000000000000002a0000004200000005028a9c250300300000000000000000000003e800000000000003e8000000000000004d0002ffffffff"
    "000000012000000008000000000c00000000000900"
)
LEVELS = [IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED]


def test_types_are_read_from_the_key() -> None:
    assert control_type(b"\0\0\0\0") == ABORT
    assert control_type(b"\0\0\0\1") == COMMIT


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, 99, -1])
def test_unknown_types_are_read_and_ignored(kind: int) -> None:
    assert control_type(struct.pack(">hh", 0, kind)) == kind


@pytest.mark.parametrize("version", [1, 2, 32767])
def test_newer_versions_are_read_as_version_0(version: int) -> None:
    assert control_type(struct.pack(">hh", version, 0) + b"more") == ABORT


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_short_null_or_negative_version_keys_are_damage(key: bytes | None) -> None:
    with pytest.raises(BatchFault):
        control_type(key)


@pytest.mark.parametrize("level", LEVELS)
def test_kafkas_own_marker_is_never_returned_and_moves_the_offset(level: IsolationLevel) -> None:
    block = read_batches(ABORT_VECTOR, isolation_level=level)
    assert (len(block), block.next_offset, block.last_leader_epoch) == (0, 43, 5)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", [2, 6, 99])
def test_control_batches_of_unknown_type_are_skipped(kind: int, level: IsolationLevel) -> None:
    block = read_batches(batch(0) + control_batch(1, 5, kind) + batch(2), isolation_level=level)
    assert [row[0] for row in block.rows()] == [0, 2]


def test_a_short_control_key_is_damage_only_if_the_filter_reads_it() -> None:
    data = control_batch(0, 5, 0, key=b"\0\0")
    assert read_batches(data).next_offset == 1
    with pytest.raises(CorruptRecordError, match="control record"):
        read_batches(data, isolation_level=IsolationLevel.READ_COMMITTED)
    # a control batch without a producer (a leader change) is not a marker, whatever its key
    no_producer = control_batch(0, -1, 0, key=b"\0\0")
    assert read_batches(no_producer, isolation_level=IsolationLevel.READ_COMMITTED).next_offset == 1


@pytest.mark.parametrize("level", LEVELS)
def test_a_damaged_record_in_a_control_batch_is_damage_at_both_levels(level: IsolationLevel) -> None:
    broken = batch(0, record(Rec(key=b"\0\0\0\0")) + b"junk", attributes=0x30, producer=5)
    with pytest.raises(CorruptRecordError, match="bytes remain"):
        read_batches(broken, isolation_level=level)


@pytest.mark.parametrize("level", LEVELS)
def test_an_empty_control_batch_moves_the_offset_and_ends_nothing(level: IsolationLevel) -> None:
    block = read_batches(batch(0, [], attributes=0x30, producer=5) + batch(1), isolation_level=level)
    assert [row[0] for row in block.rows()] == [1]


def test_a_compressed_control_batch_is_read() -> None:
    block = read_batches(abort_marker(0, 5, codec=3) + commit_marker(1, 6), isolation_level=IsolationLevel.READ_COMMITTED)
    assert block.next_offset == 2
