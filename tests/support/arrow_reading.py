"""Takes messages by ``consume_arrow``, so that what is shown of ``consume`` can be shown of it too."""

from __future__ import annotations

import calendar
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.error import ConsumeError

from kafka_remote_client import Consumer

__all__ = ["by_arrow", "messages_in", "taken_by_arrow"]


def messages_in(table: pa.Table) -> list[Message]:
    """The rows of a table as the messages that ``consume`` gives."""
    return [_message(**row) for row in table.to_pylist()]


def _message(
    headers: list[dict[str, Any]], timestamp: Any, timestamp_type: int, leader_epoch: int | None, **row: Any
) -> Message:
    time = 0 if timestamp is None else calendar.timegm(timestamp.utctimetuple()) * 1000 + timestamp.microsecond // 1000
    return Message(
        **row,
        headers=[(header["key"], header["value"]) for header in headers] or None,
        timestamp=(timestamp_type + 1, time),
        latency=-1.0,
        leader_epoch=-1 if leader_epoch is None else leader_epoch,
    )


def taken_by_arrow(call: Callable[[], pa.Table]) -> list[Message]:
    """What a call of ``consume_arrow`` gives, an error as the message that it is about."""
    try:
        return messages_in(call())
    except ConsumeError as error:
        return [error.kafka_message]  # type: ignore[list-item] # always there


def by_arrow(consumer: confluent_kafka.Consumer, limit: int = 50) -> list[Message]:
    """Up to ``limit`` messages."""
    assert isinstance(consumer, Consumer)
    return taken_by_arrow(lambda: consumer.consume_arrow(limit, 0.1))
