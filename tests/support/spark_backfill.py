"""Jobs of :class:`tests.support.spark.SparkDriver` for examples/spark_backfill.py, one of which simulates a crash."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from examples import spark_backfill as example
from kafka_remote_client.spark import SplitRecords, read_segments
from tests.support.spark_driver import digest_of

__all__ = ["copied", "killed_in", "stored"]

Options = dict[str, str]

_whole = example.store


def copied(spark: SparkSession, options: Options, target: str) -> Any:
    """Returns the output of the copy, and the total number of splits."""
    said: list[str] = []
    example.copy(spark, options, target, said.append)
    return [said, len(read_segments(spark, options).splits)]


def killed_in(spark: SparkSession, options: Options, target: str, split: int) -> None:
    """Driver, Java and workers are killed while a task writes the split with that number."""
    victim = read_segments(spark, options).splits[split].id
    example.store = partial(_store, os.getpgid(0), victim)
    example.copy(spark, options, target)


def _store(driver: int, victim: str, target: str, records: SplitRecords) -> None:
    found: Any = _Killing(driver, records) if records.id == victim else records
    _whole(target, found)


class _Killing:
    """A split's records, with an end of all processes before the last batch."""

    def __init__(self, driver: int, records: SplitRecords) -> None:
        self.id = records.id
        self.schema = records.schema
        self._driver = driver
        self._records = records

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._records.batches():
            yield batch.slice(0, 1)
            os.killpg(self._driver, signal.SIGKILL)
            os.killpg(0, signal.SIGKILL)


def stored(spark: SparkSession, target: str) -> Any:
    """The digest of the records that were copied."""
    return digest_of(example.load(spark, target))
