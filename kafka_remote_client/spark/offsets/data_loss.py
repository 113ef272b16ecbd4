"""``failOnDataLoss``: records of a query that were deleted. By default the query fails; no record is skipped silently. Pure.

::

    finding                                         | failOnDataLoss=true | false
    the range begins below the log's start          | DataLossError       | begins at the log's start
    the range ends past the log's end               | DataLossError       | ends at the log's end
    the broker has no such offset during the read   | DataLossError       | continues at the log's start, if in the range
    the partition is deleted during the read        | DataLossError       | ends

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
    """Records of a query's range are no longer in the log: deleted, expired, or the topic was recreated."""

    action: ClassVar[Action] = Action.STOP
    cause: ClassVar[str] = "data-loss"


@attrs.frozen
class DataLoss:
    """The policy for lost records: ``fail``, or log it and continue."""

    fail: bool = True

    def report(self, what: str) -> None:
        """Raises DataLossError, or logs a warning."""
        if self.fail:
            raise DataLossError(f"{what}; set failOnDataLoss=false to continue with the remaining records")
        _log.warning("%s; continuing because failOnDataLoss is false", what)

    def bounded(self, partition: TopicPartition, start: int, end: int, log_start: int, log_end: int) -> tuple[int, int]:
        """Returns the part of ``[start, end)`` that the log has; empty ranges have equal bounds.

        Raises DataLossError if records are missing and the policy is to fail.
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
        """Returns where to continue if the broker has no ``offset``; ``end`` if nothing of the range is left.

        Raises DataLossError, if the policy is to fail.
        """
        following = log_start if offset < log_start < end else end
        self.report(f"{partition}: the offsets {offset} to {following - 1} were deleted; the log starts at {log_start}")
        return following

    def gone(self, partition: TopicPartition, offset: int, end: int) -> int:
        """``end``, as nothing is left from ``offset`` on. Raises DataLossError, if the policy is to fail."""
        self.report(f"{partition} was deleted with the offsets {offset} to {end - 1}")
        return end
