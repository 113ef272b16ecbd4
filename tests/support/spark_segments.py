"""Jobs of :class:`tests.support.spark.SparkDriver` for ``read_segments``: handlers in tasks write their records to files.

The name of a task's file has the split's id and the number of its attempt; it exists after the handler has finished.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Message
from pyspark import TaskContext
from pyspark.sql import SparkSession

from examples import spark_to_database as example
from kafka_remote_client.spark import SplitRecords, read_segments
from tests.support.spark_driver import digest_of

__all__ = ["attempt", "copied", "failing", "frame", "handled", "sizes"]

Options = dict[str, str]


def attempt() -> int:
    """Returns the number of this task's attempt, from 0; 0 if Spark does not have it."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def handled(spark: SparkSession, options: Options, directory: str, finished: list[str], trouble: dict[str, str]) -> Any:
    """Writes each split's records to files in ``directory``. Returns the ids of the splits and the counters.

    ``trouble``: the fault in the middle of a split's first attempt, by the split's number: "raise" or "kill".
    """
    segments = read_segments(spark, options).without(finished)
    by_id = {segments.splits[int(number)].id: kind for number, kind in trouble.items()}
    segments.foreachPartition(partial(_to_file, directory, by_id))
    return {"ids": [split.id for split in segments.splits], "counters": segments.counters()}


def _to_file(directory: str, trouble: dict[str, str], records: SplitRecords) -> None:
    rows = []
    for message in records:
        kind, time = message.timestamp()
        pairs: Any = message.headers() or ()
        headers = [[name, _hex(value)] for name, value in pairs] or None
        found = (_hex(message.key()), _hex(message.value()), message.topic(), message.partition(), message.offset())
        rows.append([*found, time / 1000, kind - 1, headers])
        if attempt() == 0 and len(rows) == 3:
            _happen(trouble.get(records.id, ""), records)
    table = records.to_arrow()
    found_in_arrow = zip(*(table.column(name).to_pylist() for name in ("key", "value", "offset")), strict=True)
    assert [(_hex(key), _hex(value), offset) for key, value, offset in found_in_arrow] == [(*row[:2], row[4]) for row in rows]
    Path(directory, f"{records.id}.{attempt()}").write_text(json.dumps(rows))


def _happen(kind: str, records: SplitRecords) -> None:
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "raise":
        raise RuntimeError(f"the table of {records.id} is gone")


def _hex(value: Any) -> str | None:
    return None if value is None else value.hex()


def copied(spark: SparkSession, options: Options, database: str, trouble: dict[str, str]) -> Any:
    """Runs the example with a database. Returns its number of splits. ``trouble``: as above, by the numbers of tasks."""
    example.store = partial(_store, example.store, trouble)
    try:
        return example.copy(spark, options, database)
    finally:
        example.store = example.store.args[0]


def _store(store: Callable[..., None], trouble: dict[str, str], database: str, records: SplitRecords) -> None:
    context = TaskContext.get()
    assert context is not None
    kind = trouble.get(str(context.partitionId()), "") if context.attemptNumber() == 0 else ""
    store(database, _Troubled(records, kind))


class _Troubled:
    """A split's records, with something that happens after the third one."""

    def __init__(self, records: SplitRecords, kind: str) -> None:
        self.id = records.id
        self._records = records
        self._kind = kind

    def __iter__(self) -> Iterator[Message]:
        for number, message in enumerate(self._records):
            if number == 3:
                _happen(self._kind, self._records)
            yield message


def failing(spark: SparkSession, options: Options) -> Any:
    """Every handler fails."""
    read_segments(spark, options).foreachPartition(partial(_happen, "raise"))


def frame(spark: SparkSession, options: Options, finished: list[str]) -> Any:
    """Returns the digest of the remaining records as a DataFrame, and the counters."""
    segments = read_segments(spark, options).without(finished)
    return {"digest": digest_of(segments.to_dataframe()), "counters": segments.counters()}


def sizes(spark: SparkSession, options: Options) -> Any:
    """Id and number of records of each split, by a function of our own over Arrow batches."""
    return sorted(list(row) for row in read_segments(spark, options).mapInArrow(_size, "id string, records bigint").collect())


def _size(records: SplitRecords) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch([pa.array([records.id]), pa.array([sum(map(len, records.batches()))])], ["id", "records"])
