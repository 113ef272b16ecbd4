"""Records as Arrow data, in two schemas: the one of Spark's Kafka source, and the one of ``Consumer.consume_arrow``.

:data:`SPARK_KAFKA_SCHEMA` equals the schema of Spark's source, nullable flags included. :data:`RECORD_SCHEMA` has the fields of
a ``Message``: also leader epochs, timestamps in Kafka's milliseconds, and null if a record has no timestamp or no leader epoch.

References: Spark's KafkaRecordToRowConverter, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.model import UNKNOWN_EPOCH
from kafka_remote_client.records._select import Columns
from kafka_remote_client.records.columns import BinaryColumn, Buffer, HeaderColumns

__all__ = ["RECORD_SCHEMA", "SPARK_KAFKA_SCHEMA", "message_table", "messages_of", "record_batch", "schema_of", "slice_batch"]

_BINARY = pa.binary()
_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", _BINARY)])
_HEADERS = pa.list_(pa.field("element", _HEADER))
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_MILLISECONDS = pa.timestamp("ms", tz="UTC")
_MOST_TEXT = 2**31 - 1
"""The most bytes of all texts of a column, because their offsets have 32 bits."""

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
"""The schema of ``RecordBlock.to_arrow``."""

RECORD_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _MILLISECONDS),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("leader_epoch", pa.int32()),
        pa.field("key", _BINARY),
        pa.field("value", _BINARY),
        pa.field("headers", _HEADERS),
    ]
)
"""The schema of ``Consumer.consume_arrow``. Timestamp types are Kafka's: 0 CreateTime, 1 LogAppendTime, -1 no timestamp."""


def record_batch(
    columns: Columns, topic: str, partition: int, names: Sequence[str] = tuple(SPARK_KAFKA_SCHEMA.names)
) -> pa.RecordBatch:
    """All records of ``columns``, as the Arrow columns ``names``. The headers of a record without headers are an empty list.

    Raises UnsupportedFormatError for a timestamp whose microseconds do not fit 64 bits, if ``names`` has ``timestamp``, and for
    a column ``topic`` of 2 GiB or more; KeyError for a name that is not in the schema.
    """
    length = len(columns)
    bits = _bits(length)
    arrays: Mapping[str, Callable[[], pa.Array]] = {
        "key": lambda: _binary(columns.binary_column(False, 0, length), length),
        "value": lambda: _binary(columns.binary_column(True, 0, length), length),
        "topic": lambda: _topic_column(topic, length),
        "partition": lambda: _partitions(partition, bits).slice(0, length),
        "offset": lambda: pa.Array.from_buffers(pa.int64(), length, [None, pa.py_buffer(columns.offsets_buffer())]),
        "timestamp": lambda: pa.Array.from_buffers(_TIMESTAMP, length, [None, pa.py_buffer(_microseconds(columns))]),
        "timestampType": lambda: pa.Array.from_buffers(
            pa.int32(), length, [None, pa.py_buffer(columns.timestamp_types_buffer())]
        ),
        "headers": lambda: _headers(columns.header_columns(0, length), length),
    }
    return pa.record_batch([arrays[name]() for name in names], schema=schema_of(names))


@lru_cache(maxsize=64)
def _schema(names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([SPARK_KAFKA_SCHEMA.field(name) for name in names])


def schema_of(names: Sequence[str]) -> pa.Schema:
    """SPARK_KAFKA_SCHEMA with the columns ``names`` only, in that order. Raises KeyError for a name that is not in it."""
    return _schema(tuple(names))


def _microseconds(columns: Columns) -> Buffer:
    try:
        return columns.microseconds()
    except OverflowError:
        raise UnsupportedFormatError("a record's timestamp is too large for Arrow's microseconds") from None


def slice_batch(columns: Columns, topic: str, partition: int, start: int, stop: int) -> pa.RecordBatch:
    """The records ``[start, stop)`` with :data:`RECORD_SCHEMA`. Offsets, times and epochs are the block's own memory."""
    length = stop - start
    bits = _bits(length)
    types = _numbers(columns.timestamp_types_buffer(), pa.int32(), start, length)
    timestamps = _numbers(columns.timestamps_buffer(), _MILLISECONDS, start, length)
    epochs = _numbers(columns.leader_epochs_buffer(), pa.int32(), start, length)
    arrays = [
        _topic_column(topic, length),
        _partitions(partition, bits).slice(0, length),
        _numbers(columns.offsets_buffer(), pa.int64(), start, length),
        _null_where_negative(timestamps, types),
        types,
        _null_where_negative(epochs, epochs),
        _binary(columns.binary_column(False, start, stop), length),
        _binary(columns.binary_column(True, start, stop), length),
        _headers(columns.header_columns(start, stop), length),
    ]
    return pa.record_batch(arrays, schema=RECORD_SCHEMA)


def _numbers(column: Buffer, kind: pa.DataType, start: int, length: int) -> pa.Array:
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(column)], offset=start)


