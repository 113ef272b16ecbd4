from __future__ import annotations

import struct
from typing import Any

import pytest

from kafka_remote_client.errors import CorruptRecordError, DirectFetchError, UnsupportedFormatError
from kafka_remote_client.records import BatchRules, RemoteLogInputStream
from kafka_remote_client.records.batch import PREFIX_SIZE, BatchPrefix, checksum_matches, read_unverified_header, write_batch
from kafka_remote_client.records.faults import Fault
from tests.support.batches import Rec, batch, fix_crc, legacy_message, metadata

pytestmark = pytest.mark.usefixtures("kernel")


def walk(data: bytes, **rules: Any) -> RemoteLogInputStream:
    return RemoteLogInputStream(data, BatchRules(**rules))


def fails(data: bytes, kind: type[DirectFetchError], words: str, good: int = 0, **rules: Any) -> None:
    stream = walk(data, **rules)
    seen: list[object] = []
    with pytest.raises(kind, match=words):
        seen.extend(stream)
    assert len(seen) == good


def test_batches_of_one_and_many_records_have_all_their_fields() -> None:
    data = batch(5, [Rec(0), Rec(1), Rec(4)], epoch=3, producer=77, attributes=0x10) + batch(10, [Rec()], epoch=4)
    first, second = walk(data)
    assert (first.base_offset, first.last_offset, first.record_count, first.leader_epoch, first.producer_id) == (5, 9, 3, 3, 77)
    assert (first.base_timestamp, first.max_timestamp, first.magic, first.codec) == (1000, 2000, 2, 0)
    assert first.is_transactional
    assert not first.is_control
    assert not first.is_log_append_time
    assert (first.position, first.end, second.position) == (0, first.size, first.size)
    assert second.base_offset == 10


@pytest.mark.parametrize("cut", [1, 16, 17, 18, 60, 61, 67])
def test_truncated_last_batch_is_left_out(cut: int) -> None:
    whole = batch(0)
    assert len(whole) == 68
    stream = walk(whole + batch(1)[:cut])
    assert [header.base_offset for header in stream] == [0]
    assert stream.consumed == len(whole)
    assert stream.needed == (68 if cut >= 17 else 0)


def test_many_batches_are_read_in_order() -> None:
    assert [header.base_offset for header in walk(b"".join(batch(i) for i in range(300)))] == list(range(300))


def test_an_empty_buffer_has_no_batches() -> None:
    stream = walk(b"")
    assert list(stream) == []
    assert (stream.consumed, stream.needed) == (0, 0)


def with_size(data: bytes, size: int) -> bytes:
    return data[:8] + struct.pack(">i", size) + data[12:]


def with_magic(data: bytes, magic: int) -> bytes:
    return data[:16] + struct.pack(">b", magic) + data[17:]


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 13, 48])
def test_too_small_a_size_is_damage(size: int) -> None:
    fails(with_size(batch(), size), CorruptRecordError, "size field is smaller")


@pytest.mark.parametrize(("magic", "size"), [(0, 13), (1, 21)])
def test_too_small_a_size_of_an_old_message_is_damage(magic: int, size: int) -> None:
    fails(with_size(legacy_message(0, b"value", magic=magic), size), CorruptRecordError, "size field is smaller")


def test_a_size_beyond_the_segment_is_damage_not_a_cut_off_batch() -> None:
    fails(with_size(batch(), 2**31 - 1), CorruptRecordError, "larger than the whole segment", max_batch_bytes=10**6)


@pytest.mark.parametrize("magic", [3, 4, 127, -1, -128])
def test_unknown_magic_is_an_unsupported_format(magic: int) -> None:
    fails(with_magic(batch(), magic), UnsupportedFormatError, "magic")


def test_unknown_magic_with_an_impossible_size_is_damage() -> None:
    fails(with_size(with_magic(batch(), 3), 13), CorruptRecordError, "size field is smaller")


