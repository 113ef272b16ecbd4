"""``consume_arrow``: the delivered records as a ``pyarrow.Table``.

With direct fetch on, records from the store come as runs (message_run.py), and their columns are copied once. Records of the
broker path come as messages, and each has the cost of reading a message. With direct fetch off, all are messages of
confluent_kafka's own ``consume``.

Errors are raised as ConsumeError, as by ``DeserializingConsumer.poll``, and lose no record. confluent_kafka counts all
messages of a batch as delivered. So with direct fetch off all records of a batch are returned first, and :class:`PlainBatches`
keeps its errors for the calls that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import cast

import confluent_kafka
import pyarrow as pa
from confluent_kafka import Message
from confluent_kafka.error import ConsumeError

from kafka_remote_client.consumer.message_run import MessageRun, Piece
from kafka_remote_client.records.arrow import RECORD_SCHEMA, message_table

__all__ = ["PlainBatches", "table_of"]


def table_of(pieces: Sequence[Piece]) -> pa.Table:
    """Records in their order, with ``RECORD_SCHEMA``; a chunk for each run and for messages in a row."""
    tables = []
    for are_runs, group in groupby(pieces, lambda piece: isinstance(piece, MessageRun)):
        if are_runs:
            tables.append(pa.Table.from_batches([cast("MessageRun", run).batch for run in group], RECORD_SCHEMA))
        else:
            tables.append(message_table(cast("list[Message]", list(group))))
    return pa.concat_tables(tables) if tables else RECORD_SCHEMA.empty_table()


class PlainBatches:
    """Batches of confluent_kafka's consumer, and their errors that are not raised yet."""

    def __init__(self) -> None:
        self._errors: list[Message] = []

    def consume(self, consumer: confluent_kafka.Consumer, max_records: int, timeout: float) -> pa.Table:
        """As ``Consumer.consume_arrow``. Errors that ``consume`` raises pass through."""
        messages = [] if self._errors else confluent_kafka.Consumer.consume(consumer, max_records, timeout)
        records = [message for message in messages if message.error() is None]
        self._errors += [message for message in messages if message.error() is not None]
        if self._errors and not records:
            failed = self._errors.pop(0)
            raise ConsumeError(cast("confluent_kafka.KafkaError", failed.error()), kafka_message=failed)
        return table_of(records)
