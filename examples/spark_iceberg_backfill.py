"""Copies a topic from its tier into an Iceberg table, each record once, and prints the offsets where a stream continues.

    python examples/spark_iceberg_backfill.py --store s3://bucket/tier --topic orders --catalog lake --table kafka.orders
    spark-submit examples/spark_iceberg_backfill.py --spark --store …    # the same on Spark's executors

``--catalog`` is a name in pyiceberg's configuration. Python workers read the tier and write Parquet files, and the driver adds
these to the table by their statistics; no JVM sees a record. If you start it again after a crash, it continues where it was.

The output is the exact end of each partition as ``startingOffsets`` of ``format("kafka-remote")`` and ``format("kafka")``. A
stream that starts there has no gap and no duplicate, for example::

    OFFSETS=$(python examples/spark_iceberg_backfill.py …)
    python examples/spark_live_stream.py --target /data/live --checkpoint /data/live.checkpoint startingOffsets="$OFFSETS" …
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka_remote_client import scan
from kafka_remote_client.errors import DirectFetchError


@contextmanager
def executors(wanted: bool) -> Iterator[Any]:
    """Returns a Spark session on the master of ``spark-submit``, otherwise on this machine; ``None`` without ``--spark``."""
    if not wanted:
        yield None
        return
    from pyspark import SparkConf  # noqa: PLC0415 - one machine needs no Spark
    from pyspark.sql import SparkSession  # noqa: PLC0415

    settings = SparkConf().setAppName("spark_iceberg_backfill").setIfMissing("spark.master", "local[*,4]")
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def main() -> None:
    """Runs or continues the backfill, and prints the offsets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", required=True, help="URL of the tier: s3://BUCKET/PREFIX, gs://…, az://…, file:///DIR")
    parser.add_argument("--layout", default="local-tiered-storage", help="layout of its objects")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=0, help="of the topic, if the tier may have nothing of some of them")
    parser.add_argument("--catalog", required=True, help="name of a catalog in pyiceberg's configuration")
    parser.add_argument("--table", required=True, help="NAMESPACE.TABLE")
    parser.add_argument("--job", default="backfill", help="name of what is copied once")
    parser.add_argument("--spark", action="store_true", help="write the table on Spark's executors")
    arguments = parser.parse_args()
    try:
        records = scan(arguments.store, arguments.topic, layout=arguments.layout)
        with executors(arguments.spark) as spark:
            result = records.to_iceberg(arguments.catalog, arguments.table, job=arguments.job, partition_by="day", spark=spark)
    except DirectFetchError as error:
        sys.exit(f"not copied: {error}")
    print(f"{result.rows} records in {len(result.files)} files of {arguments.table}", file=sys.stderr)
    print(result.starting_offsets({arguments.topic: arguments.partitions}))


if __name__ == "__main__":
    main()
