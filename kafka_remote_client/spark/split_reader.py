"""What a task does: reads a split from the tier as far as it goes, and the rest from the broker, from the exact next offset.

A split holds no URL: each task asks for its own locations, through the engine of its Python worker
(:mod:`~kafka_remote_client.spark.task_engine`), and so does a repeated or speculative one.

References: docs/design.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.spark.broker_read import consumer_settings, read_from_broker
from kafka_remote_client.spark.columns import batches, column_names, from_messages
from kafka_remote_client.spark.data_loss import DataLoss
from kafka_remote_client.spark.options import SourceOptions
from kafka_remote_client.spark.planning import Split
from kafka_remote_client.spark.task_engine import TaskEngines, worker_engines

__all__ = ["SplitReader"]

_log = logging.getLogger(__name__)

_EXPECTED = frozenset({"end", "local", "not-granted", "nothing-tiered"})
"""Why the tier's part of a split may end without anything being wrong."""


class SplitReader:
    """Reads one split after the other."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Clock | None = None,
        engines: TaskEngines = worker_engines,
    ) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._engines = engines
        self._names = column_names(options.columns)
        self._timeout = options.poll_timeout_ms / 1000
        self._next = 0

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's records, in the order of their offsets.

        Raises DataLossError, BrokerReadError, ConfigurationError, KafkaException; UnsupportedFormatError for a timestamp
        that no column of Spark's can hold.
        """
        self._next = split.start
        try:
            with self._engines.lend(self._options) as engine:
                if engine is not None:
                    yield from self._from_tier(engine, split)
        except RemoteStorageTimeoutError:
            _say_why(split, self._next, "timeout")
        if self._next < split.end:
            yield from self._from_broker(split)

    def _from_tier(self, engine: FetchEngine, split: Split) -> Iterator[pa.RecordBatch]:
        topic, partition = split.topic_partition
        reader = engine.reader(
            topic, partition, split.start, end_offset=split.end, isolation_level=self._options.client.isolation_level
        )
        with closing(reader.blocks(self._timeout)) as items:
            for item in items:
                if isinstance(item, ReadEnd):
                    if item.reason not in _EXPECTED:
                        _say_why(split, item.next_offset, item.reason)
                else:
                    yield from batches(item.to_arrow(topic, partition), self._names)
                self._next = item.next_offset

    def _from_broker(self, split: Split) -> Iterator[pa.RecordBatch]:
        found = read_from_broker(
            consumer_settings(self._options),
            split.topic_partition,
            self._next,
            split.end,
            loss=DataLoss(self._options.fail_on_data_loss),
            timeout=self._timeout,
            clock=self._clock,
        )
        for messages in found:
            yield from batches(from_messages(messages, split.topic_partition), self._names)


def _say_why(split: Split, offset: int, reason: str) -> None:
    _log.warning("%s: the broker takes over at offset %d: %s", split.topic_partition, offset, reason)
