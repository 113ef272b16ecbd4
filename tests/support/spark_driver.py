"""The other end of :class:`tests.support.spark.SparkDriver`: a process with a Spark session that runs jobs by their names.

A request is a line ``[job, arguments]`` of JSON, an answer ``{"answer": …}`` or ``{"error": text}``. The session ends with the
standard input. PySpark finds our source by itself, unless executors have another Python: then the driver registers it.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import kafka_remote_client.spark

__all__ = ["digest_of"]

Options = dict[str, str]

_FAILS = "this batch is to fail"


def _frame(spark: SparkSession, source: str, options: Options) -> DataFrame:
    return spark.read.format(source).options(**options).load()


def schema(spark: SparkSession, source: str, options: Options) -> Any:
    """The schema as Spark's JSON."""
    return json.loads(_frame(spark, source, options).schema.json())


def digest(spark: SparkSession, source: str, options: Options) -> Any:
    """Returns by partition: rows, first and last offset, and two sums over the hashes of all columns of each row."""
    return digest_of(_frame(spark, source, options))


def digest_of(frame: DataFrame) -> Any:
    """The same of rows with the columns of Spark's Kafka source."""
    sums = "count(*)", "min(offset)", "max(offset)", "bit_xor(hash)", "cast(sum(cast(hash as decimal(38, 0))) as string)"
    hashed = frame.selectExpr("*", "xxhash64(*) AS hash")
    rows = hashed.groupBy("topic", "partition").agg(*[_expression(text) for text in sums]).orderBy("topic", "partition")
    return [list(row) for row in rows.collect()]


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def rows(spark: SparkSession, source: str, options: Options) -> Any:
    """All rows in the order in which tasks gave them, with the number of the task first; bytes as hexadecimal digits."""
    frame = _frame(spark, source, options).selectExpr("spark_partition_id() AS task", "*")
    return [[_plain(value) for value in row] for row in frame.collect()]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.timestamp() if hasattr(value, "timestamp") else value


def tasks(spark: SparkSession, source: str, options: Options) -> Any:
    """Returns the number of tasks."""
    return _frame(spark, source, options).rdd.getNumPartitions()


def registered(spark: SparkSession, source: str, options: Options) -> Any:
    """Registers our source, although PySpark has found it. Returns the names of the columns."""
    kafka_remote_client.spark.register(spark)
    return _frame(spark, source, options).columns


def plan(spark: SparkSession, source: str, options: Options) -> Any:
    """Returns Spark's extended plan of a query."""
    return _frame(spark, source, options)._jdf.queryExecution().toString()


def sql(spark: SparkSession, source: str, options: Options) -> Any:
    """The number of rows of a table that SQL makes of the source."""
    given = ", ".join(f"'{name}' '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW through_sql USING `{source}` OPTIONS ({given})")
    try:
        return spark.sql("SELECT count(*) FROM through_sql").first()[0]
    finally:
        spark.catalog.dropTempView("through_sql")


def stream(spark: SparkSession, source: str, options: Options, directory: str, checkpoint: str) -> Any:
    """Appends the rows of a query of Trigger.AvailableNow to Parquet files. Returns rows and lag of each batch."""
    read = spark.readStream.format(source).options(**options).load()
    writer = read.writeStream.format("parquet").option("path", directory).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    failure = query.exception()
    if failure is not None:
        raise failure
    behind = [kafka_remote_client.spark.offsets_behind(progress) for progress in query.recentProgress]
    rows_of = [progress.numInputRows for progress in query.recentProgress]
    return [[count, None if found is None else found.total] for count, found in zip(rows_of, behind, strict=True)]


def stored(spark: SparkSession, directory: str) -> Any:
    """Topic, partition and offset of all rows in Parquet files, sorted."""
    found = spark.read.parquet(directory).select("topic", "partition", "offset").collect()
    return sorted([row.topic, row.partition, row.offset] for row in found)


