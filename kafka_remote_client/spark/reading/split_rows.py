"""A split as a row: how Spark carries it to a task, as a value of its own and not in the code of all tasks. Pure.

::

    column            | type   | field of Split
    topic             | string | topic_partition
    partition         | int    | topic_partition
    start             | bigint | start
    end               | bigint | end
    size              | bigint | size_in_bytes
    tiered_end        | bigint | tiered_end; null = unknown
    tier_failure      | string | tier_failure; null = none
    max_broker_bytes  | bigint | max_broker_bytes; null = no limit

It has no location: a task asks for its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split

__all__ = ["SPLIT_SCHEMA", "SplitRow", "row_of_split", "split_batch", "split_of_row", "splits_of_batches"]

SPLIT_SCHEMA = (
    "topic string, partition int, start bigint, end bigint, size bigint, tiered_end bigint, tier_failure string, "
    "max_broker_bytes bigint"
)
"""The schema of a row, in Spark's notation."""
SplitRow: TypeAlias = tuple[str, int, int, int, int, int | None, str | None, int | None]
_ARROW = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}


def row_of_split(split: Split) -> SplitRow:
    """The split as a row of SPLIT_SCHEMA."""
    told = (split.tiered_end, split.tier_failure, split.max_broker_bytes)
    return (*split.topic_partition, split.start, split.end, split.size_in_bytes, *told)


def split_of_row(row: Sequence[Any]) -> Split:
    """The split of a row of SPLIT_SCHEMA."""
    topic, partition, *more = row
    return Split(TopicPartition(topic, partition), *more)


def split_batch(splits: Iterable[Split]) -> pa.RecordBatch:
    """The splits as a record batch of SPLIT_SCHEMA."""
    rows = [row_of_split(split) for split in splits]
    columns = [column.split() for column in SPLIT_SCHEMA.split(", ")]
    arrays = [pa.array([row[place] for row in rows], _ARROW[kind]) for place, (_, kind) in enumerate(columns)]
    return pa.record_batch(arrays, [name for name, _ in columns])


def splits_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Split]:
    """The splits of record batches of SPLIT_SCHEMA."""
    for batch in batches:
        yield from map(split_of_row, zip(*(column.to_pylist() for column in batch.columns), strict=True))
