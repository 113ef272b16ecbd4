"""Columns to Arrow: the schema of Spark's Kafka source, nullable flags included.

References: Spark's KafkaRecordToRowConverter, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import pyarrow as pa

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.records._select import Columns
from kafka_remote_client.records.columns import BinaryColumn, Buffer, HeaderColumns

__all__ = ["SPARK_KAFKA_SCHEMA", "record_batch", "schema_of"]

_BINARY = pa.binary()
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", _BINARY)])
_HEADERS = pa.list_(pa.field("element", _HEADER))
_TIMESTAMP = pa.timestamp("us", tz="UTC")

SPARK_KAFKA_SCHEMA = pa.schema(
    [
        pa.field("key", _BINARY),
        pa.field("value", _BINARY),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", _TIMESTAMP),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", _HEADERS),
    ]
)
"""What ``RecordBlock.to_arrow`` gives."""


def record_batch(
    columns: Columns, topic: str, partition: int, names: Sequence[str] = tuple(SPARK_KAFKA_SCHEMA.names)
) -> pa.RecordBatch:
    """All records of ``columns``, in the columns of these names. Headers are an empty list where a record has none.

    Raises UnsupportedFormatError for a timestamp whose microseconds do not fit 64 bits, if timestamps are asked for, and
    KeyError for a name that is not in the schema.
    """
    length = len(columns)
    topics, partitions = _constants(topic, partition, _bits(length))
    arrays: Mapping[str, Callable[[], pa.Array]] = {
        "key": lambda: _binary(columns.binary_column(False), length),
        "value": lambda: _binary(columns.binary_column(True), length),
        "topic": lambda: topics.slice(0, length),
        "partition": lambda: partitions.slice(0, length),
        "offset": lambda: pa.Array.from_buffers(pa.int64(), length, [None, pa.py_buffer(columns.offsets_buffer())]),
        "timestamp": lambda: pa.Array.from_buffers(_TIMESTAMP, length, [None, pa.py_buffer(_microseconds(columns))]),
        "timestampType": lambda: pa.Array.from_buffers(
            pa.int32(), length, [None, pa.py_buffer(columns.timestamp_types_buffer())]
        ),
        "headers": lambda: _headers(columns.header_columns(), length),
    }
    return pa.record_batch([arrays[name]() for name in names], schema=schema_of(names))


@lru_cache(maxsize=64)
def _schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([SPARK_KAFKA_SCHEMA.field(name) for name in names])


def schema_of(names: Sequence[str]) -> pa.Schema:
    """The schema with the columns of these names, in their order. Raises KeyError for a name that is not in it."""
    return _schema(tuple(names))


def _microseconds(columns: Columns) -> Buffer:
    try:
        return columns.microseconds()
    except OverflowError:
        raise UnsupportedFormatError("a record's timestamp is too large for Arrow's microseconds") from None


def _bits(length: int) -> int:
    return max(length - 1, 0).bit_length()


@lru_cache(maxsize=8)
def _constants(topic: str, partition: int, bits: int) -> tuple[pa.Array, pa.Array]:
    """Both constant columns with ``2 ** bits`` values, made once: blocks of one partition share them."""
    return pa.repeat(pa.scalar(topic, pa.string()), 1 << bits), pa.repeat(pa.scalar(partition, pa.int32()), 1 << bits)


@lru_cache(maxsize=8)
def _nulls(kind: pa.DataType, bits: int) -> pa.Array:
    """``2 ** bits`` nulls, made once: all blocks share them."""
    return pa.nulls(1 << bits, kind)


@lru_cache(maxsize=8)
def _empty_lists(bits: int) -> pa.Array:
    """``2 ** bits`` empty lists of headers, made once: all blocks share them."""
    ends = pa.py_buffer(bytes(4 * ((1 << bits) + 1)))
    return pa.Array.from_buffers(_HEADERS, 1 << bits, [None, ends], children=[pa.array([], _HEADER)])


def _binary(column: BinaryColumn | None, length: int, kind: pa.DataType = _BINARY) -> pa.Array:
    if column is None:
        return _nulls(kind, _bits(length)).slice(0, length)
    ends, data, validity, nulls = column
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, length, buffers, nulls)


def _headers(columns: HeaderColumns | None, length: int) -> pa.Array:
    if columns is None:
        return _empty_lists(_bits(length)).slice(0, length)
    ends, count, names, values = columns
    headers = pa.StructArray.from_arrays([_names(names, count), _binary(values, count)], fields=list(_HEADER))
    return pa.Array.from_buffers(_HEADERS, length, [None, pa.py_buffer(ends)], children=[headers])


def _names(column: BinaryColumn, count: int) -> pa.Array:
    names = _binary(column, count, pa.string())
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        # Kafka does not check that names are UTF-8; Java shows malformed ones as U+FFFD
        names = pa.array([name.decode("utf-8", "replace") for name in _binary(column, count).to_pylist()], pa.string())
    return names
