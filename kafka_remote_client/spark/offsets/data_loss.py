"""``failOnDataLoss``: records of a query that were deleted. By default the query fails; no record is skipped silently. Pure.

::

    what is found                                   | failOnDataLoss=true | false
    the range begins below the log's start          | DataLossError       | begins at the log's start
    the range ends past the log's end               | DataLossError       | ends at the log's end
    the broker has no such offset while it is read  | DataLossError       | goes on at the log's start, if that is in the range
    the partition is gone while it is read          | DataLossError       | ends

References: Spark's KafkaDataConsumer (reportDataLoss), "Structured Streaming + Kafka Integration Guide".
"""

from __future__ import annotations

import logging
from typing import ClassVar

import attrs

from kafka_remote_client.errors import Action, DirectFetchError
from kafka_remote_client.model import TopicPartition

__all__ = ["DataLoss", "DataLossError"]

_log = logging.getLogger(__name__)


class DataLossError(DirectFetchError):
    """Records that a query was to read are no longer in the log: deleted, expired, or the topic was created again."""

    action: ClassVar[Action] = Action.STOP
    cause: ClassVar[str] = "data-loss"


@attrs.frozen
class DataLoss:
    """What to do about records that are gone: ``fail``, or say so in the log and go on."""

    fail: bool = True

    def report(self, what: str) -> None:
        """Raises DataLossError, or logs a warning."""
        if self.fail:
            raise DataLossError(f"{what}; set failOnDataLoss=false to continue with the remaining records")
        _log.warning("%s; continuing because failOnDataLoss is false", what)

    def bounded(self, partition: TopicPartition, start: int, end: int, log_start: int, log_end: int) -> tuple[int, int]:
        """The part of ``[start, end)`` that the log holds; empty ranges come back with equal bounds.

        Raises DataLossError where something is missing, if that is to fail.
        """
        if start >= end:
            return start, start
        if start < log_start:
            self.report(
                f"{partition}: the offsets {start} to {min(end, log_start) - 1} were deleted; the log starts at {log_start}"
            )
            start = min(end, log_start)
        if end > log_end:
            self.report(
                f"{partition}: the offsets {max(start, log_end)} to {end - 1} are not in the log; the log ends at {log_end}"
            )
            end = max(start, log_end)
        return start, end

    def resumed(self, partition: TopicPartition, offset: int, end: int, log_start: int) -> int:
        """Where to go on when the broker has no ``offset``; ``end`` when nothing of the range is left.

        Raises DataLossError, if that is to fail.
        """
        following = log_start if offset < log_start < end else end
        self.report(f"{partition}: the offsets {offset} to {following - 1} were deleted; the log starts at {log_start}")
        return following

    def gone(self, partition: TopicPartition, offset: int, end: int) -> int:
        """``end``, as nothing is left from ``offset`` on. Raises DataLossError, if that is to fail."""
        self.report(f"{partition} was deleted with the offsets {offset} to {end - 1}")
        return end
