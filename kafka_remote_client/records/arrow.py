"""Columns to Arrow: the schema of Spark's Kafka source, nullable flags included.

References: Spark's KafkaRecordToRowConverter, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.records._select import Columns
from kafka_remote_client.records.columns import BinaryColumn, HeaderColumns

__all__ = ["SPARK_KAFKA_SCHEMA", "record_batch"]

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


def record_batch(columns: Columns, topic: str, partition: int) -> pa.RecordBatch:
    """All records of ``columns``. Headers are an empty list where a record has none.

    Raises UnsupportedFormatError for a timestamp whose microseconds do not fit 64 bits.
    """
    length = len(columns)
    try:
        timestamps = columns.microseconds()
    except OverflowError:
        raise UnsupportedFormatError("a record's timestamp is too large for Arrow's microseconds") from None
    topics, partitions = _constants(topic, partition, _bits(length))
    arrays = [
        _binary(columns.binary_column(False), length),
        _binary(columns.binary_column(True), length),
        topics.slice(0, length),
        partitions.slice(0, length),
        pa.Array.from_buffers(pa.int64(), length, [None, pa.py_buffer(columns.offsets_buffer())]),
        pa.Array.from_buffers(_TIMESTAMP, length, [None, pa.py_buffer(timestamps)]),
        pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(columns.timestamp_types_buffer())]),
        _headers(columns.header_columns(), length),
    ]
    return pa.record_batch(arrays, schema=SPARK_KAFKA_SCHEMA)


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
