"""Jobs for :class:`tests.support.spark.SparkDriver`: some that filter or read again, one whose progress is shown."""

from __future__ import annotations

import threading
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import SparkSession

from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.spark.source.job_progress_bar import show_progress, tasks_of_group
from tests.support.spark_driver import digest_of

__all__ = ["counted_before_and_after", "filtered_by_spark", "pushed", "reused", "watched"]

_SETTING = "spark.sql.python.filterPushdown.enabled"


def pushed(spark: SparkSession, options: dict[str, str], where: str, *, setting: bool = True) -> Any:
    """Returns the digest of the rows for which ``where`` is true, and the physical plan, with Spark's setting on or off."""
    spark.conf.set(_SETTING, setting)
    try:
        frame = spark.read.format("kafka-remote").options(**options).load().where(where)
        return [digest_of(frame), frame._jdf.queryExecution().executedPlan().toString()]
    finally:
        spark.conf.unset(_SETTING)


def filtered_by_spark(spark: SparkSession, options: dict[str, str], wheres: list[str]) -> Any:
    """The digests of the rows for which each of ``wheres`` is true, all of what was read once."""
    frame = spark.read.format("kafka-remote").options(**options).load().cache()
    try:
        return [digest_of(frame.where(where)) for where in wheres]
    finally:
        frame.unpersist()


def reused(spark: SparkSession, options: dict[str, str], where: str) -> Any:
    """The rows that a frame has with a filter, then without one, and those that a new frame has without one."""
    spark.conf.set(_SETTING, True)
    try:
        frames = [spark.read.format("kafka-remote").options(**options).load() for _ in range(2)]
        return [frames[0].where(where).count(), frames[0].count(), frames[1].count()]
    finally:
        spark.conf.unset(_SETTING)


def counted_before_and_after(spark: SparkSession, options: dict[str, str]) -> Any:
    """The rows of a frame before and after one more record was produced, and those of a new frame."""
    reader = spark.read.format("kafka-remote").options(**options)
    frame = reader.load()
    before = frame.count()
    producer = Producer({"bootstrap.servers": options["kafka.bootstrap.servers"]})
    producer.produce(options["subscribe"], b"later", partition=0)
    assert producer.flush(60) == 0
    return [before, frame.count(), reader.load().count()]


class _Bar:
    def __init__(self) -> None:
        self.last = (0, 0)

    def update(self, done: int, total: int) -> None:
        self.last = (done, total)

    def close(self) -> None:
        """Shows nothing."""


def watched(spark: SparkSession, options: dict[str, str]) -> Any:
    """Returns the number of rows, the bar's last state, and Spark's final counts of tasks."""
    bar, context, group = _Bar(), spark.sparkContext, "watched"
    context.setLocalProperty("spark.jobGroup.id", group)
    with show_progress(spark, make_bar=lambda _: bar):
        count = spark.read.format("kafka-remote").options(**options).load().count()
    context.setLocalProperty("spark.jobGroup.id", None)
    deadline = Deadline(SystemClock(), 60.0)
    done, total = tasks_of_group(context.statusTracker(), group)
    while done < total and not deadline.expired():
        SystemClock().wait(threading.Event(), 0.05)
        done, total = tasks_of_group(context.statusTracker(), group)
    return [count, bar.last, [done, total]]
