"""The columns of the source: Spark's own schema, and record batches of it from both paths.

::

    column         | type                                      | there
    key            | binary                                    | unless remote.includeKey=false
    value          | binary                                    | unless remote.includeValue=false
    topic          | string                                    | unless remote.includeTopic=false
    partition      | int                                       | unless remote.includePartition=false
    offset         | bigint                                    | unless remote.includeOffset=false
    timestamp      | timestamp_ltz                             | unless remote.includeTimestamp=false
    timestampType  | int: -1 none, 0 CreateTime, 1 LogAppend   | unless remote.includeTimestampType=false
    headers        | array<struct<key string, value binary>>,  | if includeHeaders=true
                   | null where a record has none              |

In a schema, ``timestamp`` has no time zone if ``spark.sql.timestampType`` says so. That of Spark's own source always has one.

References: Spark's KafkaRecordToRowConverter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.records.arrow import SPARK_KAFKA_SCHEMA, schema_of
from kafka_remote_client.spark.options.source_options import ColumnChoice

__all__ = ["BATCH_ROWS", "batches", "column_names", "ddl", "from_messages", "simple_string"]

BATCH_ROWS = 10_000
"""Rows of one record batch: larger ones are slower in the JVM."""

_MOST_MS = (2**63 - 1) // 1000

_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp_ltz",
    "timestampType": "int",
    "headers": "array<struct<key: string, value: binary>>",
}


def column_names(choice: ColumnChoice) -> tuple[str, ...]:
    """The columns, in their order."""
    return tuple(name for name, is_there in zip(_TYPES, attrs.astuple(choice), strict=True) if is_there)


def ddl(choice: ColumnChoice) -> str:
    """The schema in Spark's words. All columns may be null, as in Spark's own source."""
    return ", ".join(f"{name} {_TYPES[name]}" for name in column_names(choice))


def simple_string(choice: ColumnChoice) -> str:
    """The schema as PySpark's ``StructType.simpleString`` has it."""
    types = {name: _TYPES[name].replace("timestamp_ltz", "timestamp").replace(" ", "") for name in column_names(choice)}
    return f"struct<{','.join(f'{name}:{kind}' for name, kind in types.items())}>"


def batches(records: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Cuts a batch of all columns to those of ``names``, and to batches of at most BATCH_ROWS rows, without copying."""
    if "headers" in names:
        records = _without_empty_headers(records)
    chosen = records.select(list(names))
    for start in range(0, len(chosen), BATCH_ROWS):
        yield chosen.slice(start, BATCH_ROWS)


def _without_empty_headers(records: pa.RecordBatch) -> pa.RecordBatch:
    """Null for an empty list: the lists get the validity that their lengths give."""
    index = records.schema.get_field_index("headers")
    lists = records.column(index)
    filled = pc.greater(pc.list_value_length(lists), 0)
    if pc.all(filled, min_count=0).as_py():
        return records
    if lists.offset or not pc.any(filled).as_py():
        headers = pc.if_else(filled, lists, pa.scalar(None, lists.type))
    else:
        headers = pa.Array.from_buffers(
            lists.type, len(lists), [filled.buffers()[1], lists.buffers()[1]], children=[lists.values]
        )
    return records.set_column(index, records.schema.field(index), headers)


def from_messages(
    messages: Sequence[Message], topic_partition: TopicPartition, names: Sequence[str] = tuple(SPARK_KAFKA_SCHEMA.names)
) -> pa.RecordBatch:
    """The columns ``names`` of what the broker path gave: an object per record, as librdkafka hands them out.

    Raises UnsupportedFormatError for a timestamp whose microseconds do not fit 64 bits, and for a header whose name is not
    UTF-8, if ``names`` has these columns.
    """
    columns: dict[str, Callable[[], list[object]]] = {
        "key": lambda: [message.key() for message in messages],
        "value": lambda: [message.value() for message in messages],
        "topic": lambda: [topic_partition.topic] * len(messages),
        "partition": lambda: [topic_partition.partition] * len(messages),
        "offset": lambda: [message.offset() for message in messages],
        "timestamp": lambda: [_microseconds(message, topic_partition) for message in messages],
        # librdkafka counts the kinds from 0 = none, Java from -1.
        "timestampType": lambda: [message.timestamp()[0] - 1 for message in messages],
        "headers": lambda: [_headers(message, topic_partition) for message in messages],
    }
    schema = schema_of(names)
    return pa.record_batch([pa.array(columns[field.name](), field.type) for field in schema], schema=schema)


def _microseconds(message: Message, topic_partition: TopicPartition) -> int:
    kind, time = message.timestamp()
    if not kind:
        return -1000  # librdkafka has another time for a record without one
    if not -_MOST_MS <= time <= _MOST_MS:
        raise _unsupported(message, topic_partition, f"the timestamp {time} is too large for microseconds")
    return time * 1000


def _headers(message: Message, topic_partition: TopicPartition) -> list[dict[str, object]]:
    try:
        headers: Any = message.headers()  # pairs, or None where there are none
    except SystemError:
        raise _unsupported(
            message, topic_partition, "the name of a header is not UTF-8, and confluent_kafka cannot read it"
        ) from None
    return [{"key": name, "value": value} for name, value in headers or ()]


def _unsupported(message: Message, topic_partition: TopicPartition, what: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(f"{topic_partition} at offset {message.offset()}: {what}")