def noop(spark: SparkSession, source: str, options: Options) -> Any:
    """Reads all records and discards them. Returns the seconds, including planning."""
    started = time.perf_counter()
    _frame(spark, source, options).write.format("noop").mode("overwrite").save()
    return time.perf_counter() - started


def batches(
    spark: SparkSession,
    source: str,
    options: Options,
    checkpoint: str,
    fail_at: int | None = None,
    append_to: tuple[str, str] | None = None,
) -> Any:
    """Runs a query of Trigger.AvailableNow: the number of each batch; partition, first and last offset, and rows of it.

    It fails in the batch ``fail_at``, which is then not committed. During its first batch, 10 records are appended
    to the partition 0 of ``append_to``: bootstrap servers, topic.
    """
    seen: list[Any] = []

    def handle(frame: DataFrame, number: int) -> None:
        if number == fail_at:
            raise RuntimeError(_FAILS)
        if append_to is not None and not seen:
            _append(*append_to)
        aggregates = [_expression(text) for text in ("min(offset)", "max(offset)", "count(*)")]
        seen.append([number, [list(row) for row in frame.groupBy("partition").agg(*aggregates).orderBy("partition").collect()]])

    read = spark.readStream.format(source).options(**options).load()
    query = read.writeStream.foreachBatch(handle).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        if _FAILS not in str(error):
            raise
    return seen


def _append(bootstrap_servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(10):
        producer.produce(topic, b"meanwhile %d" % number, partition=0)
    assert producer.flush(60) == 0, "the broker did not take all records"


def executors(spark: SparkSession) -> Any:
    """Returns the number of executors that the driver knows."""
    return len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) - 1


def packages(spark: SparkSession) -> Any:
    """Returns facts of an executor's Python process: interpreter, package, whether the kernel is loaded, module path."""

    def said(_: Any) -> Any:
        from kafka_remote_client.records import _kernel

        yield sys.executable, kafka_remote_client.__file__, _kernel.__file__, sys.path

    return spark.sparkContext.parallelize([0], 1).mapPartitions(said).collect()[0]


def extended(spark: SparkSession, source: str, options: Options, level: str = "DEBUG") -> Any:
    """Returns ``explain(extended=True)`` of a query that ran while driver and executors logged at ``level``."""
    spark.sparkContext.setLogLevel(level)
    try:
        frame = _frame(spark, source, options)
        frame.collect()
        return frame._jdf.queryExecution().explainString(
            spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("extended")
        )
    finally:
        spark.sparkContext.setLogLevel("WARN")


JOBS: dict[str, Callable[..., Any]] = {
    job.__name__: job
    for job in (
        batches,
        digest,
        executors,
        extended,
        noop,
        packages,
        plan,
        registered,
        rows,
        schema,
        sql,
        stored,
        stream,
        tasks,
    )
}


def _job(name: str) -> Callable[..., Any]:
    """One of JOBS, or ``module:function``, whose code tasks import too."""
    module, _, function = name.rpartition(":")
    found: Callable[..., Any] = getattr(import_module(module), function) if module else JOBS[name]
    return found


def _listen(requests: queue.SimpleQueue[str], busy: threading.Event) -> None:
    """Forwards requests. If they end while a job runs, no caller waits for its answer: everything ends at once."""
    for line in sys.stdin:
        requests.put(line)
    if busy.is_set():
        os.killpg(0, signal.SIGKILL)
    requests.put("")


def main() -> None:
    # The output of Spark and its children must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    builder = SparkSession.builder
    for name, value in json.loads(sys.argv[1]).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if os.environ["PYSPARK_DRIVER_PYTHON"] != os.environ["PYSPARK_PYTHON"]:
        kafka_remote_client.spark.register(spark)
    requests, busy = queue.SimpleQueue[str](), threading.Event()
    threading.Thread(target=_listen, args=(requests, busy), daemon=True).start()
    while line := requests.get():
        busy.set()
        job, arguments = json.loads(line)
        try:
            answer: dict[str, Any] = {"answer": _job(job)(spark, **arguments)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        busy.clear()
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
