"""Jobs of :class:`tests.support.spark.SparkDriver` for tables.py: topics as Parquet, by a source of rows and by an export."""

from __future__ import annotations

import shutil
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, from_json

from kafka_remote_client import scan
from tests.benchmarks.table_writing import arrow_schema

__all__ = ["export_on_executors", "rows_to_parquet"]


def rows_to_parquet(spark: SparkSession, source: str, options: dict[str, str], target: str, schema: str | None = None) -> Any:
    """Seconds of a job that writes all rows of a source; with a DDL ``schema`` their values are JSON and become a struct."""
    began = time.perf_counter()
    frame = spark.read.format(source).options(**options).load()
    if schema is not None:
        frame = frame.withColumn("value", from_json(col("value").cast("string"), schema))
    frame.write.option("compression", "zstd").mode("overwrite").parquet(target)
    seconds = time.perf_counter() - began
    rows = spark.read.parquet(target).count()
    shutil.rmtree(target)
    return {"seconds": seconds, "rows": rows}


def export_on_executors(spark: SparkSession, store: str, topic: str, target: str, schema: dict[str, str] | None = None) -> Any:
    """The same of ``Scan.to_parquet`` with this session."""
    began = time.perf_counter()
    more: dict[str, Any] = {} if schema is None else {"value_format": "json", "value_schema": arrow_schema(schema)}
    result = scan(store, topic).to_parquet(target, spark=spark, compression="zstd", **more)
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return {"seconds": seconds, "rows": result.rows}
