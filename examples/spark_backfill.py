"""Copies Kafka topics to Parquet files, with progress, and resumes after a crash without loss or duplicates.

    python examples/spark_backfill.py --target file:///data/orders subscribe=orders kafka.bootstrap.servers=localhost:9092 …

``--target`` is a directory or a bucket as pyarrow names them (file://, s3://, gs://, hdfs://). The rest are options of
``format("kafka-remote")``. Below the target::

    data/<split>-<random>.parquet    the file of one attempt at a split; complete unless the attempt crashed
    finished/<split>.json            the manifest of a split: its valid file and the number of rows

A split is finished when its manifest exists. Crashed or duplicate attempts leave files that are in no manifest: delete them
when no copy runs. ``load(spark, target)`` returns the DataFrame of all finished splits.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from uuid import uuid4

import pyarrow.parquet
from pyarrow.fs import FileSelector, FileSystem
from pyspark import SparkConf
from pyspark.sql import DataFrame, SparkSession

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.spark import SplitRecords, read_segments

SPLITS_PER_CORE = 8
"""So many are copied between two lines of progress."""


def store(target: str, records: SplitRecords) -> None:
    """Runs in a task: writes a split to a file, then its manifest."""
    files, root = FileSystem.from_uri(target)
    name, rows = f"data/{records.id}-{uuid4().hex}.parquet", 0
    with files.open_output_stream(f"{root}/{name}") as file, pyarrow.parquet.ParquetWriter(file, records.schema) as writer:
        for batch in records.batches():
            writer.write_batch(batch)
            rows += batch.num_rows
    unfinished = f"{root}/data/{records.id}-{uuid4().hex}.json"
    with files.open_output_stream(unfinished) as file:
        file.write(json.dumps({"split": records.id, "file": name, "rows": rows}).encode())
    # A manifest appears whole or not at all. Of two attempts with the same records, the later one wins.
    files.move(unfinished, f"{root}/finished/{records.id}.json")


def manifest(target: str) -> list[dict[str, str | int]]:
    """Returns the manifests of all finished splits. Creates missing directories."""
    files, root = FileSystem.from_uri(target)
    for name in ("data", "finished"):
        files.create_dir(f"{root}/{name}")
    found = files.get_file_info(FileSelector(f"{root}/finished"))
    return [json.loads(files.open_input_stream(each.path).read()) for each in found]


def copy(spark: SparkSession, options: dict[str, str], target: str, say: Callable[[str], None] = print) -> None:
    """Copies the unfinished splits and prints the progress."""
    segments = read_segments(spark, options).without(str(line["split"]) for line in manifest(target))
    splits, done = segments.splits, 0
    size = sum(split.size_in_bytes for split in splits)
    say(f"{len(splits)} splits to copy, {size / 1e9:.3f} GB")
    step = SPLITS_PER_CORE * spark.sparkContext.defaultParallelism
    for first in range(0, len(splits), step):
        some = splits[first : first + step]
        segments.only(some).foreachPartition(partial(store, target))
        done += sum(split.size_in_bytes for split in some)
        say(f"{first + len(some)} of {len(splits)} splits, {done / 1e9:.3f} of {size / 1e9:.3f} GB")


def load(spark: SparkSession, target: str) -> DataFrame:
    """Returns the copied records, with the columns of ``format("kafka-remote")``. Raises ValueError if there are none."""
    lines = manifest(target)
    if not lines:
        raise ValueError(f"nothing is finished in {target}")
    return spark.read.parquet(*(f"{target}/{line['file']}" for line in lines))


def folder(text: str) -> str:
    """A target of the command line."""
    try:
        FileSystem.from_uri(text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def setting(text: str) -> tuple[str, str]:
    """A setting of the command line."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Runs on the master of ``spark-submit``, otherwise on this machine with four attempts per task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, type=folder)
    parser.add_argument("options", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = SparkConf().setAppName("spark_backfill").setIfMissing("spark.master", "local[*,4]")
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    try:
        copy(spark, dict(arguments.options), arguments.target)
    except DirectFetchError as error:
        sys.exit(f"not copied: {error}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
