from __future__ import annotations

import base64
import struct
from itertools import pairwise

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.remote_log.aiven.chunk_index import (
    MAX_SIZE,
    Chunk,
    ChunkEncoding,
    ChunkIndex,
    aligned,
    chunk_count,
    decode_sizes,
)
from kafka_remote_client.tiered_kafka.aiven_files import encode_sizes

PLAIN, ZSTD, AES, BOTH = (
    ChunkEncoding(),
    ChunkEncoding(compressed=True),
    ChunkEncoding(encrypted=True),
    ChunkEncoding(True, True),
)
# From the plugin's own unit tests, and the example that storage notes of this format are checked with.
VECTORS = {
    (10, 20, 30): ("KLUv/SAPeQAAAAAAAwAAAAoBAAoAAAAe", "000000030000000a01000a0000001e"),
    (5_000_000,): ("KLUv/SAIQQAAAAAAAQBMS0A=", "00000001004c4b40"),
    (364369, 364278, 179823): ("KLUv/SAPeQAAAAAAAwAFjvYBWwAAAr5v", "0000000300058ef6015b000002be6f"),
}


def framed(payload: bytes) -> str:
    return base64.b64encode(bytes(cramjam.zstd.compress(payload))).decode()


def example() -> ChunkIndex:
    """2,500,000 bytes in chunks of 1,000,000, compressed and encrypted."""
    return ChunkIndex.of_sizes(BOTH, [364369, 364278, 179823], chunk_size=1_000_000, original_start=0, original_end=2_500_000)


@pytest.mark.parametrize(("sizes", "texts"), list(VECTORS.items()))
def test_golden_texts_are_written_and_read(sizes, texts):
    text, payload = texts
    assert decode_sizes(text, len(sizes)) == list(sizes)
    assert bytes(cramjam.zstd.decompress(base64.b64decode(encode_sizes(sizes)))).hex() == payload


@settings(deadline=None)
@given(st.lists(st.integers(0, MAX_SIZE), min_size=1, max_size=50))
def test_written_sizes_are_read_back(sizes):
    assert decode_sizes(encode_sizes(sizes), len(sizes)) == sizes


@pytest.mark.parametrize(
    ("payload", "count"),
    [
        (b"", 1),
        (b"\0\0\0", 1),
        (struct.pack(">i", 0), 1),
        (struct.pack(">i", 1), 1),
        (struct.pack(">ii", 2, 5), 1),
        (struct.pack(">iii", 1, 5, 5), 1),
        (struct.pack(">ii", 1, 5), 2),
        (struct.pack(">ii", 2, 5), 2),
        (struct.pack(">iiBBi", 2, 5, 0, 0, 5), 2),
        (struct.pack(">iiB5si", 2, 5, 5, b"aaaaa", 5), 2),
        (struct.pack(">iiBBi", 2, 5, 2, 0, 5), 2),
        (struct.pack(">iiBBBi", 2, 5, 1, 0, 0, 5), 2),
        (struct.pack(">iiBBi", -2, 5, 1, 0, 5), 2),
    ],
)
def test_a_payload_with_another_count_of_sizes_is_refused(payload, count):
    with pytest.raises(RemoteLogMetadataError):
        decode_sizes(framed(payload), count)


@pytest.mark.fault("S19")
def test_a_decompression_bomb_is_refused_without_being_unpacked():
    bomb = framed(struct.pack(">ii", 1, 5) + bytes(50_000_000))
    assert len(bomb) < 20_000
    with pytest.raises(RemoteLogMetadataError, match="at most 13 bytes"):
        decode_sizes(bomb, 1)
    with pytest.raises(RemoteLogMetadataError, match="at most 4194313 bytes"):
        decode_sizes(bomb, 1 << 20)


@pytest.mark.fault("S19")
def test_more_chunks_than_the_limit_are_refused():
    count = (1 << 20) + 1
    sound = struct.pack(">iiB", count, 1, 1) + bytes(count - 1) + struct.pack(">i", 1)
    for refused in (count, MAX_SIZE):
        with pytest.raises(RemoteLogMetadataError, match=f"of {refused} chunks, more than 1048576"):
            decode_sizes(framed(sound), refused)
    most = struct.pack(">iiB", count - 1, 1, 1) + bytes(count - 2) + struct.pack(">i", 1)
    assert len(decode_sizes(framed(most), count - 1)) == count - 1


@pytest.mark.parametrize("text", ["", "!", "KLUv", "ä", "AAAA", VECTORS[10, 20, 30][0][:-4]])
def test_a_text_that_is_not_a_zstd_frame_is_refused(text):
    with pytest.raises(RemoteLogMetadataError):
        decode_sizes(text, 3)


@settings(deadline=None)
@given(st.binary(max_size=40), st.integers(1, 5))
def test_any_payload_gives_sizes_or_a_typed_error(payload, count):
    try:
        assert len(decode_sizes(framed(payload), count)) == count
    except RemoteLogMetadataError:
        return


def test_chunks_are_adjacent_in_segment_and_object():
    chunks = example()
    assert list(chunks) == [
        Chunk(0, 1_000_000, 0, 364369),
        Chunk(1_000_000, 2_000_000, 364369, 728647),
        Chunk(2_000_000, 2_500_000, 728647, 908470),
    ]
    assert (len(chunks), chunks.object_range, chunks.nbytes) == (3, ByteRange(0, 908470), 24)
    with pytest.raises(IndexError):
        chunks.chunk(3)


