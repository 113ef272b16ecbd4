"""Builds record batches and old message sets byte by byte, so that tests can also build damaged ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import attrs
import cramjam
import crc32c

from kafka_remote_client.model import EpochEntry, RemoteLogSegmentId, RemoteLogSegmentMetadata, TopicIdPartition

__all__ = [
    "CODECS",
    "Rec",
    "abort_marker",
    "batch",
    "commit_marker",
    "compress",
    "control_batch",
    "fix_crc",
    "legacy_message",
    "legacy_set",
    "lz4_frame",
    "metadata",
    "record",
    "varint",
    "xerial",
]

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@attrs.frozen
class Rec:
    """A record by its deltas."""

    offset: int = 0
    key: bytes | None = None
    value: bytes | None = b""
    headers: Sequence[tuple[bytes, bytes | None]] = ()
    timestamp: int = 0


def varint(value: int) -> bytes:
    """Zig-zag base-128."""
    raw = (value << 1) ^ (value >> 63)
    raw &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(rec: Rec) -> bytes:
    """One record of magic 2."""
    body = b"\0" + varint(rec.timestamp) + varint(rec.offset) + _sized(rec.key) + _sized(rec.value) + varint(len(rec.headers))
    body += b"".join(_sized(name) + _sized(value) for name, value in rec.headers)
    return varint(len(body)) + body


def xerial(data: bytes, block: int = 32 * 1024) -> bytes:
    """snappy in the framing of Java's producer."""
    out = bytearray(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1))
    for at in range(0, len(data), block):
        part = bytes(cramjam.snappy.compress_raw(data[at : at + block]))
        out += struct.pack(">i", len(part)) + part
    return bytes(out)


def lz4_frame(data: bytes, *, linked: bool = False, checksum: bool = False) -> bytes:
    """An LZ4 frame with independent blocks unless ``linked``."""
    compressor = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
    compressor.compress(data)
    return bytes(compressor.finish())


def compress(codec: int, data: bytes) -> bytes:
    """Returns ``data`` as compressed by a Kafka producer."""
    functions: dict[int, Callable[[bytes], Any]] = {
        0: bytes,
        1: cramjam.gzip.compress,
        2: cramjam.snappy.compress_raw,
        3: lz4_frame,
        4: cramjam.zstd.compress,
    }
    return bytes(functions[codec](data))


def batch(
    base: int = 0,
    records: Sequence[Rec] | bytes = (Rec(),),
    *,
    codec: int = 0,
    attributes: int = 0,
    last_delta: int | None = None,
    count: int | None = None,
    epoch: int = 0,
    timestamp: int = 1000,
    max_timestamp: int = 2000,
    producer: int = -1,
    magic: int = 2,
    payload: bytes | None = None,
) -> bytes:
    """Returns a batch of magic 2 with a correct checksum. ``payload`` replaces the encoded records."""
    if isinstance(records, bytes):
        raw, count = records, 1 if count is None else count
    else:
        raw = b"".join(map(record, records))
        count = len(records) if count is None else count
        if last_delta is None:
            last_delta = records[-1].offset if records else 0
    body = compress(codec, raw) if payload is None else payload
    tail = struct.pack(
        ">hiqqqhii",
        attributes | codec,
        last_delta or 0,
        timestamp,
        max_timestamp,
        producer,
        0 if producer >= 0 else -1,
        -1,
        count,
    )
    tail += body
    return struct.pack(">qiibI", base, 9 + len(tail), epoch, magic, crc32c.crc32c(tail)) + tail


def fix_crc(data: bytes) -> bytes:
    """Returns ``data``, one batch of magic 2, with a corrected checksum."""
    return data[:17] + struct.pack(">I", crc32c.crc32c(data[21:])) + data[21:]


def control_batch(base: int, producer: int, kind: int, *, version: int = 0, key: bytes | None = None, **more: Any) -> bytes:
    """A control batch with one record; ``kind`` 0 is ABORT, 1 COMMIT."""
    key = struct.pack(">hh", version, kind) if key is None else key
    return batch(base, [Rec(key=key, value=struct.pack(">hi", 0, 9))], attributes=0x30, producer=producer, **more)


def abort_marker(base: int, producer: int, **more: Any) -> bytes:
    """An ABORT marker."""
    return control_batch(base, producer, 0, **more)


def commit_marker(base: int, producer: int, **more: Any) -> bytes:
    """A COMMIT marker."""
    return control_batch(base, producer, 1, **more)


def legacy_message(
    offset: int,
    value: bytes | None,
    *,
    magic: int = 1,
    key: bytes | None = None,
    attributes: int = 0,
    timestamp: int = 1000,
) -> bytes:
    """One message of magic 0 or 1."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + sized(key) + sized(value)
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def legacy_set(
    offset: int,
    inner: bytes,
    *,
    codec: int = 1,
    magic: int = 1,
    attributes: int = 0,
    timestamp: int = 1000,
    value: bytes | None = None,
) -> bytes:
    """A compressed set: ``inner`` messages inside an outer one."""
    value = compress(codec, inner) if value is None else value
    return legacy_message(offset, value, magic=magic, attributes=attributes | codec, timestamp=timestamp)


def metadata(
    start: int = 0, end: int = 10**6, epochs: Sequence[tuple[int, int]] = ((0, 0),), size: int = 2**31 - 1
) -> RemoteLogSegmentMetadata:
    """A finished segment of partition t-0."""
    tip = TopicIdPartition(UUID(int=1), "t", 0)
    entries = tuple(EpochEntry(epoch, offset) for epoch, offset in epochs)
    return RemoteLogSegmentMetadata(RemoteLogSegmentId(tip, UUID(int=2)), start, end, 0, 0, 0, entries, size)