def test_raises_for_checksum_mismatch_after_the_good_batches() -> None:
    bad = bytearray(batch(1))
    bad[-1] ^= 1
    fails(batch(0) + bytes(bad), CorruptRecordError, "position 68 with base offset 1: its checksum", good=1)


def test_error_carries_position_and_offset() -> None:
    bad = bytearray(batch(1))
    bad[30] ^= 1
    with pytest.raises(CorruptRecordError) as caught:
        list(walk(batch(0) + bytes(bad)))
    assert (caught.value.position, caught.value.offset) == (68, 1)


def test_last_offset_below_base_offset_is_damage() -> None:
    fails(batch(5, last_delta=-1), CorruptRecordError, "last offset is below")


def test_negative_record_count_is_damage() -> None:
    fails(batch(5, count=-1), CorruptRecordError, "record count")


@pytest.mark.parametrize("base", [-1, -(2**63), 2**63 - 1])
def test_offsets_outside_any_log_are_damage(base: int) -> None:
    fails(batch(base, last_delta=1), CorruptRecordError, "outside of the segment")


@pytest.mark.parametrize(("start", "end"), [(6, 100), (0, 6)])
def test_offsets_outside_the_segment_are_damage(start: int, end: int) -> None:
    fails(batch(5, last_delta=2), CorruptRecordError, "outside of the segment", start_offset=start, end_offset=end)


def test_batches_must_follow_one_another_without_gaps() -> None:
    fails(batch(0) + batch(1) + batch(3), CorruptRecordError, "does not follow", good=2, allow_offset_gaps=False)
    assert len(list(walk(batch(0) + batch(1) + batch(3)))) == 3


@pytest.mark.parametrize("base", [0, 1])
def test_batches_must_not_go_back(base: int) -> None:
    fails(batch(0) + batch(1, last_delta=1) + batch(base + 1), CorruptRecordError, "does not follow", good=2)


def test_a_first_batch_is_damage_if_the_second_does_not_follow_it() -> None:
    fails(batch(1) + batch(1), CorruptRecordError, "position 0 with base offset 1", good=0)


EPOCHS = ((0, 0), (2, 10), (5, 20))


@pytest.mark.parametrize(("base", "epoch"), [(0, 0), (9, 0), (10, 2), (19, 2), (20, 5), (99, 5)])
def test_leader_epoch_must_be_the_one_that_wrote_the_offset(base: int, epoch: int) -> None:
    assert len(list(walk(batch(base, epoch=epoch), epochs=EPOCHS))) == 1
    fails(batch(base, epoch=epoch + 1), CorruptRecordError, "leader epoch", epochs=EPOCHS)


@pytest.mark.parametrize(("base", "last", "epoch"), [(0, 4, 0), (0, 4, 2), (3, 5, 2), (3, 9, 2)])
def test_batches_before_the_first_known_epoch_are_not_damage(base: int, last: int, epoch: int) -> None:
    """DeleteRecords moved the log's start to offset 5 before the segment was copied, so its epochs begin there."""
    assert len(list(walk(batch(base, epoch=epoch, last_delta=last - base), epochs=((2, 5), (4, 10))))) == 1


@pytest.mark.parametrize(("base", "last", "epoch"), [(0, 4, 3), (0, 4, -1), (3, 5, 1), (3, 5, 4)])
def test_batches_before_the_first_known_epoch_have_no_later_one(base: int, last: int, epoch: int) -> None:
    data = batch(base, epoch=epoch, last_delta=last - base)
    fails(data, CorruptRecordError, "leader epoch", epochs=((2, 5), (4, 10)))


def test_old_messages_have_no_leader_epoch_to_check() -> None:
    (header,) = walk(legacy_message(3, b"value"), epochs=((7, 0),))
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.producer_id) == (3, 3, -1, -1)