def _null_where_negative(column: pa.Array, indicator: pa.Array) -> pa.Array:
    """``column``, null where ``indicator`` is negative, which is rare."""
    if not len(indicator) or pc.min(indicator).as_py() >= 0:
        return column
    return pc.if_else(pc.less(indicator, 0), pa.scalar(None, column.type), column)


def message_table(messages: Sequence[Message]) -> pa.Table:
    """``messages`` as a table with :data:`RECORD_SCHEMA`; no message may be an error.

    Headers are null if confluent_kafka cannot read them, because a name is not UTF-8.
    """
    times = [message.timestamp() for message in messages]
    columns = [
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [None if kind == TIMESTAMP_NOT_AVAILABLE else time for kind, time in times],
        [kind - 1 for kind, _ in times],  # librdkafka's types of timestamps are Kafka's plus 1
        [message.leader_epoch() for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [_headers_of(message) for message in messages],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, RECORD_SCHEMA, strict=True)], schema=RECORD_SCHEMA
    )


def _message_headers(headers: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | bytes | None]] | None:
    """Headers as a message has them: a name ends before its first NUL, and no headers are None."""
    return [(header["key"].partition("\0")[0], header["value"]) for header in headers] or None


def _message_timestamp(kind: int, time: int | None) -> tuple[int, int]:
    """librdkafka's types of timestamps are Kafka's plus 1, and a record without one has the time 0."""
    return kind + 1, time or 0


def messages_of(batch: pa.RecordBatch) -> list[Message]:
    """The records of ``batch``, which has :data:`RECORD_SCHEMA`, as ``RecordBlock.messages`` makes them."""
    fields = [column.cast(pa.int64()) if column.type == _MILLISECONDS else column for column in batch.columns]
    return [
        Message(
            *(topic, partition, offset, key, value, _message_headers(headers), None, _message_timestamp(kind, time), -1.0),
            UNKNOWN_EPOCH if epoch is None else epoch,
        )
        for topic, partition, offset, time, kind, epoch, key, value, headers in zip(
            *(field.to_pylist() for field in fields), strict=True
        )
    ]


def _headers_of(message: Message) -> Any:
    try:
        return message.headers() or []
    except SystemError:  # a name that is not UTF-8
        return None


def _bits(length: int) -> int:
    """The smallest power of 2 that is at least ``length``, as its exponent: cached arrays have few sizes and are sliced."""
    return max(length - 1, 0).bit_length()


def _topic_column(topic: str, length: int) -> pa.Array:
    """The column of the topic, with as many values. Raises UnsupportedFormatError for 2 GiB or more."""
    size, bits = len(topic.encode()), _bits(length)
    if size << bits <= _MOST_TEXT:
        return _topics(topic, bits).slice(0, length)
    if size * length > _MOST_TEXT:
        raise UnsupportedFormatError(f"the topic's name, {length} times, is too large for a column of Arrow's")
    return _repeated(topic, length)


@lru_cache(maxsize=8)
def _topics(topic: str, bits: int) -> pa.Array:
    """The column of the topic with ``2 ** bits`` values, which its blocks share."""
    return _repeated(topic, 1 << bits)


def _repeated(topic: str, count: int) -> pa.Array:
    """It is made of buffers, because ``pyarrow.scalar`` and ``pyarrow.array`` import pandas if it is installed: 0.4 s."""
    name = topic.encode()
    ends = array("i", range(0, len(name) * count + 1, len(name)))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(name * count)])


@lru_cache(maxsize=8)
def _partitions(partition: int, bits: int) -> pa.Array:
    """The same of the partition."""
    count = 1 << bits
    return pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(array("i", [partition]) * count)])


@lru_cache(maxsize=8)
def _nulls(kind: pa.DataType, bits: int) -> pa.Array:
    """``2 ** bits`` nulls, which all blocks share."""
    return pa.nulls(1 << bits, kind)


@lru_cache(maxsize=8)
def _empty_lists(bits: int) -> pa.Array:
    """``2 ** bits`` empty lists of headers, which all blocks share."""
    ends = pa.py_buffer(bytes(4 * ((1 << bits) + 1)))
    return pa.Array.from_buffers(_HEADERS, 1 << bits, [None, ends], children=[pa.nulls(0, _HEADER)])


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
