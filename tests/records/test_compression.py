from __future__ import annotations

import struct
from typing import Any

import cramjam
import pytest
import xxhash

from kafka_remote_client.errors import CorruptRecordError, UnsupportedFormatError
from kafka_remote_client.records import compression, read_batches
from kafka_remote_client.records.compression import ByteArena, decompress_into
from kafka_remote_client.records.faults import BatchFault, Fault
from tests.support.batches import CODECS, Rec, batch, compress, lz4_frame, record, xerial

pytestmark = pytest.mark.usefixtures("kernel")

RECORDS = [Rec(i, key=b"k%d" % i, value=b"value %d " % i * 40, headers=[(b"h", b"x")]) for i in range(300)]
RAW = b"".join(map(record, RECORDS))
EXPECTED = [(r.offset, r.key, r.value) for r in RECORDS]
REAL = {name: codec for name, codec in CODECS.items() if codec}


def decoded(payload: bytes, codec: int, **options: Any) -> list[tuple[Any, ...]]:
    block = read_batches(batch(0, RECORDS, codec=codec, payload=payload), **options)
    return [(row[0], row[4], row[5]) for row in block.rows()]


def lz4_java(data: bytes, *, flags: int = 0x60, block: int = 65536) -> bytes:
    """A frame as Kafka's own writer makes it: independent blocks of 64 KiB, no content size, no checksums."""
    out = bytearray(b"\x04\x22\x4d\x18" + bytes([flags, 0x40, 0x82]))
    for at in range(0, len(data), block):
        part = bytes(cramjam.lz4.compress_block(data[at : at + block], store_size=False))
        out += struct.pack("<I", len(part)) + part
    return bytes(out + b"\0\0\0\0")


def lz4_stored(data: bytes) -> bytes:
    """A frame whose blocks are not compressed."""
    blocks = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    stored = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return b"\x04\x22\x4d\x18\x60\x40\x82" + stored + b"\0\0\0\0"


def zstd_streamed(data: bytes) -> bytes:
    """Frames of a streaming producer: no content size."""
    compressor = cramjam.zstd.Compressor()
    compressor.compress(data)
    return bytes(compressor.finish())


def zstd_raw_and_rle(data: bytes, fill: int) -> bytes:
    """A frame with a stored block and a run, without entropy coding."""
    head = b"\x28\xb5\x2f\xfd\x00\x58"
    stored = (len(data) << 3).to_bytes(3, "little") + data
    return head + stored + (fill << 3 | 2 | 1).to_bytes(3, "little") + b"\0"


