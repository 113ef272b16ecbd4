from __future__ import annotations

import struct
from typing import Any

import pytest

from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import CompletedFetch, read_batches
from kafka_remote_client.records.legacy import read_entry
from tests.support.batches import batch, compress, legacy_message, legacy_set, metadata, xerial

pytestmark = pytest.mark.usefixtures("kernel")


def rows(data: bytes, **options: Any) -> list[tuple[Any, ...]]:
    return list(read_batches(data, **options).rows())


def fails(data: bytes, words: str) -> None:
    with pytest.raises(CorruptRecordError, match=words):
        read_batches(data)


def inner(offsets: range | list[int], magic: int = 1) -> bytes:
    return b"".join(legacy_message(o, b"v%d" % o, key=b"k%d" % o, magic=magic, timestamp=2000 + o) for o in offsets)


def test_magic_0_has_no_timestamp_and_no_epoch() -> None:
    data = legacy_message(5, b"value", magic=0, key=b"key") + legacy_message(6, None, magic=0)
    assert rows(data) == [(5, -1, -1, -1, b"key", b"value", []), (6, -1, -1, -1, None, None, [])]
    (message, _) = read_batches(data).messages("t", 0)
    assert (message.timestamp(), message.leader_epoch(), message.headers()) == ((0, 0), None, None)


def test_magic_1_has_its_own_timestamp_and_type() -> None:
    data = legacy_message(5, b"", timestamp=77) + legacy_message(6, b"x", timestamp=88, attributes=0x08)
    assert rows(data) == [(5, 77, 0, -1, None, b"", []), (6, 88, 1, -1, None, b"x", [])]


