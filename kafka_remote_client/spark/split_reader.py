"""What a task does: reads a split from the tier as far as it goes, and the rest from the broker, from the exact next offset.

Each task has an engine and a location source of its own, so a split holds no URL, and a repeated or speculative task asks anew.

References: docs/design.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyarrow as pa

from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import RemoteStorageTimeoutError
from kafka_remote_client.fetch.assemble import build_engine
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.remote_reader import ReadEnd
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.spark.broker_read import consumer_settings, read_from_broker
from kafka_remote_client.spark.columns import batches, column_names, from_messages
from kafka_remote_client.spark.data_loss import DataLoss
from kafka_remote_client.spark.options import SourceOptions
from kafka_remote_client.spark.planning import Split
from kafka_remote_client.spark.trust_store import librdkafka_settings

__all__ = ["SplitReader", "engine_for"]

_log = logging.getLogger(__name__)

_EXPECTED = frozenset({"end", "local", "not-granted", "nothing-tiered"})
"""Why the tier's part of a split may end without anything being wrong."""


def engine_for(options: SourceOptions, clock: Clock) -> FetchEngine | None:
    """The engine of a task or of the driver; ``None`` where there is no direct fetch, which the engine's maker has said."""
    return build_engine(options.remote, librdkafka_settings(options.client), clock, FetchMetrics(clock))


class SplitReader:
    """Reads one split after the other. ``make_engine`` gives each its engine."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Clock | None = None,
        make_engine: Callable[[SourceOptions, Clock], FetchEngine | None] = engine_for,
    ) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._make_engine = make_engine
        self._names = column_names(options.columns)
        self._timeout = options.poll_timeout_ms / 1000
        self._next = 0

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's records, in the order of their offsets.

        Raises DataLossError, BrokerReadError, ConfigurationError, KafkaException; UnsupportedFormatError for a timestamp
        that no column of Spark's can hold.
        """
        self._next = split.start
        engine = self._make_engine(self._options, self._clock)
        if engine is not None:
            try:
                yield from self._from_tier(engine, split)
            finally:
                engine.close()
        if self._next < split.end:
            yield from self._from_broker(split)

    def _from_tier(self, engine: FetchEngine, split: Split) -> Iterator[pa.RecordBatch]:
        topic, partition = split.topic_partition
        reader = engine.reader(
            topic, partition, split.start, end_offset=split.end, isolation_level=self._options.client.isolation_level
        )
        reason = "timeout"
        try:
            for item in reader.blocks(self._timeout):
                if isinstance(item, ReadEnd):
                    reason = item.reason
                else:
                    yield from batches(item.to_arrow(topic, partition), self._names)
                self._next = item.next_offset
        except RemoteStorageTimeoutError:
            pass
        if reason not in _EXPECTED:
            _log.warning("%s: the broker takes over at offset %d: %s", split.topic_partition, self._next, reason)

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