def test_damaged_old_message_is_reported_with_its_offset() -> None:
    bad = bytearray(legacy_message(3, b"value"))
    bad[-1] ^= 1
    fails(legacy_message(2, b"x") + bytes(bad), CorruptRecordError, "base offset 3: its checksum", good=1)
    fails(legacy_message(2, b"x") + legacy_message(2, b"x") * 2, CorruptRecordError, "does not follow", good=0)


def test_the_rules_of_a_segment_come_from_its_metadata() -> None:
    rules = BatchRules.of_segment(metadata(10, 19, ((1, 10), (2, 15)), 999))
    assert (rules.start_offset, rules.end_offset, rules.max_batch_bytes) == (10, 19, 999)
    assert rules.epochs == ((1, 10), (2, 15))
    assert not rules.allow_offset_gaps


def test_set_leader_epoch_or_offset_leaves_the_checksum_valid() -> None:
    data = batch(0, epoch=1)
    moved = struct.pack(">q", 42) + data[8:12] + struct.pack(">i", 9) + data[16:]
    (header,) = walk(moved)
    assert (header.base_offset, header.leader_epoch) == (42, 9)
    assert fix_crc(data) == data


def test_attribute_bits_read_by_name() -> None:
    (header,) = walk(batch(0, attributes=0x28))
    assert header.is_log_append_time
    assert header.is_control
    (header,) = walk(batch(0, attributes=0x40 | 0x7F00))
    assert not header.is_control
    assert header.codec == 0


def test_good_batches_and_the_error_after_them_are_returned() -> None:
    damaged = walk(batch(0) + batch(1)[:-1] + b"\xff")
    assert [header.base_offset for header in damaged.batches] == [0]
    assert isinstance(damaged.error, CorruptRecordError)
    assert walk(batch(0)).error is None


def test_header_list_refuses_an_index_out_of_range(kernel: str) -> None:
    batches = walk(batch(0))._batches
    assert batches[0].base_offset == 0
    for index in (1, -2):
        with pytest.raises(IndexError):
            batches[index]


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (batch(0), Fault.NONE),
        (with_size(batch(0), 48), Fault.BATCH_SIZE),
        (with_size(batch(0), 2**31 - 1), Fault.BEYOND_SEGMENT),
        (batch(0)[:16] + b"\x03", Fault.MAGIC),
        (with_size(batch(0), -1)[:16] + b"\xff", Fault.BATCH_SIZE),
        (legacy_message(0, b"v", magic=0), Fault.NONE),
    ],
)
def test_a_bad_prefix_is_an_error_before_the_batch_is_read(data: bytes, fault: Fault) -> None:
    assert BatchPrefix.read(b"xx" + data[:PREFIX_SIZE], 2).fault(1000) is fault


def test_an_unverified_header_equals_the_verified_one_without_records() -> None:
    data = batch(5, [Rec(0), Rec(4)], epoch=3, producer=77, attributes=0x20)
    (verified,) = walk(data)
    assert read_unverified_header(data[:61], 0, BatchPrefix.read(data)) == verified
    assert read_unverified_header(data[:61], 9, BatchPrefix.read(data)).position == 9


def test_checksum_of_a_batch_does_not_depend_on_its_size_field() -> None:
    data = batch(0)
    assert checksum_matches(with_size(data, 10**6))
    assert not checksum_matches(data[:-1] + b"\xaa")
    assert not checksum_matches(data[:60])


def test_a_written_batch_has_the_bytes_of_an_independent_writer() -> None:
    records = [(1000, b"k", b"v" * 200), (990, None, b""), (2000, b"", None)]
    expected = [Rec(0, b"k", b"v" * 200), Rec(1, None, b"", timestamp=-10), Rec(2, b"", None, timestamp=1000)]
    assert write_batch(2**40, records, 7) == batch(2**40, expected, epoch=7, timestamp=1000, max_timestamp=2000)
    assert write_batch(5, records[:1]) == batch(5, expected[:1], epoch=-1, timestamp=1000, max_timestamp=1000)
