"""Records of magic 2 inside a batch, read in place.

One record (varint = zig-zag base-128, at most 5 bytes; varlong at most 10)::

    type    | field          | note
    varint  | length         | bytes after this field, exactly
    i8      | attributes     | unused
    varlong | timestampDelta | from the batch's baseTimestamp
    varint  | offsetDelta    | from the batch's baseOffset; rises, never past lastOffsetDelta
    varint  | keyLength      | -1 = null, then the key
    varint  | valueLength    | -1 = null, then the value
    varint  | headerCount    | then per header: varint size + UTF-8 name, varint size (-1 = null) + value

References: KIP-82, https://kafka.apache.org/documentation/#record, Kafka's DefaultRecord and ByteUtils.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.records.faults import BatchFault, Fault
from kafka_remote_client.wire import Buffer, Writer, base_128

__all__ = [
    "MINIMAL_RECORD",
    "RecordView",
    "read_headers",
    "read_message_headers",
    "read_raw_headers",
    "read_records",
    "read_varint",
    "wrap_int64",
    "write_record",
]

MINIMAL_RECORD = 7
"""Bytes of the smallest record: length, attributes, two deltas, null key, null value, no headers."""

RecordView = tuple[int, int, int, int, int, int, int, int]
"""offset delta, timestamp delta, key position, key size (-1 = null), value position, value size, headers position, count."""


def read_varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    """A zig-zag int32 at ``at`` and the position after it. Raises BatchFault VARINT when it does not end before ``end``."""
    raw, at = base_128(data, at, end, 32)
    if at < 0:
        raise BatchFault(Fault.VARINT)
    raw &= 0xFFFFFFFF
    return raw >> 1 ^ -(raw & 1), at


def _read_varlong(data: Buffer, at: int, end: int) -> tuple[int, int]:
    raw, at = base_128(data, at, end, 64)
    if at < 0:
        raise BatchFault(Fault.VARINT)
    raw &= 0xFFFFFFFFFFFFFFFF
    return raw >> 1 ^ -(raw & 1), at


def wrap_int64(value: int) -> int:
    """``value`` as Java's long arithmetic wraps it."""
    return (value + 2**63) % 2**64 - 2**63


def read_records(data: Buffer, position: int, end: int, count: int, last_offset_delta: int) -> Iterator[RecordView]:
    """The ``count`` records that fill ``data[position:end]`` exactly; positions are absolute in ``data``.

    Raises BatchFault for the first record that does not match the table of the module, before it yields that record.
    """
    if count * MINIMAL_RECORD > end - position:
        raise BatchFault(Fault.RECORD_COUNT)
    last_delta = -1
    for _ in range(count):
        size, position = read_varint(data, position, end)
        if not MINIMAL_RECORD - 1 <= size <= end - position:
            raise BatchFault(Fault.RECORD_SIZE)
        record = _read_body(data, position + 1, position + size)
        position += size
        if not last_delta < record[0] <= last_offset_delta:
            raise BatchFault(Fault.OFFSET_DELTA)
        last_delta = record[0]
        yield record
    if position != end:
        raise BatchFault(Fault.TRAILING_BYTES)


def _read_body(data: Buffer, at: int, end: int) -> RecordView:
    timestamp_delta, at = _read_varlong(data, at, end)
    offset_delta, at = read_varint(data, at, end)
    key_size, key = read_varint(data, at, end)
    if not -1 <= key_size <= end - key:
        raise BatchFault(Fault.KEY_SIZE)
    value_size, value = read_varint(data, key + max(key_size, 0), end)
    if not -1 <= value_size <= end - value:
        raise BatchFault(Fault.VALUE_SIZE)
    header_count, headers = read_varint(data, value + max(value_size, 0), end)
    if not 0 <= header_count <= end - headers:
        raise BatchFault(Fault.HEADERS)
    at = headers
    for _ in range(header_count):
        at = _skip_header(data, at, end)
    if at != end:
        raise BatchFault(Fault.BODY_SIZE)
    return offset_delta, timestamp_delta, key, key_size, value, value_size, headers, header_count


def _skip_header(data: Buffer, at: int, end: int) -> int:
    name_size, at = read_varint(data, at, end)
    if not 0 <= name_size <= end - at:
        raise BatchFault(Fault.HEADERS)
    value_size, at = read_varint(data, at + name_size, end)
    if not -1 <= value_size <= end - at:
        raise BatchFault(Fault.HEADERS)
    return at + max(value_size, 0)


def read_raw_headers(data: Buffer, at: int, count: int) -> Iterator[tuple[bytes, bytes | None]]:
    """The ``count`` headers at ``at`` of a verified record, names as bytes."""
    end = len(data)
    for _ in range(count):
        size, at = read_varint(data, at, end)
        name = bytes(data[at : at + size])
        size, at = read_varint(data, at + size, end)
        if size < 0:
            yield name, None
        else:
            yield name, bytes(data[at : at + size])
            at += size


def read_headers(data: Buffer, at: int, count: int) -> list[tuple[str, bytes | None]]:
    """The same with names as text. Malformed UTF-8 reads as U+FFFD, as in Java."""
    return [(name.decode("utf-8", "replace"), value) for name, value in read_raw_headers(data, at, count)]


def read_message_headers(data: Buffer, at: int, count: int) -> list[tuple[str, bytes | None]]:
    """The same as a ``confluent_kafka.Message`` has them: a name ends before its first NUL.

    confluent_kafka treats names as C strings. For a name that is not UTF-8 its ``headers()`` raises SystemError; that of a
    message of this package does not.
    """
    return [(name.partition(b"\0")[0].decode("utf-8", "replace"), value) for name, value in read_raw_headers(data, at, count)]


def write_record(out: Writer, offset_delta: int, timestamp_delta: int, key: Buffer | None, value: Buffer | None) -> None:
    """Appends a record without headers. A reader refuses an ``offset_delta`` that is too large for a varint."""
    body = Writer()
    body.int8(0)  # attributes
    body.varlong(timestamp_delta)
    body.varlong(offset_delta)
    for field in (key, value):
        body.varint(-1 if field is None else len(field))
        body.raw(field or b"")
    body.varint(0)  # headers
    record = body.getvalue()
    out.varint(len(record))
    out.raw(record)
