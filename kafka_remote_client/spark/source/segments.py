"""``read_segments``: splits of topics for pipelines that need Python objects or Arrow batches of each, not a DataFrame.

::

    session   │ planned          │ foreachPartition     │ mapInArrow, to_dataframe   │ counters of these
    classic   │ by the driver    │ an RDD, task = split │ mapInArrow, task = split   │ accumulators
    Connect   │ by a task        │ mapInArrow           │ mapInArrow                 │ none: Connect has no accumulators

A classic session needs pandas for mapInArrow, because PySpark requires it; foreachPartition does not.

References: PySpark's RDD, DataFrame.mapInArrow; docs/spark.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from kafka_remote_client.scanning.remaining import parse_split_id, without
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.broker_limit import with_broker_shares
from kafka_remote_client.spark.reading.counter_sums import TaskCounters, added
from kafka_remote_client.spark.reading.segment_tasks import DONE_SCHEMA, CountersParam, ForEachSplit, MapSplits, PlanSplits
from kafka_remote_client.spark.reading.source_columns import ddl
from kafka_remote_client.spark.reading.split_records import SplitRecords
from kafka_remote_client.spark.reading.split_rows import SPLIT_SCHEMA, split_of_row
from kafka_remote_client.spark.source.datasource import KafkaRemoteReader
from kafka_remote_client.spark.source.session_rows import is_on_connect, numbered_rows, rows_of_splits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Segments", "plan_splits_of"]


def plan_splits_of(options: Mapping[str, str]) -> list[Split]:
    """The splits that a batch query with these options has. Raises as ``plan_batch``."""
    return [partition.split for partition in KafkaRemoteReader(options).partitions()]


class Segments:
    """Splits of topics. The first use plans them, and fixes their offsets.

    ``read_segments`` creates it. Raises ConfigurationError for options that ``format("kafka-remote")`` rejects.
    """

    def __init__(
        self,
        spark: SparkSession,
        options: Mapping[str, str],
        splits: Sequence[Split] | None = None,
        *,
        plan: Callable[[Mapping[str, str]], Sequence[Split]] = plan_splits_of,
    ) -> None:
        self._spark = spark
        self._options = dict(options)
        parsed = parse_options(options)
        self._columns = parsed.columns
        self._max_broker_bytes = parsed.max_broker_bytes
        self._splits = None if splits is None else list(splits)
        self._plan = plan
        self._on_connect = is_on_connect(spark)
        self._counted: TaskCounters = {}
        self._accumulator: Any = None

    def __repr__(self) -> str:
        planned = "not planned yet" if self._splits is None else f"{len(self._splits)} splits"
        return f"{type(self).__name__}({planned})"

    @property
    def splits(self) -> list[Split]:
        """The splits, one task each, by partition and offset. Raises as ``plan_batch``."""
        if self._splits is None:
            self._splits = self._planned()
        return list(self._splits)

    def only(self, splits: Iterable[Split]) -> Self:
        """Returns the same with other splits: some of :attr:`splits`, or kept ones of an earlier plan."""
        return type(self)(self._spark, self._options, list(splits), plan=self._plan)

    def without(self, finished: Iterable[Split | str]) -> Self:
        """Returns the rest after these splits, given as splits or ids. Raises ConfigurationError for an invalid id.

        It compares offsets, not names: if the plan has changed, a split is cut to its remaining part.
        """
        done = [split if isinstance(split, Split) else parse_split_id(split) for split in finished]
        return self.only(without(self.splits, done))

    def foreachPartition(self, handle: Callable[[SplitRecords], object]) -> None:  # noqa: N802 - as PySpark names it
        """Calls ``handle`` for each split, in a separate task. Its exception fails the task, which Spark may repeat.

        A split whose task failed, or ran twice, is handled again, completely and with the same id.
        """
        splits = self._shared()
        if not splits:
            return
        if self._on_connect:
            task = ForEachSplit(self._options, handle)
            done = rows_of_splits(self._spark, splits).mapInArrow(task.batches, DONE_SCHEMA).toLocalIterator()
            counters = added(json.loads(counters) for _, counters in done)  # of one split at a time
        else:
            context = self._spark.sparkContext
            # One for each job: of a job that fails, nothing counts. Of a task that is repeated, Spark adds one attempt.
            job = context.accumulator({}, CountersParam())
            run = ForEachSplit(self._options, handle, counted=job.add).each
            context.parallelize(splits, len(splits)).foreachPartition(run)
            counters = job.value
        self._counted = added([self._counted, counters])

    def mapInArrow(  # noqa: N802 - as PySpark names it
        self, function: Callable[[SplitRecords], Iterable[pa.RecordBatch]], schema: Any
    ) -> DataFrame:
        """Returns a DataFrame of the record batches that ``function`` makes of each split, in a separate task.

        ``schema``: of these batches, in Spark's notation or as a StructType. Each action on the DataFrame reads again.
        """
        task = MapSplits(self._options, function, None if self._on_connect else self._tally().add)
        return rows_of_splits(self._spark, self._shared()).mapInArrow(task.batches, schema)

    def to_dataframe(self) -> DataFrame:
        """The records of the splits, with the columns of ``format("kafka-remote")``."""
        return self.mapInArrow(SplitRecords.batches, ddl(self._columns))

    def counters(self) -> TaskCounters:
        """Counters, with the names of docs/metrics.md, of the tasks of :meth:`foreachPartition` whose job succeeded.

        In a classic session also by DataFrames made here; a task that was repeated may count twice there.
        """
        tally = [] if self._accumulator is None else [self._accumulator.value]
        return added([self._counted, *tally])

    def _shared(self) -> list[Split]:
        """The splits of a job, each with its share of ``remote.maxBrokerBytes``. Raises BrokerBytesError."""
        return with_broker_shares(self.splits, self._max_broker_bytes)

    def _planned(self) -> list[Split]:
        if not self._on_connect:
            return list(self._plan(self._options))
        task = PlanSplits(self._options, self._plan)
        return [split_of_row(row) for row in numbered_rows(self._spark, 1).mapInArrow(task.batches, SPLIT_SCHEMA).collect()]

    def _tally(self) -> Any:
        if self._accumulator is None:
            self._accumulator = self._spark.sparkContext.accumulator({}, CountersParam())
        return self._accumulator
