"""Jobs of :class:`tests.support.spark.SparkDriver` for tables.py: topics as Parquet, by a source of rows and by an export."""

from __future__ import annotations

import shutil
import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.functions import col, expr, from_json

from kafka_remote_client import scan
from tests.benchmarks.table_writing import typed_arguments

__all__ = ["export_on_executors", "rows_to_parquet"]


def rows_to_parquet(
    spark: SparkSession, source: str, options: dict[str, str], target: str, ddl: str | None = None, avro: str | None = None
) -> Any:
    """Seconds of a job that writes all rows of a source.

    Values become a struct: JSON with a schema in ``ddl``, and Avro behind the id of a schema with that schema in ``avro``.
    """
    began = time.perf_counter()
    frame = spark.read.format(source).options(**options).load()
    if ddl is not None:
        frame = frame.withColumn("value", from_json(col("value").cast("string"), ddl))
    if avro is not None:
        frame = frame.withColumn("value", from_avro(expr("substring(value, 6)"), avro))
    frame.write.option("compression", "zstd").mode("overwrite").parquet(target)
    seconds = time.perf_counter() - began
    rows = spark.read.parquet(target).count()
    shutil.rmtree(target)
    return {"seconds": seconds, "rows": rows}


def export_on_executors(spark: SparkSession, store: str, topic: str, target: str, values: dict[str, Any]) -> Any:
    """The same of ``Scan.to_parquet`` with this session. ``values``: as in table_writing.py."""
    began = time.perf_counter()
    result = scan(store, topic).to_parquet(target, spark=spark, compression="zstd", **typed_arguments(values))
    seconds = time.perf_counter() - began
    shutil.rmtree(target)
    return {"seconds": seconds, "rows": result.rows}
