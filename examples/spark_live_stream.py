"""Appends Kafka topics to Parquet files as a stream: it starts in the tier, at the first record, catches up, and stays with it.

    python examples/spark_live_stream.py --target /data/orders --checkpoint /data/orders.checkpoint \\
        subscribe=orders kafka.bootstrap.servers=localhost:9092 …

The rest are options of ``format("kafka-remote")``. Each line says how large a batch was and how far behind the stream is.
Stopped and started again with the same checkpoint, it goes on where it was; the files hold each record once.
"""

from __future__ import annotations

import argparse

from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafka_remote_client.spark import offsets_behind


def start(spark: SparkSession, options: dict[str, str], target: str, checkpoint: str) -> StreamingQuery:
    """The query, under way."""
    records = spark.readStream.format("kafka-remote").options(startingOffsets="earliest").options(**options).load()
    writer = records.writeStream.format("parquet").option("path", target).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime="1 second").start()


def follow(query: StreamingQuery) -> None:
    """Says what the last batch was, once a second, until the query ends. Raises what ended it."""
    said = -1
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(1))
        progress = query.lastProgress
        if progress is not None and progress.batchId != said and progress.numInputRows:
            behind = offsets_behind(progress)
            left = "" if behind is None else f", {behind.total} offsets behind"
            print(f"batch {progress.batchId}: {progress.numInputRows} rows{left}", flush=True)
            said = progress.batchId


def main() -> None:
    """Runs with the master that ``spark-submit`` was told, else on this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("options", nargs="+", metavar="NAME=VALUE", type=lambda text: tuple(text.split("=", 1)))
    arguments = parser.parse_args()
    settings = SparkConf().setAppName("spark_live_stream").setIfMissing("spark.master", "local[*]")
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    follow(start(spark, dict(arguments.options), arguments.target, arguments.checkpoint))
    spark.stop()


if __name__ == "__main__":
    main()
