"""The broker path of a task: one partition by librdkafka, from an exact offset to an exact end.

Theory of operation. The consumer belongs to no group and commits nothing. The end is reached by a record at or past it, or by
the broker's confirmation that the log ends there, because the last offsets of a range may hold no record (markers of
transactions, compaction). An offset that the broker no longer has is a loss
(:mod:`~kafka_remote_client.spark.offsets.data_loss`).

References: Spark's KafkaDataConsumer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Assigned

from kafka_remote_client.clock import Clock, Deadline
from kafka_remote_client.fallback import BrokerReadError
from kafka_remote_client.model import IsolationLevel, TopicPartition
from kafka_remote_client.spark.offsets.data_loss import DataLoss
from kafka_remote_client.spark.options.source_options import SourceOptions
from kafka_remote_client.spark.options.trust_store import librdkafka_settings
from kafka_remote_client.spark.reading.broker_consumers import BrokerConsumers, worker_consumers

__all__ = ["BrokerReadError", "consumer_settings", "read_from_broker"]

_BATCH = 10_000
_WAIT_SECONDS = 0.2
_END_OF_PARTITION = -191
_NO_SUCH_OFFSET = frozenset({-140, 1})  # auto.offset.reset=error, and the broker's own OFFSET_OUT_OF_RANGE
_NOT_THERE = frozenset({-190, -188, 3})  # librdkafka's words for no such partition and topic, and the broker's own
_PASSING = frozenset({-195, -187, -193, -185, -169})  # transport, all brokers down, name not resolved, time-out, login failed
"""Errors that librdkafka reports and recovers from."""


def consumer_settings(options: SourceOptions) -> dict[str, object]:
    """Returns librdkafka's configuration for a task: the user's, plus the settings that this source needs."""
    committed = options.client.isolation_level is IsolationLevel.READ_COMMITTED
    return {
        # librdkafka pauses for a second when its queue is full, which is most of the time here.
        "fetch.queue.backoff.ms": 10,
        # A task's records exist already. A Fetch that still waits at the end would delay the next task on the same connection.
        "fetch.wait.max.ms": 20,
        "group.id": f"{options.group_id_prefix}-{uuid.uuid4()}-executor",
        **librdkafka_settings(options.client),
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }


def read_from_broker(
    settings: Mapping[str, object],
    topic_partition: TopicPartition,
    start: int,
    end: int,
    *,
    loss: DataLoss,
    timeout: float,
    clock: Clock,
    consumers: BrokerConsumers = worker_consumers,
) -> Iterator[list[Message]]:
    """The records of ``[start, end)`` in lists that are never empty. ``timeout``: seconds to wait for the next one.

    Raises DataLossError, if that is to fail, BrokerReadError, KafkaException for settings that librdkafka refuses.
    """
    with consumers.lend(settings) as consumer:
        yield from _Read(consumer, topic_partition, end, loss, timeout, clock).records(start)


class _Read:
    def __init__(
        self, consumer: Consumer, topic_partition: TopicPartition, end: int, loss: DataLoss, timeout: float, clock: Clock
    ) -> None:
        self._consumer = consumer
        self._topic_partition = topic_partition
        self._end = end
        self._loss = loss
        self._timeout = timeout
        self._clock = clock
        self._offset = 0
        """The offset after the delivered records."""

    def records(self, start: int) -> Iterator[list[Message]]:
        self._assign(start)
        deadline = Deadline(self._clock, self._timeout)
        while self._offset < self._end:
            # Not more than exist, because librdkafka waits for the requested number.
            asked = min(_BATCH, self._end - self._offset)
            records = self._taken(self._consumer.consume(asked, min(_WAIT_SECONDS, self._timeout)))
            if records:
                yield records
                deadline = Deadline(self._clock, self._timeout)
            elif deadline.expired() and self._offset < self._end:
                self._gave_up()

    def _assign(self, offset: int) -> None:
        self._offset = offset
        if offset < self._end:
            self._consumer.assign([Assigned(self._topic_partition.topic, self._topic_partition.partition, offset)])

    def _taken(self, messages: list[Message]) -> list[Message]:
        """Returns the records among ``messages`` that are in the range, and handles the other messages."""
        records = []
        topic, number = self._topic_partition
        for message in messages:
            error = message.error()
            ours = message.topic() == topic and message.partition() == number
            if not ours and (error is None or message.topic() is not None):
                continue  # of the task that had this consumer before
            offset = message.offset()
            if error is not None:
                self._told(error, offset)
            elif offset is not None and self._offset <= offset:
                if offset < self._end:
                    records.append(message)
                self._offset = min(offset + 1, self._end)
        return records

    def _told(self, error: KafkaError, offset: int | None) -> None:
        code = error.code()
        if code == _END_OF_PARTITION:
            if offset is not None and offset >= self._end:
                self._offset = self._end
        elif code in _NO_SUCH_OFFSET:
            self._resume()
        elif code in _NOT_THERE:
            self._settle()
        elif code not in _PASSING and not error.retriable():
            raise BrokerReadError(f"{self._topic_partition} at offset {self._offset}: {error.str()}")

    def _resume(self) -> None:
        bounds = self._watermarks()
        if bounds is None:
            self._offset = self._loss.gone(self._topic_partition, self._offset, self._end)
        else:
            self._assign(self._loss.resumed(self._topic_partition, self._offset, self._end, bounds[0]))

    def _gave_up(self) -> None:
        """Nothing arrived in time. Checks if the log ends before the range, or is deleted."""
        if not self._settle():
            raise BrokerReadError(f"{self._topic_partition}: no record from offset {self._offset} on in {self._timeout:g} s")

    def _settle(self) -> bool:
        """Whether the broker does not have the next offset; then the rest of the range is lost."""
        bounds = self._watermarks()
        if bounds is None:
            self._offset = self._loss.gone(self._topic_partition, self._offset, self._end)
        elif bounds[1] <= self._offset:
            self._assign(self._loss.resumed(self._topic_partition, self._offset, self._end, bounds[0]))
        else:
            return False
        return True

    def _watermarks(self) -> tuple[int, int] | None:
        """Returns the log's start and end; None if there is no such partition."""
        asked = Assigned(self._topic_partition.topic, self._topic_partition.partition)
        try:
            found = self._consumer.get_watermark_offsets(asked, timeout=self._timeout, cached=False)
        except KafkaException as error:
            if error.args[0].code() in _NOT_THERE:
                return None
            raise BrokerReadError(f"{self._topic_partition}: the log's bounds are unknown: {error.args[0].str()}") from None
        if found is None:
            raise BrokerReadError(f"{self._topic_partition}: the log's bounds are unknown")
        return found
