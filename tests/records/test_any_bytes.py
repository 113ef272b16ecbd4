"""Any bytes give records or a documented error, and never a wrong record from bytes that a checksum covers."""

from __future__ import annotations

import contextlib
import random
from functools import cache
from typing import Any

import pytest

from kafka_remote_client.errors import CorruptRecordError, UnsupportedFormatError
from kafka_remote_client.model import IsolationLevel
from kafka_remote_client.records import CompletedFetch, read_batches
from tests.support.batches import CODECS, Rec, abort_marker, batch, legacy_message, legacy_set, metadata

pytestmark = pytest.mark.usefixtures("kernel")

DOCUMENTED = (CorruptRecordError, UnsupportedFormatError)
Row = tuple[Any, ...]


@cache
def segment(codec: str) -> bytes:
    """About 8 KiB in four batches and a marker, with values that compress badly, leader epoch 3."""
    noise = random.Random(7)
    parts, base = [], 0
    for size in (9, 1, 12, 10):
        records = [Rec(i, key=b"k%d" % i, value=noise.randbytes(230), headers=[(b"h", b"v")]) for i in range(size)]
        parts.append(batch(base, records, codec=CODECS[codec], epoch=3, producer=5))
        base += size
    parts.append(abort_marker(base, 5, epoch=3))
    return b"".join(parts)


@cache
def headers(codec: str) -> list[tuple[int, int]]:
    """Returns (position, size) of each batch."""
    found, at, data = [], 0, segment(codec)
    while at < len(data):
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        found.append((at, size))
        at += size
    return found


@cache
def sound(codec: str) -> list[Row]:
    return list(read_batches(segment(codec)).rows())


def drain(data: bytes, size: int) -> tuple[list[Row], int, bool]:
    """Returns the rows, the bytes consumed, and whether an error ended the read."""
    completed = CompletedFetch(metadata(0, 32, ((3, 0),), size), 0, IsolationLevel.READ_COMMITTED, [], at_segment_start=True)
    rows: list[Row] = []
    consumed = 0
    while True:
        try:
            block, used = completed.feed(data[consumed:])
        except DOCUMENTED:
            return rows, consumed, True
        rows += block.rows()
        consumed += used
        if not used:
            return rows, consumed, False


