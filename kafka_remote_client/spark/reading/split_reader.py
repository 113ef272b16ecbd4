"""The work of a task: reads a split from the tier as far as possible, and the rest from the broker, from the exact next offset.

A split has no URL: each task makes its own location requests, through the engine of its Python worker
(:mod:`~kafka_remote_client.spark.reading.task_engine`), and so does a repeated or speculative one.

::

    the tier's part ends because    | remote.onFallback=broker                      | remote.onFallback=fail
    it was read                     | the broker continues                          | the broker continues
    nothing was granted or found    | a WARNING, then the broker continues          | TierUnavailableError
    there, although the plan says   |                                               |
    tiered                          |                                               |
    something failed                | a WARNING, then the broker continues          | TierUnavailableError
    offsets were deleted            | as failOnDataLoss says, then the tier continues at the log's start
    the driver found a failure      | the broker reads all; the driver warned       | no task starts
    more than the split's share of remote.maxBrokerBytes comes from the broker: BrokerBytesError

References: docs/design.md.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager

import pyarrow as pa
from confluent_kafka import Message

from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.errors import (
    DirectFetchError,
    LocationError,
    LocationNotGrantedError,
    NoSegmentsError,
    RemoteStorageTimeoutError,
)
from kafka_remote_client.fallback import Fallback, FallbackLog, OnFallback, TierUnavailableError
from kafka_remote_client.fetch.assemble import DirectFetchOffError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.records import RecordBlock
from kafka_remote_client.scanning.split_window import split_window
from kafka_remote_client.scanning.splits import Split
from kafka_remote_client.spark.offsets.data_loss import DataLoss
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.reading.broker_limit import OPTION, BrokerBytesError
from kafka_remote_client.spark.reading.broker_read import consumer_settings, read_from_broker
from kafka_remote_client.spark.reading.counter_sums import TaskCounters, added, counted
from kafka_remote_client.spark.reading.source_columns import batches, column_names, from_messages
from kafka_remote_client.spark.reading.task_counters import write_counters
from kafka_remote_client.spark.reading.task_engine import TaskEngines, worker_engines
from kafka_remote_client.spark.reading.tier_health import TierHealth, worker_tier_health
from kafka_remote_client.spark.reading.worker_memory import worker_memory

__all__ = ["SplitReader"]

_log = logging.getLogger(__name__)

_NOT_TIERED = frozenset({LocationNotGrantedError.cause, NoSegmentsError.cause})
_EXPECTED = frozenset({"end", "local"}) | _NOT_TIERED
"""The normal reasons for the end of a split's tiered part; see ``_is_missing`` about two of them."""
_NO_ANSWER = LocationError.cause

_worker_fallbacks = FallbackLog(_log, SystemClock())
"""The instance of this process: tasks that run one after the other warn once."""


