"""A split for a pipeline's own code in the executor: its name and bounds, and its records in two forms.

References: docs/spark.md.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Self, TypeVar

import pyarrow as pa
from confluent_kafka import Message

from kafka_remote_client.records.arrow import SPARK_KAFKA_SCHEMA
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.reading.counter_sums import TaskCounters
from kafka_remote_client.spark.reading.source_columns import column_names
from kafka_remote_client.spark.reading.split_reader import SplitReader

__all__ = ["SplitRecords"]

_T = TypeVar("_T")


class SplitRecords:
    """The records of one split, in the order of their offsets: from the tier as far as possible, then from the broker.

    It reads nothing before the first iteration. Each iteration reads the split again, from its start. Reading raises
    DataLossError, BrokerReadError, ConfigurationError, KafkaException. A context manager: leaving it ends running reads.
    """

    def __init__(self, options: SourceOptions, split: Split, reader: SplitReader | None = None) -> None:
        self.split = split
        self._columns = column_names(options.columns)
        self._reader = reader or SplitReader(options)
        self._open: list[Generator[object, None, None]] = []

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Message]:
        """Yields ``confluent_kafka.Message``, as from a consumer; the options about columns do not apply."""
        return self._ended_with_us(self._reader.messages(self.split))

    @property
    def id(self) -> str:
        """The split's name: the same in each attempt, and in each job that has this split."""
        return self.split.id

    @property
    def topic(self) -> str:
        """Of all records."""
        return self.split.topic_partition.topic

    @property
    def partition(self) -> int:
        """Of all records."""
        return self.split.topic_partition.partition

    @property
    def start_offset(self) -> int:
        """The first offset."""
        return self.split.start

    @property
    def end_offset(self) -> int:
        """The offset after the last one."""
        return self.split.end

    @property
    def schema(self) -> pa.Schema:
        """The schema of the record batches: the columns of the options."""
        return pa.schema([SPARK_KAFKA_SCHEMA.field(name) for name in self._columns])

    @property
    def counters(self) -> TaskCounters:
        """Counters of the reads so far, with the names of docs/metrics.md."""
        return self._reader.counters

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of :attr:`schema`, of at most 10,000 rows and of no more memory than a range of a segment."""
        return self._ended_with_us(self._reader.read(self.split))

    def to_arrow(self) -> pa.Table:
        """Returns all records, in memory: about as many bytes as the split has."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def close(self) -> None:
        """Ends running reads."""
        while self._open:
            self._open.pop().close()

    def _ended_with_us(self, records: Iterator[_T]) -> Iterator[_T]:
        def passed_on() -> Generator[_T, None, None]:
            yield from records

        made = passed_on()
        self._open.append(made)
        return made