@pytest.mark.parametrize("codec", CODECS)
def test_every_truncation_gives_the_whole_batches_before_it(codec: str, kernel: str) -> None:
    data = segment(codec)
    assert 7500 < len(data) < 9500
    ends = [position + size for position, size in headers(codec)]
    counts = [9, 10, 22, 32, 32]
    for cut in range(0, len(data), 1 if kernel == "compiled" else 7):
        whole = [end for end in ends if end <= cut]
        rows, consumed, failed = drain(data[:cut], len(data))
        assert not failed
        assert consumed == (whole[-1] if whole else 0)
        assert len(rows) == (counts[len(whole) - 1] if whole else 0)
        assert rows == sound(codec)[: len(rows)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_of_a_header_ends_the_read_at_its_batch(codec: str) -> None:
    """With a segment's metadata, each flip in a header ends the read at the batch before, or cuts that batch off."""
    data = segment(codec)
    before = [0, 9, 10, 22, 32]
    for index, (position, _) in enumerate(headers(codec)):
        for bit in range(61 * 8):
            flipped = bytearray(data)
            flipped[position + bit // 8] ^= 0x80 >> bit % 8
            rows, consumed, failed = drain(bytes(flipped), len(data))
            assert rows == sound(codec)[: before[index]]
            assert consumed == position
            assert failed or 64 <= bit < 96  # a longer batchLength looks like a batch that is not complete yet


def test_only_these_flips_are_undetected_without_the_segment() -> None:
    """A bare buffer has no metadata to compare with, so fields outside the checksum are not checked."""
    fields = {"baseOffset": range(64), "batchLength": range(64, 96), "partitionLeaderEpoch": range(96, 128)}
    data = batch(2**20, [Rec(0, value=b"x")], epoch=1)
    unseen = set()
    for bit in range(61 * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 0x80 >> bit % 8
        try:
            found = read_batches(bytes(flipped))
        except DOCUMENTED:
            continue
        unseen.add(next(name for name, bits in fields.items() if bit in bits))
        assert [row[5] for row in found.rows()] in ([b"x"], [])
    assert unseen == {"baseOffset", "batchLength", "partitionLeaderEpoch"}


FIELDS = {
    "baseOffset": range(64),
    "batchLength": range(64, 96),
    "partitionLeaderEpoch": range(96, 128),
    "magic": range(128, 136),
}


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("gaps", [False, True])
def test_only_these_flips_are_undetected_with_the_segments_metadata(place: str, gaps: bool) -> None:
    """One of two batches has the flip. The only flip without an error makes the last batch longer than the buffer: not read.

    In a compacted topic, the base offset of a batch may also rise, because offsets may be missing.
    """
    size = 2 * len(batch(0, [Rec(0, value=b"x")], epoch=1))
    unseen: dict[str, set[tuple[Any, ...]]] = {}
    for bit in range(61 * 8):
        data = bytearray(batch(8, [Rec(0, value=b"x")], epoch=1) + batch(9, [Rec(0, value=b"y")], epoch=1))
        data[bit // 8 + (len(data) // 2 if place == "last" else 0)] ^= 0x80 >> bit % 8
        completed = CompletedFetch(
            metadata(8, 200 if gaps else 9, ((1, 8),), size),
            8,
            IsolationLevel.READ_UNCOMMITTED,
            None,
            allow_offset_gaps=gaps,
            at_segment_start=True,
        )
        rows: list[Row] = []
        with contextlib.suppress(*DOCUMENTED):
            used = 1
            while used:
                block, used = completed.feed(bytes(data))
                rows += block.rows()
                del data[:used]
            field = next(name for name, bits in FIELDS.items() if bit in bits)
            unseen.setdefault(field, set()).update((row[0], row[5]) for row in rows)
        assert {row[5] for row in rows} <= {b"x", b"y"}
    expected: dict[str, set[tuple[Any, ...]]] = {"batchLength": {(8, b"x")}} if place == "last" else {}
    if gaps and place == "last":
        expected["baseOffset"] = {(8, b"x"), *((9 ^ 1 << bit, b"y") for bit in range(1, 8) if 9 ^ 1 << bit > 9)}
    assert unseen == expected


@pytest.mark.parametrize("codec", CODECS)
def test_no_flip_in_a_body_gives_a_wrong_record(codec: str, kernel: str) -> None:
    """100,000 flips with all codecs and both decoders, most of them with the fast one."""
    noise = random.Random(codec)
    batches = [bytearray(segment(codec)[position : position + size]) for position, size in headers(codec)]
    for _ in range(18_000 if kernel == "compiled" else 2_000):
        data = noise.choice(batches)
        at, bit = noise.randrange(21, len(data)), 1 << noise.randrange(8)
        data[at] ^= bit
        with pytest.raises(CorruptRecordError, match="checksum"):
            read_batches(data)
        data[at] ^= bit


@pytest.mark.parametrize("magic", [0, 1])
def test_flips_in_old_formats(magic: int) -> None:
    inner = b"".join(legacy_message(i, b"value %d" % i, magic=magic) for i in range(5))
    data = legacy_message(0, b"first", magic=magic) + legacy_set(5, inner, magic=magic, codec=1)
    if magic == 0:
        inner = b"".join(legacy_message(i, b"value %d" % i, magic=magic) for i in range(1, 6))
        data = legacy_message(0, b"first", magic=magic) + legacy_set(5, inner, magic=magic, codec=1)
    expected = {row[5] for row in read_batches(data).rows()}
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            try:
                found = list(read_batches(bytes(flipped)).rows())
            except DOCUMENTED:
                continue
            assert {row[5] for row in found} <= expected


def test_random_bytes_give_a_documented_error_only() -> None:
    noise = random.Random(1)
    for _ in range(3000):
        data = noise.randbytes(noise.randrange(200))
        if noise.random() < 0.5 and len(data) > 17:
            # a plausible size and magic let the parser continue
            data = (
                data[:8]
                + (noise.randrange(len(data))).to_bytes(4, "big")
                + data[12:16]
                + bytes([noise.randrange(3)])
                + data[17:]
            )
        with contextlib.suppress(*DOCUMENTED):
            read_batches(data)


@pytest.mark.parametrize("data", [bytes(200), b"\xff" * 200, b"\x7f" * 200, b"<Error><Code>NoSuchKey</Code></Error>" * 3])
def test_constant_bytes_and_an_error_page_are_damage(data: bytes) -> None:
    with pytest.raises(DOCUMENTED):
        read_batches(data)