def test_adjacent_chunks_of_a_range_are_one_range_of_the_object():
    part = example().select(1_500_000, 2_100_001)
    assert part.object_range == ByteRange(364369, 908470)
    assert (part.original_start, part.original_end, len(part)) == (1_000_000, 2_500_000, 2)
    assert part.chunk(1) == example().chunk(2)
    assert list(part.select(2_000_000, 2_000_001)) == [example().chunk(2)]


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 5), (5, 4), (0, 2_500_001)])
def test_a_range_outside_the_segment_is_a_value_error(start, end):
    with pytest.raises(ValueError, match="not within"):
        example().select(start, end)
    with pytest.raises(ValueError, match="not within"):
        example().select(1_000_000, 2_000_000).select(0, 1)


@pytest.mark.parametrize(
    ("encoding", "stored", "last"), [(AES, 1_000_028, 500_028), (PLAIN, 1_000_000, 500_000), (ZSTD, 5, 6), (BOTH, 29, 30)]
)
def test_fixed_chunks_have_one_size_and_a_last_size(encoding, stored, last):
    chunks = ChunkIndex.fixed(encoding, chunk_size=1_000_000, file_size=2_500_000, stored_size=stored, last_stored_size=last)
    assert [chunk.object_size for chunk in chunks] == [stored, stored, last]
    assert chunks.object_end == 2 * stored + last
    assert chunks.nbytes == 0


def test_a_single_fixed_chunk_has_the_last_size_only():
    chunks = ChunkIndex.fixed(PLAIN, chunk_size=16384, file_size=16037, stored_size=16384, last_stored_size=16037)
    assert list(chunks) == [Chunk(0, 16037, 0, 16037)]
    assert list(chunks.select(5, 6)) == [Chunk(0, 16037, 0, 16037)]


def test_an_empty_segment_is_one_empty_chunk():
    chunks = ChunkIndex.fixed(AES, chunk_size=10, file_size=0, stored_size=38, last_stored_size=28)
    assert list(chunks) == [Chunk(0, 0, 0, 28)]


def test_very_many_fixed_chunks_need_no_memory():
    chunks = ChunkIndex.fixed(PLAIN, chunk_size=1, file_size=MAX_SIZE, stored_size=1, last_stored_size=1)
    assert len(chunks) == MAX_SIZE
    assert chunks.select(2_000_000_000, 2_000_000_002).object_range == ByteRange(2_000_000_000, 2_000_000_002)


@pytest.mark.parametrize(
    ("encoding", "original", "stored"),
    [
        (PLAIN, 10, 9),
        (PLAIN, 10, 11),
        (PLAIN, 10, -10),
        (AES, 10, 10),
        (AES, 10, 39),
        (AES, MAX_SIZE, MAX_SIZE + 28),
        (ZSTD, 10, 0),
        (ZSTD, 10, -1),
        (ZSTD, 10, 1045),
        (ZSTD, MAX_SIZE, MAX_SIZE + 1),
        (BOTH, 10, 28),
    ],
)
def test_impossible_sizes_are_refused(encoding, original, stored):
    with pytest.raises(RemoteLogMetadataError, match="cannot be stored"):
        encoding.check(original, stored)
    with pytest.raises(RemoteLogMetadataError):
        ChunkIndex.fixed(encoding, chunk_size=original, file_size=original, stored_size=stored, last_stored_size=stored)
    with pytest.raises(RemoteLogMetadataError):
        ChunkIndex.of_sizes(encoding, [stored], chunk_size=original, original_start=0, original_end=original)


def test_an_impossible_size_of_full_chunks_is_refused():
    with pytest.raises(RemoteLogMetadataError):
        ChunkIndex.fixed(PLAIN, chunk_size=10, file_size=15, stored_size=9, last_stored_size=5)


@pytest.mark.parametrize(("chunk_size", "size"), [(0, 5), (-1, 5), (MAX_SIZE + 1, 5), (5, -1), (5, MAX_SIZE + 1)])
def test_values_that_are_not_sizes_are_refused(chunk_size, size):
    with pytest.raises(RemoteLogMetadataError):
        chunk_count(chunk_size, size)


@pytest.mark.parametrize(("sizes", "start"), [([10], 0), ([10, 10, 5], 0), ([10, 5], 5)])
def test_chunks_that_do_not_tile_are_refused(sizes, start):
    with pytest.raises(RemoteLogMetadataError, match="do not tile"):
        ChunkIndex.of_sizes(PLAIN, sizes, chunk_size=10, original_start=start, original_end=start + 15)


def test_ranges_are_cut_at_chunk_borders():
    ranges = [ByteRange(150, 420), ByteRange(420, 450), ByteRange(450, 800), ByteRange(800, 950)]
    chunks = ChunkIndex.fixed(PLAIN, chunk_size=100, file_size=1000, stored_size=100, last_stored_size=100)
    assert aligned(ranges, chunks) == (ByteRange(150, 500), ByteRange(500, 800), ByteRange(800, 950))
    assert aligned([ByteRange(5, 7)], chunks) == (ByteRange(5, 7),)


@settings(deadline=None)
@given(
    st.integers(1, 60),
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_cut_ranges_tile_the_same_bytes_and_share_no_chunk(chunk_size, sizes, before, after):
    ranges, at = [], before
    for size in sizes:
        ranges.append(ByteRange(at, at + size))
        at += size
    total = at + after
    last = total - (chunk_count(chunk_size, total) - 1) * chunk_size
    chunks = ChunkIndex.fixed(PLAIN, chunk_size=chunk_size, file_size=total, stored_size=chunk_size, last_stored_size=last)
    cut = aligned(ranges, chunks)
    assert (cut[0].start, cut[-1].end) == (before, at)
    assert all(one.end == two.start and one.end % chunk_size == 0 for one, two in pairwise(cut))