@pytest.mark.parametrize("codec", [1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
def test_compressed_set_gives_absolute_offsets(codec: int, magic: int) -> None:
    offsets = range(100, 110) if magic == 0 else range(10)
    found = rows(legacy_set(109, inner(offsets, magic), codec=codec, magic=magic))
    assert [row[0] for row in found] == list(range(100, 110))
    assert [row[5] for row in found] == [b"v%d" % o for o in offsets]
    assert {row[2] for row in found} == ({-1} if magic == 0 else {0})
    assert [row[1] for row in found] == ([-1] * 10 if magic == 0 else [2000 + o for o in offsets])


def test_framed_snappy_in_a_set() -> None:
    assert len(rows(legacy_set(9, b"", codec=2, value=xerial(inner(range(10)))))) == 10


def test_log_append_time_of_the_outer_message_replaces_the_inner_ones() -> None:
    found = rows(legacy_set(9, inner(range(3)), attributes=0x08, timestamp=555))
    assert [(row[0], row[1], row[2]) for row in found] == [(7, 555, 1), (8, 555, 1), (9, 555, 1)]


def test_outer_offset_zero_counts_from_zero() -> None:
    assert [row[0] for row in rows(legacy_set(0, inner(range(4))))] == [0, 1, 2, 3]


def test_relative_offsets_may_have_holes_and_begin_above_zero() -> None:
    assert [row[0] for row in rows(legacy_set(50, inner([2, 3, 7])))] == [45, 46, 50]


def test_outer_offset_below_the_last_inner_one_is_damage() -> None:
    fails(legacy_set(3, inner(range(10))), "contradict")


def test_inner_offsets_must_rise() -> None:
    fails(legacy_set(9, inner([3, 3])), "contradict")
    fails(legacy_set(9, inner([4, 3], 0), magic=0), "contradict")


def test_inner_offsets_must_not_span_more_than_a_batch_can() -> None:
    fails(legacy_set(2**40, inner([0, 2**31], 0), magic=0), "contradict")


def test_records_below_the_fetch_offset_inside_a_set_are_skipped() -> None:
    assert [row[0] for row in rows(legacy_set(9, inner(range(10))), fetch_offset=7)] == [7, 8, 9]


@pytest.mark.parametrize("flags_extra", [0, 0x08])
def test_lz4_of_magic_0_has_a_wrong_header_checksum(flags_extra: int) -> None:
    raw = inner(range(3), 0)
    frame = bytearray(compress(3, raw))
    size_field = b""
    if flags_extra:
        size_field = struct.pack("<Q", len(raw))
    flags = frame[4] & ~0x08 | flags_extra
    had_size = 8 if frame[4] & 0x08 else 0
    broken = bytes(frame[:4]) + bytes([flags, frame[5]]) + size_field + b"\x1a" + bytes(frame[7 + had_size :])
    assert [row[0] for row in rows(legacy_set(2, b"", codec=3, magic=0, value=broken))] == [0, 1, 2]
    fails(legacy_set(2, b"", codec=3, magic=1, value=broken), "do not decompress")
    fails(legacy_set(2, b"", codec=3, magic=0, value=broken[:6]), "do not decompress")


def test_kafkas_own_magic_0_header_vector() -> None:
    from kafka_remote_client.records.legacy import _with_lz4_checksum

    fixed = _with_lz4_checksum(memoryview(bytes.fromhex("04224d1860401a00000000")))
    assert bytes(fixed).hex() == "04224d18604082" + "00000000"


def test_null_value_of_a_compressed_message_is_damage() -> None:
    fails(legacy_message(5, None, attributes=1), "old format")


def test_empty_compressed_set_is_damage() -> None:
    fails(legacy_set(5, b""), "old format")
    fails(legacy_message(5, b"", attributes=1), "do not decompress")


def test_nested_compression_is_damage() -> None:
    fails(legacy_set(5, legacy_set(5, inner(range(2)))), "old format")


def test_zstd_is_damage_in_old_formats() -> None:
    fails(legacy_set(5, inner(range(2)), codec=4), "old format")


def test_unknown_codec_in_an_old_format() -> None:
    with pytest.raises(Exception, match="codec is unknown"):
        read_batches(legacy_message(5, b"x", attributes=6))


def test_inner_message_of_another_magic_is_damage() -> None:
    fails(legacy_set(5, inner(range(2), 0), magic=1), "old format")


def test_partial_inner_message_at_the_end_is_dropped() -> None:
    whole = inner(range(3))
    for cut in (1, 5, 25):
        assert [row[0] for row in rows(legacy_set(9, whole[:-cut]))] == [8, 9]


def test_too_small_inner_message_is_damage() -> None:
    raw = bytearray(inner(range(2)))
    raw[8:12] = struct.pack(">i", 3)
    fails(legacy_set(9, bytes(raw)), "old format")


def test_checksums_of_outer_and_inner_messages_are_verified() -> None:
    raw = bytearray(inner(range(2)))
    raw[-1] ^= 1
    fails(legacy_set(9, bytes(raw)), "checksum")
    outer = bytearray(legacy_set(9, inner(range(2))))
    outer[17] ^= 0x08  # the attributes: the inner messages stay valid
    fails(bytes(outer), "checksum")


@pytest.mark.parametrize(("key_size", "value_size"), [(-2, 5), (100, 5), (3, -2), (3, 100), (3, 4), (7, 5)])
def test_sizes_must_fill_the_message(key_size: int, value_size: int) -> None:
    from zlib import crc32

    body = struct.pack(">bbq", 1, 0, 7) + struct.pack(">i", key_size) + b"key" + struct.pack(">i", value_size) + b"value"
    fails(struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body, "old format")


def test_message_that_ends_within_a_size_is_damage() -> None:
    from zlib import crc32

    body = struct.pack(">bbqi", 1, 0, 7, 2) + b"ke\0\0"
    fails(struct.pack(">qiI", 0, 4 + len(body), crc32(body)) + body, "old format")


def test_formats_may_alternate_within_one_segment() -> None:
    data = legacy_message(0, b"a", magic=0) + legacy_set(3, inner(range(3)), magic=1) + batch(4, epoch=2)
    completed = CompletedFetch(metadata(0, 10, ((2, 0),)), 0, IsolationLevel.READ_UNCOMMITTED, None, at_segment_start=True)
    block, used = completed.feed(data)
    assert [row[0] for row in block.rows()] == [0, 1, 2, 3, 4]
    assert used == len(data)
    assert [block.leader_epoch(i) for i in range(5)] == [-1, -1, -1, -1, 2]


def test_timestamp_difference_wraps_as_a_long() -> None:
    raw = legacy_message(0, b"x", timestamp=2**63 - 1) + legacy_message(1, b"y", timestamp=-(2**63))
    assert [row[1] for row in rows(legacy_set(1, raw, timestamp=-5))] == [2**63 - 1, -(2**63)]


def test_an_entry_describes_the_contents_of_its_set() -> None:
    entry = read_entry(memoryview(legacy_set(9, inner(range(3)))), 10**6)
    assert (entry.base_offset, entry.last_offset, len(entry.messages)) == (7, 9, 3)