class SplitReader:
    """Reads one split after the other."""

    def __init__(
        self,
        options: SourceOptions,
        *,
        clock: Clock | None = None,
        engines: TaskEngines = worker_engines,
        health: TierHealth = worker_tier_health,
        fallbacks: FallbackLog = _worker_fallbacks,
    ) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._engines = engines
        self._health = health
        self._fallbacks = fallbacks
        self._fails = options.on_fallback is OnFallback.FAIL
        self._loss = DataLoss(options.fail_on_data_loss)
        self._broker_bytes: Counter[str] = Counter()
        self._names = column_names(options.columns)
        self._timeout = options.poll_timeout_ms / 1000
        self._next = 0
        self._metrics = FetchMetrics(self._clock)
        """The counters of deliveries; the engine counts their cost."""
        self._engine_counters: TaskCounters = {}

    @property
    def counters(self) -> TaskCounters:
        """Counters of the reads of this reader, from both tiers."""
        return added([self._engine_counters, counted({}, self._metrics.snapshot())])

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """The split's records, in the order of their offsets.

        Raises DataLossError, BrokerReadError, TierUnavailableError, BrokerBytesError, ConfigurationError, KafkaException;
        UnsupportedFormatError for a timestamp or the name of a header that no column of Spark's can hold.
        """
        topic_partition = split.topic_partition
        with closing(self._pieces(split)) as pieces:
            for piece in pieces:
                whole = (
                    piece.to_arrow(*topic_partition, self._names)
                    if isinstance(piece, RecordBlock)
                    else from_messages(piece, topic_partition, self._names)
                )
                yield from batches(whole, self._names)

    def messages(self, split: Split) -> Iterator[Message]:
        """Yields the same records as a consumer's messages. Raises as :meth:`read`, except for timestamps."""
        with closing(self._pieces(split)) as pieces:
            for piece in pieces:
                yield from piece.messages(*split.topic_partition) if isinstance(piece, RecordBlock) else piece

    def _pieces(self, split: Split) -> Generator[RecordBlock | list[Message], None, None]:
        """Yields the records of both paths as they arrive, in the form that the caller needs."""
        worker_memory.settle()
        self._next = split.start
        with self._counted(split):
            yield from self._from_both(split)

    @contextmanager
    def _counted(self, split: Split) -> Iterator[None]:
        """Writes the counters of this context, if the options name a directory."""
        directory = self._options.counters_directory
        before, started_ms = self.counters, self._clock.time_ms()
        try:
            yield
        finally:
            if directory is not None:
                write_counters(directory, split.id, started_ms, counted(before, self.counters), self._clock)

    def _from_both(self, split: Split) -> Iterator[RecordBlock | list[Message]]:
        known = None if self._fails else self._health.failure(self._options, split.tier_failure)
        try:
            if known is not None:
                self._taken_over(split, TierUnavailableError(known), warned=split.tier_failure is not None)
            else:
                with self._engines.lend(self._options) as engine:
                    if engine is not None:
                        yield from self._from_tier(engine, split)
        except (DirectFetchOffError, RemoteStorageTimeoutError) as error:
            self._taken_over(split, error)
        if self._next < split.end:
            yield from self._from_broker(split)

    def _from_tier(self, engine: FetchEngine, split: Split) -> Iterator[RecordBlock]:
        before = engine.metrics.snapshot()
        try:
            continues = True
            while continues:
                continues = yield from self._until_end(engine, split)
        finally:
            self._engine_counters = added([self._engine_counters, counted(before, engine.metrics.snapshot())])

    def _until_end(self, engine: FetchEngine, split: Split) -> Generator[RecordBlock, None, bool]:
        """Yields what one reader finds. Returns whether the tier continues, after deleted offsets."""
        continues = False
        reader = engine.reader(
            ReadRequest(
                *split.topic_partition,
                self._next,
                end_offset=split.end,
                isolation_level=self._options.client.isolation_level,
                window=split_window(self._options.remote),
                borrow=True,  # a block is turned into a batch or into messages, which copy, before the next one is taken
            )
        )
        with closing(reader.blocks(self._timeout)) as items:
            for item in items:
                if isinstance(item, ReadEnd):
                    self._next = item.next_offset
                    continues = self._tier_ended(engine, split, item)
                else:
                    self._metrics.add("remote-fetch-records-total", len(item))
                    self._metrics.add("remote-fetch-record-bytes-total", item.nbytes)
                    yield item
                    self._next = item.next_offset
        return continues

    def _tier_ended(self, engine: FetchEngine, split: Split, end: ReadEnd) -> bool:
        """Returns whether the tier continues, after deleted offsets. Otherwise the broker does."""
        if end.reason == _NO_ANSWER:
            self._health.failed(self._options, str(end.error or end.reason))
        else:
            self._health.worked(self._options)
        if end.out_of_range:
            return self._skips_deleted(engine, split)
        if end.reason not in _EXPECTED or _is_missing(split, end):
            self._fell_back(end.fallback(*split.topic_partition))
        elif self._next < split.end:
            self._metrics.add("remote-fetch-handovers-total")
        return False

    def _skips_deleted(self, engine: FetchEngine, split: Split) -> bool:
        """Continues at the log's start, as failOnDataLoss says. The broker judges an offset beyond the log's end.

        Brokers do not name the log's start where they refuse an offset, so it is asked for.
        """
        try:
            log_start = engine.source.offsets(*split.topic_partition, Deadline(self._clock, self._timeout)).log_start
        except LocationError as error:
            self._taken_over(split, error)
            return False
        if log_start <= self._next:
            return False
        self._next = self._loss.resumed(split.topic_partition, self._next, split.end, log_start)
        return self._next < split.end

    def _taken_over(self, split: Split, error: DirectFetchError, *, warned: bool = False) -> None:
        self._fell_back(Fallback(error.cause, error, *split.topic_partition, self._next), warned=warned)

    def _fell_back(self, fallback: Fallback, *, warned: bool = False) -> None:
        """``warned``: the driver wrote the WARNING for all tasks."""
        self._metrics.fallback(fallback.cause)
        if not self._fails:
            self._fallbacks.write(fallback, warned=warned)
            return
        place = f"{fallback.topic}-{fallback.partition} at offset {fallback.offset}"
        raise TierUnavailableError(
            f"cannot read {place} from the tier: {fallback.text} ({fallback.cause}); "
            "remote.onFallback=broker reads from the brokers"
        ) from fallback.error

    def _from_broker(self, split: Split) -> Iterator[list[Message]]:
        found = read_from_broker(
            consumer_settings(self._options),
            split.topic_partition,
            self._next,
            split.end,
            loss=self._loss,
            timeout=self._timeout,
            clock=self._clock,
        )
        for messages in found:
            self._count_bytes(split, messages)
            self._metrics.add("broker-fetch-records-total", len(messages))
            yield messages

    def _count_bytes(self, split: Split, messages: list[Message]) -> None:
        """Raises BrokerBytesError where the split's share of ``remote.maxBrokerBytes`` is used up."""
        if split.max_broker_bytes is None:
            return
        size = sum(len(message.key() or b"") + len(message.value() or b"") for message in messages)
        self._broker_bytes[split.id] += size
        if self._broker_bytes[split.id] > split.max_broker_bytes:
            raise BrokerBytesError(
                f"{split.topic_partition} before offset {split.end}: more than {split.max_broker_bytes} bytes came from the "
                f"broker, which is the share of this split in {OPTION}={self._options.max_broker_bytes}"
            )


def _is_missing(split: Split, end: ReadEnd) -> bool:
    """Whether an offset is missing that was tiered at the time of the plan. Beyond the tier's end that is normal."""
    return end.reason in _NOT_TIERED and split.tiered_end is not None and end.next_offset < split.tiered_end