HALF = len(RAW) // 2
FRAMINGS = {
    "gzip, one member": (1, compress(1, RAW)),
    "gzip, three members": (1, compress(1, RAW[:100]) + compress(1, RAW[100:HALF]) + compress(1, RAW[HALF:])),
    "gzip, last member empty": (1, compress(1, RAW) + compress(1, b"")),
    "snappy, raw block": (2, compress(2, RAW)),
    "snappy, framed": (2, xerial(RAW)),
    "snappy, framed in small blocks": (2, xerial(RAW, 777)),
    "snappy, two framed streams": (2, xerial(RAW[:HALF]) + xerial(RAW[HALF:])),
    "lz4, as librdkafka": (3, compress(3, RAW)),
    "lz4, as java": (3, lz4_java(RAW)),
    "lz4, stored": (3, lz4_stored(RAW)),
    "lz4, linked blocks with checksum": (3, lz4_frame(RAW, linked=True, checksum=True)),
    "zstd, with content size": (4, compress(4, RAW)),
    "zstd, without content size": (4, zstd_streamed(RAW)),
    "zstd, several frames": (4, compress(4, RAW[:HALF]) + zstd_streamed(RAW[HALF:])),
    "zstd, skippable frame first": (4, b"\x50\x2a\x4d\x18\x03\0\0\0abc" + compress(4, RAW)),
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing_gives_the_records(framing: str) -> None:
    codec, payload = FRAMINGS[framing]
    assert decoded(payload, codec) == EXPECTED


@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_framing_cut_short_is_damage(framing: str) -> None:
    codec, payload = FRAMINGS[framing]
    for cut in {0, 1, 3, 5, 7, 12, 17, len(payload) // 2, len(payload) - 5, len(payload) - 1}:
        with pytest.raises(CorruptRecordError):
            decoded(payload[:cut], codec)


@pytest.mark.parametrize("codec", REAL.values(), ids=REAL)
def test_trailing_bytes_are_damage(codec: int) -> None:
    for tail in (b"\0", b"junk", b"\0" * 40):
        with pytest.raises(CorruptRecordError):
            decoded(compress(codec, RAW) + tail, codec)


def test_second_lz4_frame_is_damage() -> None:
    with pytest.raises(CorruptRecordError, match="do not decompress"):
        decoded(compress(3, RAW[:HALF]) + compress(3, RAW[HALF:]), 3)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_an_unsupported_format(codec: int) -> None:
    with pytest.raises(UnsupportedFormatError, match="codec"):
        decoded(RAW, codec)


@pytest.mark.parametrize("codec", REAL.values(), ids=REAL)
def test_output_is_capped(codec: int) -> None:
    payload = compress(codec, RAW)
    assert decoded(payload, codec, max_decompressed_bytes=len(RAW)) == EXPECTED
    for cap in (1, 1000, len(RAW) - 1):
        with pytest.raises(UnsupportedFormatError, match="max_decompressed_bytes"):
            decoded(payload, codec, max_decompressed_bytes=cap)


def test_framed_snappy_is_capped_over_all_its_blocks() -> None:
    with pytest.raises(UnsupportedFormatError, match="max_decompressed_bytes"):
        decoded(xerial(RAW, 1000), 2, max_decompressed_bytes=len(RAW) - 1)


@pytest.mark.parametrize("codec", REAL.values(), ids=REAL)
def test_too_small_memory_is_not_damage(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The function that recognises cramjam's messages does so for each codec that can run out of memory."""
    functions = {1: cramjam.gzip.decompress_into, 3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}
    if codec == 2:  # never out of memory: the size is known in advance
        assert cramjam.snappy.decompress_raw_len(compress(2, RAW)) == len(RAW)
        return
    with pytest.raises(cramjam.DecompressionError) as caught:
        functions[codec](compress(codec, RAW), bytearray(10))
    assert compression.output_too_small(caught.value)
    with pytest.raises(cramjam.DecompressionError) as caught:
        functions[codec](b"\0" * 50, bytearray(1000))
    assert not compression.output_too_small(caught.value)


@pytest.mark.parametrize("codec", REAL.values(), ids=REAL)
@pytest.mark.fault("S19")
def test_a_decompression_bomb_allocates_at_most_the_cap(codec: int) -> None:
    reserved: list[int] = []

    class Watched(ByteArena):
        def reserve(self, size: int) -> memoryview:
            reserved.append(size)
            return super().reserve(size)

    bomb = compress(codec, bytes(30_000_000))
    with pytest.raises(BatchFault) as caught:
        decompress_into(Watched(), codec, memoryview(bomb), 1_000_000)
    assert caught.value.fault == Fault.TOO_LARGE
    assert max(reserved, default=0) <= 1_000_000


def test_false_sizes_are_refused() -> None:
    gzip = compress(1, RAW)
    with pytest.raises(CorruptRecordError):
        decoded(gzip[:-4] + struct.pack("<I", 5), 1)
    with pytest.raises(CorruptRecordError):
        decoded(gzip[:-4] + struct.pack("<I", 2**32 - 1), 1)
    with pytest.raises(CorruptRecordError):  # snappy: a length that these bytes cannot give
        decoded(b"\xff\xff\xff\x07" + b"\0" * 20, 2)
    with pytest.raises(CorruptRecordError):
        decoded(b"\xff\xff\xff\xff\xff" + b"\0" * 20, 2)
    zstd = bytearray(compress(4, RAW))
    zstd[6] ^= 0xFF  # within the content size
    with pytest.raises(CorruptRecordError):
        decoded(bytes(zstd), 4)


def test_the_gzip_estimate_is_doubled_until_it_fits() -> None:
    data = bytes(3_000_000)
    members = compress(1, data) + compress(1, b"")
    arena = ByteArena()
    assert decompress_into(arena, 1, memoryview(members), 10_000_000) == len(data)
    assert bytes(arena.view()) == data


@pytest.mark.parametrize(
    "payload",
    [
        b"\x82SNAPPY\x00" + struct.pack(">ii", 0, 1),
        b"\x82SNAPPY\x00" + struct.pack(">ii", 0, 1) + b"\0" * 9,
        b"\x82SNAPPY\x00\0\0",
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 0),
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, -5) + b"\0" * 9,
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 100) + b"\0" * 9,
        b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"\0\0",
        xerial(RAW[:50]) + b"\x82SNAPPY\x00" + struct.pack(">i", 0) + b"\0" * 4,
        xerial(RAW)[:200] + b"\xff" * 20 + xerial(RAW)[220:],
    ],
)
def test_damaged_snappy_framing(payload: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="do not decompress"):
        decoded(payload, 2)


