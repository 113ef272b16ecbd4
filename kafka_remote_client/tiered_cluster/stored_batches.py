"""Reads record batches of all formats from a segment's log, as a broker does that sends them: unchecked.

A broker looks at a checksum when a producer sends a batch, never again. Batches of magic 2 are as in ``batches.py``. Messages
of magic 0 and 1 are batches too, with one offset; a compressed one holds others, whose offsets in magic 1 begin at 0::

    offset  size  field       note
    0       8     offset      of the message, or of the last one in a compressed set
    8       4     size        bytes that follow
    12      4     crc
    16      1     magic       0 or 1
    17      1     attributes  bits 0-2 codec, 3 LogAppendTime
    18      8     timestamp   magic 1
                  key, value  each with an int32 length, -1 for null

References: Kafka's RemoteLogInputStream, AbstractLegacyRecordBatch, LegacyRecord, FileRecords.searchForTimestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafka_remote_client.tiered_cluster.batches import (
    NO_EPOCH,
    NO_PRODUCER,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    decompress,
    records_of,
    unpacked,
)

__all__ = ["record_times", "stored_batches"]

_FRONT = struct.Struct(">qi")
_OLD = struct.Struct(">bbq")
_LENGTH = struct.Struct(">i")
_MAGIC_AT, _TIMESTAMP_AT = 16, 18


def stored_batches(data: bytes) -> Iterator[Batch]:
    """Whole batches. Raises ValueError for a cut one."""
    at = 0
    while at < len(data):
        offset, length = _FRONT.unpack_from(data, at)
        end = at + _FRONT.size + length
        if end > len(data) or length < 0:
            raise ValueError(f"batch at offset {offset} ends at byte {end} of {len(data)}")
        yield unpacked(data[at:end]) if data[at + _MAGIC_AT] >= 2 else _message(offset, data[at:end])
        at = end


def _message(offset: int, data: bytes) -> Batch:
    magic, attributes, timestamp = _OLD.unpack_from(data, _MAGIC_AT)
    time = timestamp if magic else NO_TIMESTAMP
    return Batch(offset, NO_EPOCH, attributes, offset, time, time, NO_PRODUCER, NO_EPOCH, NO_SEQUENCE, 1, data)


def record_times(batch: Batch) -> Iterator[tuple[int, int]]:
    """Offset and timestamp of each record, those of transaction markers too. With LogAppendTime all have the batch's time."""
    if batch.data[_MAGIC_AT] >= 2:
        for record in records_of(batch):
            yield record.offset, batch.max_timestamp if batch.log_append_time else record.timestamp
    elif batch.codec:
        inner = list(stored_batches(decompress(batch.codec, _value(batch.data))))
        first = batch.last_offset - inner[-1].last_offset  # 0 for magic 0, whose inner offsets are those of the log
        for message in inner:
            yield first + message.last_offset, batch.max_timestamp if batch.log_append_time else message.max_timestamp
    else:
        yield batch.last_offset, batch.max_timestamp


def _value(message: bytes) -> bytes:
    at = _TIMESTAMP_AT + (8 if message[_MAGIC_AT] else 0)
    (key,) = _LENGTH.unpack_from(message, at)
    return message[at + 2 * _LENGTH.size + max(key, 0) :]
