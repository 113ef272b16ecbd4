"""A second reader of Kafka's flexible encoding, driven by schemas. It shares no code with the product.

A schema is a list of fields, each a name and a type: ``i8`` to ``i64``, ``uvarint``, ``uuid``, ``string``, ``bytes?`` and
``tags``; ``("struct", schema)``; or a list, which is an array of such structures and may be null if it begins with None.
The result is a dict of plain values.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

__all__ = ["METADATA_BODIES", "fetch_response", "read", "read_all"]

Schema: TypeAlias = Sequence[Any]

_NUMBERS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q"}

_TOPIC: Schema = [("topic", "string"), ("topic_id", "uuid"), ("partition", "i32"), ("tags", "tags")]
_EPOCHS: Schema = [("epoch", "i32"), ("offset", "i64"), ("tags", "tags")]
_BODY: Schema = [
    ("start", "i64"),
    ("end", "i64"),
    ("broker", "i32"),
    ("max_timestamp", "i64"),
    ("event_timestamp", "i64"),
    ("epochs", _EPOCHS),
    ("size", "i32"),
    ("custom", "bytes?"),
    ("state", "i8"),
    ("tags", "tags"),
]
_ID: Schema = [("of", ("struct", _TOPIC)), ("segment", "uuid"), ("tags", "tags")]
METADATA_BODIES: dict[int, Schema] = {
    0: [("id", ("struct", _ID)), *_BODY],
    1: [
        ("id", ("struct", _ID)),
        ("broker", "i32"),
        ("event_timestamp", "i64"),
        ("custom", "bytes?"),
        ("state", "i8"),
        ("tags", "tags"),
    ],
    2: [("of", ("struct", _TOPIC)), ("broker", "i32"), ("event_timestamp", "i64"), ("state", "i8"), ("tags", "tags")],
    3: [("segment", "uuid"), *_BODY],
}
"""The records of ``__remote_log_metadata`` by their keys, from the message definitions of Apache Kafka."""


def fetch_response(version: int) -> Schema:
    """Returns the schema of a flexible version of FetchResponse, from Kafka's FetchResponse.json."""
    aborted = [("producer", "i64"), ("first", "i64"), ("tags", "tags")]
    partition = [
        ("index", "i32"),
        ("error", "i16"),
        ("high_watermark", "i64"),
        ("last_stable", "i64"),
        ("log_start", "i64"),
        ("aborted", [None, *aborted]),
        ("preferred", "i32"),
        ("records", "bytes?"),
        ("tags", "tags"),
    ]
    name = ("topic_id", "uuid") if version >= 13 else ("topic", "string")
    topics = [name, ("partitions", partition), ("tags", "tags")]
    return [("throttle", "i32"), ("error", "i16"), ("session", "i32"), ("topics", topics), ("tags", "tags")]


def read_all(schema: Schema, data: bytes) -> dict[str, Any]:
    """Reads one structure that fills the data. Raises AssertionError, IndexError or struct.error for other data."""
    value, end = read(schema, data, 0)
    assert end == len(data), f"{len(data) - end} bytes are left over"
    return value


def read(schema: Schema, data: bytes, at: int) -> tuple[dict[str, Any], int]:
    """Reads one structure from ``at`` on. Returns it and its end."""
    found: dict[str, Any] = {}
    for name, kind in schema:
        found[name], at = _value(kind, data, at)
    return found, at


def _value(kind: Any, data: bytes, at: int) -> tuple[Any, int]:
    if isinstance(kind, list):
        return _array(kind, data, at)
    if isinstance(kind, tuple):
        return read(kind[1], data, at)
    if kind in _NUMBERS:
        return struct.unpack_from(_NUMBERS[kind], data, at)[0], at + struct.calcsize(_NUMBERS[kind])
    if kind == "uuid":
        return _cut(data, at, 16)
    if kind == "tags":
        return _tags(data, at)
    if kind == "uvarint":
        return _uvarint(data, at)
    size, at = _uvarint(data, at)
    if kind == "bytes?" and size == 0:
        return None, at
    raw, at = _cut(data, at, size - 1)
    return (raw.decode("utf-8") if kind == "string" else raw), at


def _array(kind: list[Any], data: bytes, at: int) -> tuple[Any, int]:
    count, at = _uvarint(data, at)
    nullable = kind[0] is None
    if nullable and count == 0:
        return None, at
    assert count, "an array is null"
    items = []
    for _ in range(count - 1):
        item, at = read(kind[1:] if nullable else kind, data, at)
        items.append(item)
    return items, at


def _tags(data: bytes, at: int) -> tuple[dict[int, bytes], int]:
    count, at = _uvarint(data, at)
    fields: dict[int, bytes] = {}
    for _ in range(count):
        tag, at = _uvarint(data, at)
        size, at = _uvarint(data, at)
        assert tag > max(fields, default=-1), "tags do not rise"
        fields[tag], at = _cut(data, at, size)
    return fields, at


def _cut(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    assert 0 <= size <= len(data) - at, "it ends too early"
    return data[at : at + size], at + size


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value += (byte % 128) << shift
        shift += 7
        if byte < 128:
            return value, at
