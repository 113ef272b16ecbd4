"""The code for tasks of :mod:`~kafka_remote_client.spark.source.segments`, in the two forms in which Spark runs Python.

::

    each       Spark gives splits, and adds their counters up           an RDD: the classic session alone
    batches    Spark gives numbers of splits, and takes record batches  mapInArrow: Spark Connect too

The options are sent as the user gave them, including passwords, as with every source of Spark; no ``repr`` shows them. Each
task parses them again and makes its own location requests, so a task that is repeated, or runs twice, needs nothing from the
first.

References: PySpark's RDD.mapPartitions, DataFrame.mapInArrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any

import attrs
import pyarrow as pa

from kafka_remote_client.model import TopicPartition
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.options.source_options import parse_options
from kafka_remote_client.spark.reading.counters import Counters, added
from kafka_remote_client.spark.reading.split_records import SplitRecords

__all__ = ["DONE_SCHEMA", "SPLIT_SCHEMA", "CountersParam", "ForEachSplit", "MapSplits", "PlanSplits", "split_of_row"]

SPLIT_SCHEMA = "topic string, partition int, start bigint, end bigint, size bigint, tiered_end bigint, tier_failure string"
"""The schema of a planned split, in Spark's notation."""
DONE_SCHEMA = "id string, counters string"
"""The schema of a finished split's result: its id, and its counters as JSON."""


def _count(values: Sized) -> str:
    return f"<{len(values)}>"


class CountersParam:
    """How Spark's accumulators add counters."""

    def zero(self, value: Counters) -> Counters:
        """Returns empty counters."""
        return {}

    def addInPlace(self, one: Counters, other: Counters) -> Counters:  # noqa: N802 - PySpark's name
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
        rows = [
            (*split.topic_partition, split.start, split.end, split.size_in_bytes, split.tiered_end, split.tier_failure)
            for split in self.plan(self.options)
        ]
        kinds = (pa.string(), pa.int32(), *[pa.int64()] * 4, pa.string())
        names = [column.split()[0] for column in SPLIT_SCHEMA.split(", ")]
        columns = [pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)]
        yield pa.record_batch(columns, names)


def split_of_row(row: Sequence[Any]) -> Split:
    """The split of a row of SPLIT_SCHEMA."""
    topic, partition, *more = row
    return Split(TopicPartition(topic, partition), *more)


@attrs.frozen
class ForEachSplit:
    """Calls ``handle`` with the records of each split. Its exception fails the task.

    ``counted``: takes a split's counters after it was handled, or is None.
    """

    options: Mapping[str, str] = attrs.field(repr=_count)
    handle: Callable[[SplitRecords], object]
    splits: Sequence[Split] = attrs.field(default=(), repr=_count)
    counted: Callable[[Counters], object] | None = None

    def each(self, splits: Iterable[Split]) -> None:
        """Handles splits, and returns nothing, so that the driver receives nothing for each of them."""
        for _, counters in self._handled(splits):
            if self.counted is not None:
                self.counted(counters)

    def batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields record batches of DONE_SCHEMA, for splits by their numbers in ``splits``."""
        for split_id, counters in self._handled(_numbered(self.splits, numbers)):
            yield pa.record_batch([pa.array([split_id]), pa.array([json.dumps(counters)])], ["id", "counters"])

    def _handled(self, splits: Iterable[Split]) -> Iterator[tuple[str, Counters]]:
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
    splits: Sequence[Split] = attrs.field(repr=_count)
    counted: Callable[[Counters], object] | None = None

    def batches(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the results of all splits, one after the other."""
        options = parse_options(self.options)
        for split in _numbered(self.splits, numbers):
            with SplitRecords(options, split) as records:
                try:
                    yield from self.function(records)
                finally:
                    if self.counted is not None:
                        self.counted(records.counters)


def _numbered(splits: Sequence[Split], numbers: Iterable[pa.RecordBatch]) -> Iterator[Split]:
    return (splits[number] for batch in numbers for number in batch.column(0).to_pylist())