@pytest.mark.parametrize("at", [0, 3, 4, 5, 6])
def test_damaged_lz4_header(at: int) -> None:
    """Header too short, bad magic, bad version, bad block size, bad header checksum."""
    frame = bytearray(lz4_java(RAW))
    frame[at] ^= 0xF0
    with pytest.raises(CorruptRecordError):
        decoded(bytes(frame), 3)
    with pytest.raises(CorruptRecordError):
        decoded(bytes(frame[:at]), 3)


def test_lz4_flag_combinations() -> None:
    for linked in (True, False):
        for checksum in (True, False):
            frame = lz4_frame(RAW, linked=linked, checksum=checksum)
            assert decoded(frame, 3) == EXPECTED


def test_an_lz4_block_without_bytes_is_not_an_end_mark() -> None:
    with pytest.raises(CorruptRecordError):
        decoded(b"\x04\x22\x4d\x18\x60\x40\x82" + struct.pack("<I", 1 << 31), 3)


def test_zstd_stored_blocks_and_runs_are_bounded_without_the_content_size() -> None:
    frame = zstd_raw_and_rle(b"abc", 5000)
    arena = ByteArena()
    assert decompress_into(arena, 4, memoryview(frame), 10_000) == 5003
    assert bytes(arena.view()) == b"abc" + bytes(5000)
    with pytest.raises(BatchFault):
        decompress_into(ByteArena(), 4, memoryview(frame), 5002)
    with pytest.raises(CorruptRecordError):
        decoded(frame, 4)


def lz4_described(descriptor: bytes, data: bytes) -> bytes:
    """A stored frame with this descriptor."""
    checksum = xxhash.xxh32_intdigest(descriptor) >> 8 & 0xFF
    return b"\x04\x22\x4d\x18" + descriptor + bytes([checksum]) + struct.pack("<I", len(data) | 1 << 31) + data + bytes(4)


@pytest.mark.parametrize("flags", [0x60, 0x61, 0x68, 0x69])
def test_unneeded_lz4_content_size_and_dictionary_are_skipped(flags: int) -> None:
    raw = record(Rec(0, value=b"stored"))
    size = struct.pack("<Q", len(raw)) if flags & 0x08 else b""
    frame = lz4_described(bytes([flags, 0x40]) + size + bytes(4 * (flags & 1)), raw)
    found = read_batches(batch(0, b"", payload=frame, count=1, last_delta=0, codec=3))
    assert [row[5] for row in found.rows()] == [b"stored"]


def zstd_frame(data: bytes, flags: int, fields: bytes, checksum: int) -> bytes:
    """A stored frame with one byte of content size."""
    content = (len(data) << 3 | 1).to_bytes(3, "little") + data + struct.pack("<I", checksum)
    return b"\x28\xb5\x2f\xfd" + bytes([flags]) + fields + content


def test_zstd_content_checksum_is_verified() -> None:
    raw = record(Rec(0, value=b"checked"))
    checksum = xxhash.xxh64_intdigest(raw) & 0xFFFFFFFF
    options: dict[str, Any] = {"count": 1, "last_delta": 0, "codec": 4}
    sound = batch(0, b"", payload=zstd_frame(raw, 0x24, bytes([len(raw)]), checksum), **options)
    assert [row[5] for row in read_batches(sound).rows()] == [b"checked"]
    wrong = batch(0, b"", payload=zstd_frame(raw, 0x24, bytes([len(raw)]), checksum ^ 1), **options)
    with pytest.raises(CorruptRecordError):
        read_batches(wrong)


@pytest.mark.parametrize(("kind", "size"), [(1, 1), (2, 2), (3, 4)])
def test_zstd_frame_that_needs_a_dictionary_is_damage(kind: int, size: int) -> None:
    raw = record(Rec(0))
    frame = zstd_frame(raw, 0x24 | kind, b"\7" * size + bytes([len(raw)]), xxhash.xxh64_intdigest(raw) & 0xFFFFFFFF)
    with pytest.raises(CorruptRecordError):
        read_batches(batch(0, b"", payload=frame, count=1, last_delta=0, codec=4))


def test_an_empty_compressed_batch_with_a_record_count_is_damage() -> None:
    for codec in REAL.values():
        with pytest.raises(CorruptRecordError):
            decoded(compress(codec, b""), codec)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_empty_frame_holds_an_empty_batch(codec: int) -> None:
    block = read_batches(batch(5, [], codec=codec, last_delta=3, payload=compress(codec, b"")))
    assert (len(block), block.next_offset) == (0, 9)
