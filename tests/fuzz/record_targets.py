"""Targets of the record decoder: each turns any bytes into a case that passes the checksums, and judges the result.

A target fails for an undocumented exception, for a difference between the compiled decoder and its Python twin, and if either
takes too long (``bounded.py``), including three ways to read every record. The fuzzer's own time-out finds calls that never
return. Only the Python twin is instrumented. It runs first on the same input, so it also guides the fuzzer through the
kernel.
"""

from __future__ import annotations

import contextlib
import struct
import zlib
from collections.abc import Callable
from functools import partial

from kafka_remote_client.errors import CorruptRecordError, UnsupportedFormatError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import arrow, compression
from kafka_remote_client.records.faults import BatchFault
from tests.fuzz.bounded import within_bound
from tests.support.batches import Rec, abort_marker, batch, commit_marker, control_batch, fix_crc
from tests.support.decoders import IMPLEMENTATIONS, SEAM, outcome

__all__ = ["TARGETS"]

CAP = 1 << 20
_loaded = arrow  # its import takes a second


def judge(data: bytes, level: int = 0, aborted: list[AbortedTransaction] | None = None, **options: object) -> None:
    """Reads ``data`` with every implementation; the results must be equal."""
    seen = {}
    for name, implementation in IMPLEMENTATIONS.items():
        for module, attribute in SEAM:
            setattr(module, attribute, getattr(implementation, attribute))
        read = partial(outcome, data, IsolationLevel(level), aborted, max_decompressed_bytes=CAP, **options)
        seen[name] = within_bound(read, len(data), name)
    for name, found in seen.items():
        if found != seen["pure"]:
            raise AssertionError(f"{name} differs from pure: {found!r} {seen['pure']!r}")
        for item in found:
            if (
                isinstance(item, tuple)
                and isinstance(item[0], type)
                and item[0] not in {CorruptRecordError, UnsupportedFormatError}
            ):
                raise AssertionError(f"undocumented: {item!r}")


def any_bytes(data: bytes) -> None:
    """Uses the bytes unchanged."""
    judge(data)


def batch_v2(data: bytes) -> None:
    """A batch header and its records, with correct length, magic and checksum."""
    data = data.ljust(61, b"\0")
    sized = data[:8] + struct.pack(">i", len(data) - 12) + data[12:16] + b"\2" + data[17:]
    judge(fix_crc(sized), level=data[0] & 1)


def record(data: bytes) -> None:
    """Records of a valid header: the first byte is their number."""
    count = data[0] % 8 if data else 0
    judge(batch(0, b"", count=count, last_delta=20, payload=data[1:]))


def legacy_set(data: bytes) -> None:
    """Consecutive messages of magic 0 and 1, each with a correct size and checksum; the input gives the sizes."""
    out = bytearray()
    at = 0
    while at < len(data) and len(out) < 4096:
        magic, size = data[at] & 1, max(data[at] >> 1, 22)
        out += _legacy(data[at + 1 : at + 1 + size].ljust(size, b"\0"), magic)
        at += 1 + size
    judge(bytes(out))


def legacy_inner(data: bytes) -> None:
    """A compressed set with repaired inner messages: the first byte chooses magic, codec and timestamp type."""
    kind = data[0] if data else 0
    magic, codec, attributes = kind & 1, (kind >> 1) % 3 + 1, kind >> 4 & 8
    inner = bytearray()
    at = 1
    while at < len(data) and len(inner) < 2048:
        size = max(data[at], 22)
        inner += _legacy(data[at + 1 : at + 1 + size].ljust(size, b"\0"), magic)
        at += 1 + size
    from tests.support.batches import legacy_set as outer

    judge(outer(at % 61, bytes(inner), codec=codec, magic=magic, attributes=attributes))


def _legacy(body: bytes, magic: int) -> bytes:
    content = bytes([magic]) + body[9:]
    return struct.pack(">qiI", body[0] % 64, 4 + len(content), zlib.crc32(content)) + content


def codec_target(codec: int) -> Callable[[bytes], None]:
    """The compressed bytes of a batch."""

    def target(data: bytes) -> None:
        judge(batch(0, b"", codec=codec, count=1, last_delta=3, payload=data))
        with contextlib.suppress(BatchFault):
            compression.decompress_into(compression.ByteArena(), codec, memoryview(data), CAP)

    return target


def control_record(data: bytes) -> None:
    """Key and value of a control record, then whole control batches with any records."""
    judge(control_batch(0, data[0] % 3 - 1 if data else 0, 0, key=data[1:]), level=1)
    judge(batch(0, b"", attributes=0x30, producer=1, count=1, payload=data), level=1)


def aborted_filter(data: bytes) -> None:
    """Batches and markers of four producers in any order, and any aborted list."""
    parts, offset, aborted = [], 0, []
    for byte in data[:50]:
        producer, kind = byte & 3, byte >> 2 & 7
        if kind == 7:
            aborted.append(AbortedTransaction(producer, byte >> 5))
            continue
        if kind == 6:
            aborted.append(AbortedTransaction(producer, offset))
        if kind in (0, 6):
            parts.append(batch(offset, [Rec(0), Rec(1)], producer=producer, attributes=0x10))
        elif kind == 1:
            parts.append(abort_marker(offset, producer))
        elif kind == 2:
            parts.append(commit_marker(offset, producer))
        elif kind == 3:
            parts.append(batch(offset, [], producer=producer, attributes=0x30, last_delta=0))
        else:
            parts.append(batch(offset, [Rec(0)], producer=producer if kind == 4 else -1))
        offset += 2 if kind in (0, 6) else 1
    judge(b"".join(parts), level=1, aborted=aborted, fetch_offset=len(data) % 7, at_segment_start=True)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "any_bytes": any_bytes,
    "batch_v2": batch_v2,
    "record": record,
    "legacy_set": legacy_set,
    "legacy_inner": legacy_inner,
    "gzip": codec_target(1),
    "snappy": codec_target(2),
    "lz4": codec_target(3),
    "zstd": codec_target(4),
    "control_record": control_record,
    "aborted_filter": aborted_filter,
}
