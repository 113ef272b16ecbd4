"""Writes the splits of an export in tasks of a Spark job: executors read, write and record splits, and the driver commits.

::

    driver      splits as rows  ->  a task for each  ->  records as JSON  ->  commit plan
    executor                        opens the tier, writes the split's files, writes its record

    session   | splits are rows of                                      | a task runs in
    classic   | an RDD                                                  | ``mapPartitions``
    Connect   | a DataFrame, partitioned by the number of the split     | ``mapInArrow``: Connect has no RDDs

A task that is repeated, or that runs twice, writes files of its own. One of its split records is used, with all its files. The
executors need this package and the target under the same path.

References: docs/tables.md, "Export"; ``RDD.mapPartitions``; ``DataFrame.mapInArrow``, ``DataFrame.repartitionByRange``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pyarrow as pa

from kafka_remote_client.errors import ExportError
from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.export.run import Export, Steps, write_split_of
from kafka_remote_client.scanning.export.written_files import WrittenSplit
from kafka_remote_client.scanning.splits import Split

__all__ = ["write_in_tasks"]

_MOST_TASKS = 10_000
_Row = tuple[str, int, int, int, int]
_ROW_SCHEMA = "number bigint, topic string, partition int, start bigint, end bigint, size bigint"
_WRITTEN = "written"
_OF_PY4J = "An error occurred while calling "
"""How the first line of each error of Java begins."""


def write_in_tasks(export: Export, session: Any, splits: Sequence[Split]) -> Steps:
    """Runs a Spark job for the splits and yields what its tasks wrote. ``session``: a ``pyspark.sql.SparkSession``.

    Raises ExportError if the job fails. The next run does not write splits again whose records exist.
    """
    if not splits:
        return
    rows: list[_Row] = [(*split.topic_partition, split.start, split.end, split.size_in_bytes) for split in splits]
    tasks = min(len(rows), _MOST_TASKS)
    run = _on_connect if type(session).__module__.startswith("pyspark.sql.connect") else _on_classic
    try:
        written = run(session, rows, tasks, export)
    except Exception as error:  # of Py4J or gRPC, which this package does not import
        raise ExportError(f"the Spark job of export {export.job} failed: {_short(error)}") from error
    for text in written:
        yield WrittenSplit.of_json(json.loads(text))


def _on_classic(session: Any, rows: Sequence[_Row], tasks: int, export: Export) -> list[str]:
    written: list[str] = session.sparkContext.parallelize(rows, tasks).mapPartitions(partial(_task, export)).collect()
    return written


def _on_connect(session: Any, rows: Sequence[_Row], tasks: int, export: Export) -> list[str]:
    numbered = session.createDataFrame([(number, *row) for number, row in enumerate(rows)], _ROW_SCHEMA)
    partitioned = numbered.repartitionByRange(tasks, "number")
    return [row[_WRITTEN] for row in partitioned.mapInArrow(partial(_batches, export), f"{_WRITTEN} string").collect()]


def _batches(export: Export, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (tuple(row.values())[1:] for batch in batches for row in batch.to_pylist())
    for text in _task(export, rows):
        yield pa.record_batch([pa.array([text])], [_WRITTEN])


def _task(export: Export, rows: Iterable[_Row]) -> Iterator[str]:
    with export.open() as opened:
        for topic, partition, start, end, size in rows:
            split = Split(TopicPartition(topic, partition), start, end, size)
            with closing(write_split_of(export, opened, split)) as steps:
                for step in steps:
                    if isinstance(step, WrittenSplit):
                        yield json.dumps(step.to_json())


def _short(error: Exception) -> str:
    """The line of a failed job's text with the error of its task, the last line of Python's traceback, or else Java's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("kafka_remote_client.")]
    others = [line.removeprefix(": ") for line in lines if not line.startswith(_OF_PY4J)]
    return (named or others or [type(error).__name__])[0]
