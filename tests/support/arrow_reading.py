"""Takes messages with ``consume_arrow``, so that tests of ``consume`` can also test it."""

from __future__ import annotations

import calendar
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.error import ConsumeError

from kafka_remote_client import Consumer
from kafka_remote_client.records.arrow import RECORD_SCHEMA

__all__ = ["by_arrow", "messages_in", "record_table", "taken_by_arrow"]


def messages_in(table: pa.Table) -> list[Message]:
    """Returns the rows of a table as messages, as from ``consume``."""
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


def record_table(
    records: Sequence[tuple[bytes | None, bytes | None]], *, headers: Sequence[tuple[str, bytes | None]] = ()
) -> pa.Table:
    """Returns a table as from ``consume_arrow``, with keys and values of ``orders-3`` from offset 10 on."""
    rows = [
        {
            "topic": "orders",
            "partition": 3,
            "offset": offset,
            "timestamp": 1234,
            "timestamp_type": 0,
            "leader_epoch": 0,
            "key": key,
            "value": value,
            "headers": [{"key": name, "value": told} for name, told in headers],
        }
        for offset, (key, value) in enumerate(records, 10)
    ]
    return pa.Table.from_pylist(rows, RECORD_SCHEMA)


def taken_by_arrow(call: Callable[[], pa.Table]) -> list[Message]:
    """Returns the result of a call of ``consume_arrow``, with an error as its message."""
    try:
        return messages_in(call())
    except ConsumeError as error:
        return [error.kafka_message]  # type: ignore[list-item] # always there


def by_arrow(consumer: confluent_kafka.Consumer, limit: int = 50) -> list[Message]:
    """Up to ``limit`` messages."""
    assert isinstance(consumer, Consumer)
    return taken_by_arrow(lambda: consumer.consume_arrow(limit, 0.1))
