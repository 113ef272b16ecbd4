"""Decoded records as columns over one buffer, in pure Python: the twin of the compiled kernel.

Per record: int64 offset and timestamp; int32 timestamp type, leader epoch, and for key, value and headers a position in the
source buffer with a size (-1 = null) or a count. Nothing is copied before it is needed. The source is the buffer
that was fed, or, as soon as one batch in it was compressed, an arena that holds the decompressed batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TypeAlias, cast

from confluent_kafka import Message

from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import BATCH_OVERHEAD, BatchHeader, BatchList
from kafka_remote_client.records.compression import ByteArena
from kafka_remote_client.records.control import is_delivered
from kafka_remote_client.records.faults import BatchFault, Fault
from kafka_remote_client.records.payload import copy_records
from kafka_remote_client.records.record import (
    MINIMAL_RECORD,
    RecordView,
    read_headers,
    read_message_headers,
    read_raw_headers,
    read_records,
    wrap_int64,
)

__all__ = ["COLUMN_BYTES", "NO_TIMESTAMP", "BinaryColumn", "Buffer", "ColumnBuilder", "Columns", "HeaderColumns", "Row"]

COLUMN_BYTES = 48
"""Bytes of one record in all columns together."""
NO_TIMESTAMP = -1
"""The timestamp type of magic 0."""

Buffer: TypeAlias = "array[int] | bytes | bytearray | memoryview"

BinaryColumn: TypeAlias = "tuple[Buffer, Buffer, Buffer | None, int]"
"""Arrow's binary layout: int32 offsets (one more than values), data, validity bitmap (None = no nulls), number of nulls."""

HeaderColumns: TypeAlias = "tuple[Buffer, int, BinaryColumn, BinaryColumn | None]"
"""Arrow's list layout: int32 list offsets (one more than records), number of headers, their names, their values."""

