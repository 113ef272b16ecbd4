"""Appends Kafka topics to Parquet files as a stream: starts at the first record in the tier, catches up, and follows the log.

    python examples/spark_live_stream.py --target /data/orders --checkpoint /data/orders.checkpoint \\
        subscribe=orders kafka.bootstrap.servers=localhost:9092 …

The rest are options of ``format("kafka-remote")``. Records of aborted transactions are left out. Each output line has the size
of a batch and the lag of the stream. Restarted with the same checkpoint, it continues where it stopped; the files have each
record once.
"""

from __future__ import annotations

import argparse

from pyspark import SparkConf
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from kafka_remote_client.spark import offsets_behind


def start(spark: SparkSession, options: dict[str, str], target: str, checkpoint: str) -> StreamingQuery:
    """Starts the query."""
    defaults = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    records = spark.readStream.format("kafka-remote").options(**defaults).options(**options).load()
    writer = records.writeStream.format("parquet").option("path", target).option("checkpointLocation", checkpoint)
    return writer.trigger(processingTime="1 second").start()


def follow(query: StreamingQuery) -> None:
    """Prints the last batch, once a second, until the query ends. Raises the error of the query."""
    printed = -1
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(1))
        progress = query.lastProgress
        if progress is not None and progress.batchId != printed and progress.numInputRows:
            behind = offsets_behind(progress)
            left = "" if behind is None else f", {behind.total} offsets behind"
            print(f"batch {progress.batchId}: {progress.numInputRows} rows{left}", flush=True)
            printed = progress.batchId


def setting(text: str) -> tuple[str, str]:
    """A setting of the command line."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Runs on the master of ``spark-submit``, otherwise on this machine."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("options", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = SparkConf().setAppName("spark_live_stream").setIfMissing("spark.master", "local[*]")
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    follow(start(spark, dict(arguments.options), arguments.target, arguments.checkpoint))
    spark.stop()


if __name__ == "__main__":
    main()
