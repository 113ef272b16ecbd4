"""Columns to Arrow: the schema of Spark's Kafka source, nullable flags included.

References: Spark's KafkaRecordToRowConverter, "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import pyarrow as pa

from kafka_remote_client.errors import UnsupportedFormatError
from kafka_remote_client.records._select import Columns

__all__ = ["SPARK_KAFKA_SCHEMA", "record_batch"]

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

SPARK_KAFKA_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("headers", pa.list_(pa.field("element", _HEADER))),
    ]
)


def record_batch(columns: Columns, topic: str, partition: int) -> pa.RecordBatch:
    """All records of ``columns``. Headers are an empty list where a record has none.

    Raises UnsupportedFormatError for a timestamp whose microseconds do not fit 64 bits.
    """
    rows = list(columns.rows(0, len(columns)))
    try:
        timestamps = pa.array([row[1] * 1000 for row in rows], pa.int64())
    except (OverflowError, pa.ArrowInvalid):
        raise UnsupportedFormatError("a record's timestamp is too large for Arrow's microseconds") from None
    arrays = [
        pa.array([row[4] for row in rows], pa.binary()),
        pa.array([row[5] for row in rows], pa.binary()),
        pa.repeat(pa.scalar(topic, pa.string()), len(rows)),
        pa.repeat(pa.scalar(partition, pa.int32()), len(rows)),
        pa.array([row[0] for row in rows], pa.int64()),
        timestamps.cast(SPARK_KAFKA_SCHEMA.field("timestamp").type),
        pa.array([row[2] for row in rows], pa.int32()),
        pa.array(
            [[{"key": name, "value": value} for name, value in row[6]] for row in rows],
            SPARK_KAFKA_SCHEMA.field("headers").type,
        ),
    ]
    return pa.record_batch(arrays, schema=SPARK_KAFKA_SCHEMA)