Row = tuple[int, int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""offset, timestamp in ms, timestamp type, leader epoch, key, value, headers."""


class Columns:
    """The columns of one block. RecordBlock checks index arguments; this class does not."""

    __slots__ = (
        "_epochs",
        "_header_counts",
        "_headers",
        "_key_sizes",
        "_keys",
        "_offsets",
        "_source",
        "_timestamp_types",
        "_timestamps",
        "_value_sizes",
        "_values",
    )

    def __init__(self) -> None:
        self._source: memoryview | bytes = b""
        self._offsets = array("q")
        self._timestamps = array("q")
        self._timestamp_types = array("i")
        self._epochs = array("i")
        self._keys = array("i")
        self._key_sizes = array("i")
        self._values = array("i")
        self._value_sizes = array("i")
        self._headers = array("i")
        self._header_counts = array("i")

    def _arrays(self) -> tuple[array[int], ...]:
        return (
            self._offsets,
            self._timestamps,
            self._timestamp_types,
            self._epochs,
            self._keys,
            self._key_sizes,
            self._values,
            self._value_sizes,
            self._headers,
            self._header_counts,
        )

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def nbytes(self) -> int:
        """Bytes that these columns keep alive, the source buffer included."""
        return len(self._source) + sum(len(column) * column.itemsize for column in self._arrays())

    def append(self, offset: int, timestamp: int, timestamp_type: int, epoch: int, record: RecordView) -> None:
        """Adds one record."""
        self._offsets.append(offset)
        self._timestamps.append(timestamp)
        self._timestamp_types.append(timestamp_type)
        self._epochs.append(epoch)
        self._keys.append(record[2])
        self._key_sizes.append(record[3])
        self._values.append(record[4])
        self._value_sizes.append(record[5])
        self._headers.append(record[6])
        self._header_counts.append(record[7])

    def truncate(self, length: int) -> None:
        """Forgets all records from ``length`` on."""
        for column in self._arrays():
            del column[length:]

    def set_source(self, source: memoryview | bytes) -> None:
        """Sets the buffer that the positions refer to."""
        self._source = source

    def offset(self, index: int) -> int:
        return self._offsets[index]

    def timestamp(self, index: int) -> int:
        return self._timestamps[index]

    def timestamp_type(self, index: int) -> int:
        return self._timestamp_types[index]

    def leader_epoch(self, index: int) -> int:
        return self._epochs[index]

    def key(self, index: int) -> bytes | None:
        size = self._key_sizes[index]
        at = self._keys[index]
        return None if size < 0 else bytes(self._source[at : at + size])

    def value(self, index: int) -> bytes | None:
        size = self._value_sizes[index]
        at = self._values[index]
        return None if size < 0 else bytes(self._source[at : at + size])

    def headers(self, index: int) -> list[tuple[str, bytes | None]]:
        count = self._header_counts[index]
        return read_headers(self._source, self._headers[index], count) if count else []

    def rows(self, start: int, stop: int) -> Iterator[Row]:
        """Plain tuples of the records ``[start, stop)``."""
        for i in range(start, stop):
            yield (
                self._offsets[i],
                self._timestamps[i],
                self._timestamp_types[i],
                self._epochs[i],
                self.key(i),
                self.value(i),
                self.headers(i),
            )

    def messages(self, topic: str, partition: int, start: int, stop: int) -> list[Message]:
        """The records ``[start, stop)`` as messages like those that librdkafka delivers."""
        return [
            Message(
                topic,
                partition,
                offset,
                key,
                value,
                cast("list[tuple[str, str | bytes | None]] | None", self._message_headers(start + n)),
                None,
                # librdkafka's own numbers: 0 not available, 1 CreateTime, 2 LogAppendTime
                (timestamp_type + 1, timestamp) if timestamp_type >= 0 else (0, 0),
                -1.0,  # reads back as latency() None, as for any consumed message
                epoch,
            )
            for n, (offset, timestamp, timestamp_type, epoch, key, value, _) in enumerate(self.rows(start, stop))
        ]

    def _message_headers(self, index: int) -> list[tuple[str, bytes | None]] | None:
        count = self._header_counts[index]
        return read_message_headers(self._source, self._headers[index], count) if count else None

    # Buffers that Arrow uses without another copy

    def offsets_buffer(self) -> Buffer:
        """int64 per record."""
        return self._offsets

    def timestamps_buffer(self) -> Buffer:
        """int64 per record, in ms."""
        return self._timestamps

    def timestamp_types_buffer(self) -> Buffer:
        """int32 per record."""
        return self._timestamp_types

    def leader_epochs_buffer(self) -> Buffer:
        """int32 per record."""
        return self._epochs

    def microseconds(self) -> Buffer:
        """int64 per record. Raises OverflowError for a timestamp that does not fit."""
        return array("q", [timestamp * 1000 for timestamp in self._timestamps])

    def binary_column(self, values: bool, start: int, stop: int) -> BinaryColumn | None:
        """Values (or keys) of ``[start, stop)`` as in BinaryColumn; None if all are null."""
        read = self.value if values else self.key
        return _gather([read(i) for i in range(start, stop)])

    def header_columns(self, start: int, stop: int) -> HeaderColumns | None:
        """Headers of ``[start, stop)`` as in HeaderColumns; None if no record has headers."""
        ends, names, values = array("i", [0]), list[bytes | None](), list[bytes | None]()
        for i in range(start, stop):
            for name, value in read_raw_headers(self._source, self._headers[i], self._header_counts[i]):
                names.append(name)
                values.append(value)
            ends.append(len(names))
        named = _gather(names)
        return (ends, len(names), named, _gather(values)) if named else None


def _gather(parts: list[bytes | None]) -> BinaryColumn | None:
    ends = array("i", [0])
    data = bytearray()
    validity = bytearray(b"\xff" * ((len(parts) + 7) // 8))
    nulls = 0
    for i, part in enumerate(parts):
        if part is None:
            validity[i >> 3] &= ~(1 << (i & 7))
            nulls += 1
        else:
            data += part
        ends.append(len(data))
    return (ends, data, validity if nulls else None, nulls) if nulls < len(parts) else None


class ColumnBuilder:
    """Turns verified batches of one buffer into columns, batch by batch. No record of a damaged batch is added.

    Control batches are parsed and not added. Batches that end before ``fetch_offset`` are skipped, and so is what ``aborted``
    drops (None = read_uncommitted). The filter sees all batches in order, from the one that holds ``fetch_offset`` on.

    ``arena``: all records are copied to an arena, because at least one batch is compressed or of an old format, or because the
    buffer is reused. Records outside ``[fetch_offset, end_offset)`` are left out. The block ends before the batch where arena
    and columns together have ``block_bytes``. ``max_decompressed_bytes`` bounds the decompressed bytes of a batch and also the
    columns of its records, because the columns of empty records have seven times their bytes.
    """

    def __init__(
        self,
        data: memoryview,
        batches: BatchList,
        *,
        arena: bool,
        fetch_offset: int,
        end_offset: int,
        max_decompressed_bytes: int,
        block_bytes: int,
        aborted: AbortedTransactionFilter | None,
    ) -> None:
        self._data = data
        self._batches = batches
        self._arena = ByteArena() if arena else None
        self._fetch_offset = fetch_offset
        self._end_offset = end_offset
        self._limit = max_decompressed_bytes
        self._block_bytes = block_bytes
        self._aborted = aborted
        self._records = 0
        self._columns = Columns()

    def append(self, start: int, stop: int) -> tuple[int, int]:
        """Adds the records of the batches ``[start, stop)``.

        Returns the first batch that was not added, and its fault, which is NONE for ``stop`` and if the block is full.
        """
        for index in range(start, stop):
            header = self._batches[index]
            try:
                delivers = self._delivers(header)
            except BatchFault as caught:
                return index, caught.fault
            if not delivers:
                continue
            if (self._arena.size if self._arena is not None else 0) + self._records * COLUMN_BYTES >= self._block_bytes:
                return index, Fault.NONE
            before = len(self._columns)
            try:
                self._append(header)
            except BatchFault as caught:
                self._columns.truncate(before)
                return index, caught.fault
        return stop, Fault.NONE

    def _delivers(self, header: BatchHeader) -> bool:
        return header.last_offset >= self._fetch_offset and is_delivered(self._data, header, self._limit, self._aborted)

    def _append(self, header: BatchHeader) -> None:
        start, end, data = header.position + BATCH_OVERHEAD, header.end, self._data
        if self._arena is not None:
            start = self._arena.size
            end = start + copy_records(self._data, header, self._arena, self._limit)
            data = self._arena.view()
        # read_records refuses a count of records that does not fit these bytes as damage
        if header.record_count * COLUMN_BYTES > self._limit and header.record_count * MINIMAL_RECORD <= end - start:
            raise BatchFault(Fault.TOO_LARGE)
        self._records += header.record_count
        timestamp_type = int(header.is_log_append_time) if header.magic else NO_TIMESTAMP
        delta = header.last_offset - header.base_offset
        for record in read_records(data, start, end, header.record_count, delta):
            offset = header.base_offset + record[0]
            if self._fetch_offset <= offset < self._end_offset:
                timestamp = header.max_timestamp if timestamp_type == 1 else wrap_int64(header.base_timestamp + record[1])
                self._columns.append(offset, timestamp, timestamp_type, header.leader_epoch, record)

    def finish(self) -> Columns:
        """The columns. Call it once, at the end."""
        self._columns.set_source(self._data if self._arena is None else self._arena.view())
        return self._columns
