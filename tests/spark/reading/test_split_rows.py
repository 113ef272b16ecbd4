from __future__ import annotations

import attrs
import pyarrow as pa

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading.split_rows import (
    SPLIT_SCHEMA,
    row_of_split,
    split_batch,
    split_of_row,
    splits_of_batches,
)

PLAIN = Split(TopicPartition("t", 3), 5, 8, 100)
FULL = Split(TopicPartition("t", 4), 1 << 40, 1 << 41, 1 << 42, tiered_end=1 << 40, tier_failure="denied", max_broker_bytes=0)


def fields(split: Split) -> tuple[object, ...]:
    """All fields: splits that differ in what the driver knows are equal."""
    return attrs.astuple(split, recurse=False)


def test_a_row_has_all_that_the_driver_knows() -> None:
    assert row_of_split(FULL) == ("t", 4, 1 << 40, 1 << 41, 1 << 42, 1 << 40, "denied", 0)
    assert [fields(split_of_row(row_of_split(split))) for split in (PLAIN, FULL)] == [fields(PLAIN), fields(FULL)]


def test_record_batches_hold_the_same_rows() -> None:
    batch = split_batch([PLAIN, FULL])
    assert batch.schema.names == [column.split()[0] for column in SPLIT_SCHEMA.split(", ")]
    assert batch.schema.types == [pa.string(), pa.int32(), *[pa.int64()] * 4, pa.string(), pa.int64()]
    found = splits_of_batches([batch, split_batch([]), split_batch([PLAIN])])
    assert [fields(split) for split in found] == [fields(split) for split in (PLAIN, FULL, PLAIN)]
