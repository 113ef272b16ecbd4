"""Copies records of Kafka topics into a database exactly once, also when tasks or the job fail.

A task writes the records of a split and its completion mark in one transaction, so the database has whole splits only. A
repeated or duplicate task finds the mark and writes nothing. A job that is started again, after a crash or for new records,
reads only unfinished splits.

    python examples/spark_to_database.py --database sqlite:///copy.db subscribe=orders kafka.bootstrap.servers=localhost:9092 …

``--database`` may also be postgresql://…, which needs psycopg. The rest are options of ``format("kafka-remote")``.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from typing import Any

from pyspark import SparkConf
from pyspark.sql import SparkSession

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.spark import SplitRecords, read_segments

TABLES = (
    "CREATE TABLE IF NOT EXISTS finished_splits (id TEXT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS records (topic TEXT, part INT, position BIGINT, time_ms BIGINT, key BYTEA, value BYTEA,"
    " PRIMARY KEY (topic, part, position))",
)


def connect(database: str) -> tuple[Any, str]:
    """Returns a connection and the placeholder for a value in its SQL."""
    if database.startswith("sqlite:///"):
        # SQLite has one writer at a time: the others wait.
        return sqlite3.connect(database.removeprefix("sqlite:///"), timeout=600), "?"
    import psycopg  # noqa: PLC0415 - only PostgreSQL needs it

    return psycopg.connect(database), "%s"


def store(database: str, records: SplitRecords) -> None:
    """Runs in a task: writes a split and its mark, or nothing. Raises the database's errors."""
    connection, mark = connect(database)
    with closing(connection), connection:  # commits at the end, unless an error was raised
        cursor = connection.cursor()
        # A concurrent task with the same split waits here until this transaction ends.
        cursor.execute(f"INSERT INTO finished_splits VALUES ({mark}) ON CONFLICT DO NOTHING", (records.id,))
        if cursor.rowcount:
            cursor.executemany(f"INSERT INTO records VALUES ({', '.join([mark] * 6)})", rows(records))


def rows(records: SplitRecords) -> Iterator[tuple[object, ...]]:
    """A row of the table for each record."""
    for message in records:
        _, time = message.timestamp()
        yield message.topic(), message.partition(), message.offset(), time, message.key(), message.value()


def finished(database: str) -> list[str]:
    """Returns the finished splits. Creates missing tables."""
    connection, _ = connect(database)
    with closing(connection), connection:
        cursor = connection.cursor()
        for table in TABLES:
            cursor.execute(table)
        return [split_id for (split_id,) in cursor.execute("SELECT id FROM finished_splits").fetchall()]


def copy(spark: SparkSession, options: dict[str, str], database: str) -> int:
    """Copies the unfinished splits. Returns their number."""
    segments = read_segments(spark, options).without(finished(database))
    segments.foreachPartition(partial(store, database))
    return len(segments.splits)


def setting(text: str) -> tuple[str, str]:
    """A setting of the command line."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    """Runs on the master of ``spark-submit``, otherwise on this machine with four attempts per task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", required=True)
    parser.add_argument("options", nargs="+", metavar="NAME=VALUE", type=setting)
    arguments = parser.parse_args()
    settings = SparkConf().setAppName("spark_to_database").setIfMissing("spark.master", "local[2,4]")
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    try:
        print(copy(spark, dict(arguments.options), arguments.database), "splits copied")
    except DirectFetchError as error:
        sys.exit(f"not copied: {error}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
