"""What a task does: reads a split from the tier as far as it goes, and the rest from the broker, from the exact next offset.

A split holds no URL: each task asks for its own locations, through the engine of its Python worker
(:mod:`~kafka_remote_client.spark.task_engine`), and so does a repeated or speculative one.

References: docs/design.md.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
from confluent_kafka import Message

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.spark.broker_read import consumer_settings, read_from_broker
from kafka_remote_client.spark.columns import batches, column_names, from_messages
from kafka_remote_client.spark.counters import Counters, added, counted
from kafka_remote_client.spark.data_loss import DataLoss
from kafka_remote_client.spark.options import SourceOptions
from kafka_remote_client.spark.planning import Split
from kafka_remote_client.spark.task_counters import write_counters
from kafka_remote_client.spark.task_engine import TaskEngines, worker_engines
from kafka_remote_client.spark.worker_memory import worker_memory

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
        self._metrics = FetchMetrics(self._clock)
        """What was delivered; what that took is in the engine's."""
        self._engine_counters: Counters = {}

    @property
    def counters(self) -> Counters:
        """What was read since this reader was made, from both tiers."""
        return added([self._engine_counters, counted({}, self._metrics.snapshot())])

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's records, in the order of their offsets.

        Raises DataLossError, BrokerReadError, ConfigurationError, KafkaException; UnsupportedFormatError for a timestamp
        that no column of Spark's can hold.
        """
        topic_partition = split.topic_partition
        with closing(self._pieces(split)) as pieces:
            for piece in pieces:
                whole = (
                    piece.to_arrow(*topic_partition)
                    if isinstance(piece, RecordBlock)
                    else from_messages(piece, topic_partition)
                )
                yield from batches(whole, self._names)

    def messages(self, split: Split) -> Iterator[Message]:
        """The same records as a consumer gives them. Raises as :meth:`read`, but for timestamps."""
        with closing(self._pieces(split)) as pieces:
            for piece in pieces:
                yield from piece.messages(*split.topic_partition) if isinstance(piece, RecordBlock) else piece

    def _pieces(self, split: Split) -> Generator[RecordBlock | list[Message], None, None]:
        """Each of the two paths gives records as they come; both forms that callers want are made of these."""
        worker_memory.settle()
        self._next = split.start
        with self._counted(split):
            yield from self._from_both(split)

    @contextmanager
    def _counted(self, split: Split) -> Iterator[None]:
        """Leaves behind what was counted in this context, if that is wanted."""
        directory = self._options.counters_directory
        before, started_ms = self.counters, self._clock.time_ms()
        try:
            yield
        finally:
            if directory is not None:
                write_counters(directory, split.id, started_ms, counted(before, self.counters), self._clock)

    def _from_both(self, split: Split) -> Iterator[RecordBlock | list[Message]]:
        try:
            with self._engines.lend(self._options) as engine:
                if engine is not None:
                    yield from self._from_tier(engine, split)
        except RemoteStorageTimeoutError:
            self._taken_over(split, "timeout")
        if self._next < split.end:
            yield from self._from_broker(split)

    def _from_tier(self, engine: FetchEngine, split: Split) -> Iterator[RecordBlock]:
        before = engine.metrics.snapshot()
        reader = engine.reader(
            *split.topic_partition,
            split.start,
            end_offset=split.end,
            isolation_level=self._options.client.isolation_level,
            borrow=True,  # a block is turned into a batch or into messages, which copy, before the next one is taken
        )
        try:
            with closing(reader.blocks(self._timeout)) as items:
                for item in items:
                    if isinstance(item, ReadEnd):
                        self._next = item.next_offset
                        self._tier_ended(split, item.reason)
                    else:
                        self._metrics.add("remote-fetch-records-total", len(item))
                        self._metrics.add("remote-fetch-record-bytes-total", item.nbytes)
                        yield item
                        self._next = item.next_offset
        finally:
            self._engine_counters = added([self._engine_counters, counted(before, engine.metrics.snapshot())])

    def _tier_ended(self, split: Split, reason: str) -> None:
        if reason not in _EXPECTED:
            self._taken_over(split, reason)
        elif self._next < split.end:
            self._metrics.add("remote-fetch-handovers-total")

    def _taken_over(self, split: Split, reason: str) -> None:
        self._metrics.fallback(reason)
        _log.warning("%s: the broker takes over at offset %d: %s", split.topic_partition, self._next, reason)

    def _from_broker(self, split: Split) -> Iterator[list[Message]]:
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
            self._metrics.add("broker-fetch-records-total", len(messages))
            yield messages
