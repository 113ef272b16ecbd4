"""The code for tasks of :mod:`~kafka_remote_client.spark.source.segments`, in the two forms in which Spark runs Python.

::

    each       Spark gives splits, and adds their counters up           an RDD: the classic session alone
    batches    Spark gives rows of splits, and takes record batches     mapInArrow: Spark Connect too

A task gets its own splits as rows (:mod:`~kafka_remote_client.spark.reading.split_rows`), so its code has the same size for any
number of splits.

The options are sent as the user gave them, including passwords, as with every source of Spark; no ``repr`` shows them. Each
task parses them again and makes its own location requests, so a task that is repeated, or runs twice, needs nothing from the
first.

References: PySpark's RDD.mapPartitions, DataFrame.mapInArrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized

import attrs
import pyarrow as pa

from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.counter_sums import TaskCounters, added
from kafka_remote_client.spark.reading.split_records import SplitRecords
from kafka_remote_client.spark.reading.split_rows import split_batch, splits_of_batches

__all__ = ["DONE_SCHEMA", "CountersParam", "ForEachSplit", "MapSplits", "PlanSplits"]

DONE_SCHEMA = "id string, counters string"
"""The schema of a finished split's result: its id, and its counters as JSON."""


def _count(values: Sized) -> str:
    return f"<{len(values)}>"


class CountersParam:
    """How Spark's accumulators add counters."""

    def zero(self, value: TaskCounters) -> TaskCounters:
        """Returns empty counters."""
        return {}

    def addInPlace(self, one: TaskCounters, other: TaskCounters) -> TaskCounters:  # noqa: N802 - PySpark's name
        """Returns the sum of both."""
        return added([one, other])


@attrs.frozen
class PlanSplits:
    """Plans in a task, which can reach the cluster even if the session's client cannot."""

    options: Mapping[str, str] = attrs.field(repr=_count)
    plan: Callable[[Mapping[str, str]], Sequence[Split]]

    def batches(self, given: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Record batches of SPLIT_SCHEMA, whatever is given."""
        for _ in given:
            pass
        yield split_batch(self.plan(self.options))


@attrs.frozen
class ForEachSplit:
    """Calls ``handle`` with the records of each split. Its exception fails the task.

    ``counted``: takes a split's counters after it was handled, or is None.
    """

    options: Mapping[str, str] = attrs.field(repr=_count)
    handle: Callable[[SplitRecords], object]
    counted: Callable[[TaskCounters], object] | None = None

    def each(self, splits: Iterable[Split]) -> None:
        """Handles splits, and returns nothing, so that the driver receives nothing for each of them."""
        for _, counters in self._handled(splits):
            if self.counted is not None:
                self.counted(counters)

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields record batches of DONE_SCHEMA. ``rows``: the splits, as record batches of SPLIT_SCHEMA."""
        for split_id, counters in self._handled(splits_of_batches(rows)):
            yield pa.record_batch([pa.array([split_id]), pa.array([json.dumps(counters)])], ["id", "counters"])

    def _handled(self, splits: Iterable[Split]) -> Iterator[tuple[str, TaskCounters]]:
        """Yields the id and the counters of each split after it was handled."""
        options = parse_options(self.options)
        for split in splits:
            with SplitRecords(options, split) as records:
                self.handle(records)
            yield split.id, records.counters


@attrs.frozen
class MapSplits:
    """Yields the record batches that ``function`` makes of each split. ``counted``: takes a split's counters, or is None."""

    options: Mapping[str, str] = attrs.field(repr=_count)
    function: Callable[[SplitRecords], Iterable[pa.RecordBatch]]
    counted: Callable[[TaskCounters], object] | None = None

    def batches(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the results of all splits, one after the other. ``rows``: the splits, as record batches of SPLIT_SCHEMA."""
        options = parse_options(self.options)
        for split in splits_of_batches(rows):
            with SplitRecords(options, split) as records:
                try:
                    yield from self.function(records)
                finally:
                    if self.counted is not None:
                        self.counted(records.counters)
