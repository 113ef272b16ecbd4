"""Message sets of magic 0 and 1, which Kafka before 0.11 wrote and old segments still have.

One message::

    offset | size | type | field      | note
    0      | 8    | i64  | offset     | of a compressed set: of its last message
    8      | 4    | i32  | size       | bytes after this field
    12     | 4    | u32  | crc        | CRC-32 of bytes 16 to the end
    16     | 1    | i8   | magic      | 0 or 1
    17     | 1    | i8   | attributes | bits 0-2 codec (never zstd), bit 3 LogAppendTime (magic 1)
    18     | 8    | i64  | timestamp  | magic 1 only; ms
           | 4    | i32  | key size   | -1 = null, then the key
           | 4    | i32  | value size | -1 = null, then the value

The value of a compressed message is a message set: with absolute offsets in magic 0, relative ones in magic 1, where absolute =
outer offset - last inner offset + inner offset. (An old librdkafka wrote the outer offset 0: then the inner ones count from 0.)
lz4 in magic 0 has a header checksum that differs from the LZ4 specification; Kafka ignores it there.

An entry is converted to the records of a magic 2 batch with the same content, so that one decoder serves all formats.

References: KIP-31, KIP-32, KAFKA-3160 (the lz4 checksum), Kafka's LegacyRecord and AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from kafka_remote_client.records.compression import LZ4, ZSTD, ByteArena, decompress_into
from kafka_remote_client.records.faults import BatchFault, Fault
from kafka_remote_client.records.record import wrap_int64, write_record
from kafka_remote_client.wire import Writer

__all__ = ["LegacyEntry", "as_v2_records", "read_entry"]

_LOG_OVERHEAD = 12
_CRC_START = 16
_CODEC_MASK, _LOG_APPEND_TIME = 0x07, 0x08
_INT32 = struct.Struct(">i")
_XXH_PRIME_1, _XXH_PRIME_2, _XXH_PRIME_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_XXH_PRIME_4, _XXH_PRIME_5 = 0x27D4EB2F, 0x165667B1


class _Message(NamedTuple):
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


class LegacyEntry(NamedTuple):
    """One entry of a log: a message, or a compressed set. ``timestamp`` is the outer one, -1 in magic 0."""

    base_offset: int
    last_offset: int
    attributes: int
    timestamp: int
    messages: list[_Message]


def read_entry(data: memoryview, limit: int) -> LegacyEntry:
    """The entry that fills ``data`` exactly, with absolute offsets; checksums of the outer and all inner messages are verified.

    Raises BatchFault.
    """
    outer = _read_message(data)
    messages = [outer]
    if outer.attributes & _CODEC_MASK:
        messages = list(_absolute(outer, list(_inner_messages(outer, limit))))
    last = -1
    for message in messages:
        if message.offset <= last:
            raise BatchFault(Fault.LEGACY_OFFSET)
        last = message.offset
    if last - messages[0].offset >= 2**31:
        raise BatchFault(Fault.LEGACY_OFFSET)
    return LegacyEntry(messages[0].offset, last, outer.attributes, outer.timestamp, messages)


def _read_message(data: memoryview) -> _Message:
    offset, _, crc, magic, attributes = struct.unpack_from(">qiIbb", data)
    if zlib.crc32(data[_CRC_START:]) != crc:
        raise BatchFault(Fault.CRC)
    timestamp = struct.unpack_from(">q", data, 18)[0] if magic else -1
    key, at = _read_bytes(data, 26 if magic else 18)
    value, at = _read_bytes(data, at)
    if at != len(data):
        raise BatchFault(Fault.LEGACY_MESSAGE)
    return _Message(offset, magic, attributes, timestamp, key, value)


def _read_bytes(data: memoryview, at: int) -> tuple[memoryview | None, int]:
    if at + 4 > len(data):
        raise BatchFault(Fault.LEGACY_MESSAGE)
    (size,) = _INT32.unpack_from(data, at)
    at += 4
    if size == -1:
        return None, at
    if not 0 <= size <= len(data) - at:
        raise BatchFault(Fault.LEGACY_MESSAGE)
    return data[at : at + size], at + size


def _inner_messages(outer: _Message, limit: int) -> Iterator[_Message]:
    codec = outer.attributes & _CODEC_MASK
    if outer.value is None or codec == ZSTD:
        raise BatchFault(Fault.LEGACY_MESSAGE)
    source = _with_lz4_checksum(outer.value) if codec == LZ4 and outer.magic == 0 else outer.value
    arena = ByteArena()
    decompress_into(arena, codec, source, limit)
    data = arena.view()
    minimal = _LOG_OVERHEAD + (22 if outer.magic else 14)
    at = 0
    while len(data) - at >= _LOG_OVERHEAD:
        size = _LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if size < minimal:
            raise BatchFault(Fault.LEGACY_MESSAGE)
        if size > len(data) - at:
            break  # Kafka drops a truncated message at the end without an error
        message = _read_message(data[at : at + size]) if data[at + _CRC_START] == outer.magic else None
        if message is None or message.attributes & _CODEC_MASK:
            raise BatchFault(Fault.LEGACY_MESSAGE)
        yield message
        at += size


def _absolute(outer: _Message, inner: list[_Message]) -> Iterator[_Message]:
    if not inner:
        raise BatchFault(Fault.LEGACY_MESSAGE)
    base = 0
    if outer.magic and outer.offset:
        base = outer.offset - inner[-1].offset
        if base < 0:
            raise BatchFault(Fault.LEGACY_OFFSET)
    for message in inner:
        timestamp = outer.timestamp if outer.attributes & _LOG_APPEND_TIME and outer.magic else message.timestamp
        yield message._replace(offset=base + message.offset, timestamp=timestamp)


def as_v2_records(entry: LegacyEntry) -> bytes:
    """The entry's messages in the record format of magic 2, for a batch with its base offset and its outer timestamp."""
    out = Writer()
    for message in entry.messages:
        timestamp_delta = wrap_int64(message.timestamp - entry.timestamp)
        write_record(out, message.offset - entry.base_offset, timestamp_delta, message.key, message.value)
    return out.getvalue()


def _with_lz4_checksum(source: memoryview) -> memoryview:
    """The frame with the header checksum that its specification asks for."""
    flags = source[4] if len(source) > 4 else 0
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(source) <= end:
        raise BatchFault(Fault.DECOMPRESSION)
    fixed = bytearray(source)
    fixed[end] = _xxh32(bytes(source[4:end])) >> 8 & 0xFF
    return memoryview(fixed)


def _xxh32(data: bytes) -> int:
    """xxHash32 with seed 0 of fewer than 16 bytes, all that an lz4 frame's header needs."""
    value = (_XXH_PRIME_5 + len(data)) & 0xFFFFFFFF
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        value += int.from_bytes(data[at : at + 4], "little") * _XXH_PRIME_3
        value = _rotate(value, 17) * _XXH_PRIME_4 & 0xFFFFFFFF
    for byte in data[whole:]:
        value = _rotate(value + byte * _XXH_PRIME_5, 11) * _XXH_PRIME_1 & 0xFFFFFFFF
    value = (value ^ value >> 15) * _XXH_PRIME_2 & 0xFFFFFFFF
    value = (value ^ value >> 13) * _XXH_PRIME_3 & 0xFFFFFFFF
    return value ^ value >> 16


def _rotate(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return value << bits | value >> (32 - bits)
