"""Jobs of the driver for Spark's own scenarios: frames that are kept and collected again, and queries of whole streams."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, expr, window
from pyspark.sql.streaming import DataStreamWriter

__all__ = ["collected", "joined", "kept", "windows"]

_SIDE_BY_SIDE = 4
_FRAMES: dict[str, DataFrame] = {}


def kept(spark: SparkSession, frames: Mapping[str, Sequence[Any]]) -> Any:
    """Keeps frames by name: [source, options]. Returns nothing; an error occurs here or at the collection."""
    for name, (source, options) in frames.items():
        _FRAMES[name] = spark.read.format(source).options(**options).load()


def collected(spark: SparkSession, names: Sequence[str]) -> Any:
    """Returns for each name the values as sorted numbers, their headers if any, and the number of tasks; or the error.

    A name that ends in ``+`` is the union of that frame with itself.
    """
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
        return dict(zip(names, threads.map(_collected, names), strict=True))


def _collected(name: str) -> Any:
    frame = _FRAMES[name.rstrip("+")]
    frame = frame.union(frame) if name.endswith("+") else frame
    wanted = ["CAST(CAST(value AS STRING) AS INT) AS number", "spark_partition_id() AS task"]
    headers = ["headers"] if "headers" in frame.columns else []
    try:
        rows = sorted(frame.selectExpr(*wanted, *headers).collect(), key=lambda row: row.number)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    shown = [None if row.headers is None else [[key, value.decode()] for key, value in row.headers] for row in rows if headers]
    return {"values": [row.number for row in rows], "headers": shown, "tasks": len({row.task for row in rows})}


def _finished(writer: DataStreamWriter, checkpoint: str) -> tuple[int, int]:
    """Runs a query to the current end. Returns the rows, and the number of sources in its checkpoint."""
    query = writer.format("memory").option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    failure = query.exception()
    if failure is not None:
        raise failure
    lines = Path(checkpoint, "offsets", "0").read_text().splitlines()
    # A version, what Spark keeps of the batch, then a line for each source.
    sources = [line for line in lines[2:] if isinstance(json.loads(line), dict)]
    return sum(progress.numInputRows for progress in query.recentProgress), len(sources)


def windows(spark: SparkSession, source: str, options: dict[str, str], checkpoint: str) -> Any:
    """Counts of windows of five seconds by their starts, of a stream with a watermark; rows read, and sources."""
    frame = spark.readStream.format(source).options(**options).load().withWatermark("timestamp", "10 seconds")
    counts = frame.groupBy(window("timestamp", "5 seconds").alias("window")).agg(count("*").alias("count"))
    name = f"windows_{source}".replace("-", "_")
    done = _finished(counts.writeStream.outputMode("complete").queryName(name), checkpoint)
    rows = spark.table(name).select(col("window.start").alias("start"), "count").collect()
    return [sorted([row.start.timestamp(), row["count"]] for row in rows), *done]


def joined(spark: SparkSession, source: str, options: dict[str, str], checkpoint: str) -> Any:
    """A stream joined with itself by its values' remainders; rows read, and sources."""
    numbers = spark.readStream.format(source).options(**options).load()
    numbers = numbers.select(expr("CAST(CAST(value AS STRING) AS INT)").alias("value"))
    numbers = numbers.withColumn("key", col("value") % 5)
    name = f"joined_{source}".replace("-", "_")
    done = _finished(numbers.join(numbers.withColumnRenamed("value", "other"), "key").writeStream.queryName(name), checkpoint)
    rows = spark.table(name).select("key", "value", "other").collect()
    return [sorted(list(row) for row in rows), *done]
