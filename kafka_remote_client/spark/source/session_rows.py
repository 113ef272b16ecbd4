"""Splits as rows of a DataFrame, one in each task, in a classic session and on Connect.

Spark sends the splits to each executor once, as rows, and each task joins its number with them. So the code of a task does not
grow with the number of splits, and each task has exactly one of them.

References: PySpark's SparkSession.range.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.reading.split_rows import SPLIT_SCHEMA, row_of_split

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["is_on_connect", "numbered_rows", "rows_of_splits"]

_NUMBER = "id"
"""The column of ``SparkSession.range``."""


def is_on_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect, which has neither RDDs nor accumulators."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def rows_of_splits(spark: SparkSession, splits: Sequence[Split]) -> DataFrame:
    """One row of SPLIT_SCHEMA for each split, each in a partition of its own."""
    numbered = [(number, *row_of_split(split)) for number, split in enumerate(splits)]
    rows = spark.createDataFrame(numbered, f"{_NUMBER} bigint, {SPLIT_SCHEMA}")
    return numbered_rows(spark, len(splits)).join(rows.hint("broadcast"), _NUMBER).drop(_NUMBER)


def numbered_rows(spark: SparkSession, count: int) -> DataFrame:
    """One row for each number below ``count``, each in a partition of its own."""
    return spark.range(0, count, 1, max(1, count))
