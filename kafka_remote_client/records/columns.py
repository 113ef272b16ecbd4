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
from kafka_remote_client.records.control import is_abort_marker
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
"""Of one record in all columns together."""
NO_TIMESTAMP = -1
"""The timestamp type of magic 0."""

Buffer: TypeAlias = "array[int] | bytes | bytearray | memoryview"

BinaryColumn: TypeAlias = "tuple[Buffer, Buffer, Buffer | None, int]"
"""Arrow's binary layout: int32 offsets (one more than values), data, validity bitmap (None: no nulls), number of nulls."""

HeaderColumns: TypeAlias = "tuple[Buffer, int, BinaryColumn, BinaryColumn | None]"
"""Arrow's list layout: int32 list offsets (one more than records), how many headers in all, their names, their values."""

Row = tuple[int, int, int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""offset, timestamp in ms, timestamp type, leader epoch, key, value, headers."""


class Columns:
    """The columns of one block. Index arguments are not checked here: RecordBlock does it."""

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
        """Says where the positions point to."""
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
        """``confluent_kafka.Message`` for the records ``[start, stop)``, as the broker path gives them."""
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

    # What Arrow takes over without another copy

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
        """Values (or keys) of ``[start, stop)`` as in BinaryColumn; None where there is nothing but nulls."""
        read = self.value if values else self.key
        return _gather([read(i) for i in range(start, stop)])

    def header_columns(self, start: int, stop: int) -> HeaderColumns | None:
        """Headers of ``[start, stop)`` as in HeaderColumns; None where no record has one."""
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
    """Turns verified batches of one buffer into columns, batch by batch; a damaged batch leaves no record behind.

    Skipped are control batches, which are still parsed, batches that end before ``fetch_offset``, and what
    ``aborted`` drops (``None``: read_uncommitted). The filter sees each batch in its turn, but none before ``fetch_offset``.

    ``arena`` = all records go through an arena, because at least one batch is compressed or of an old format, or because the
    buffer will not live on. Records outside ``[fetch_offset, end_offset)`` are left out. No batch is begun once arena and
    columns together need ``block_bytes``. ``max_decompressed_bytes`` bounds what a batch decompresses to and, apart from that,
    the columns of its records: so bytes that hold nothing but empty records do not grow sevenfold without a bound.
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

        Returns the first batch not done and its fault: ``stop`` and NONE, a damaged one, or NONE where the block is full.
        """
        for index in range(start, stop):
            try:
                takes = self._takes(self._batches[index])
            except BatchFault as caught:
                return index, caught.fault
            if not takes:
                continue
            if (self._arena.size if self._arena is not None else 0) + self._records * COLUMN_BYTES >= self._block_bytes:
                return index, Fault.NONE
            before = len(self._columns)
            try:
                self._append(self._batches[index])
            except BatchFault as caught:
                self._columns.truncate(before)
                return index, caught.fault
        return stop, Fault.NONE

    def _takes(self, header: BatchHeader) -> bool:
        """Whether the application gets the records of a batch. Raises BatchFault for a control batch that does not parse."""
        if header.last_offset < self._fetch_offset:
            return False
        filtered = self._aborted is not None and header.producer_id >= 0
        aborts = header.is_control and is_abort_marker(self._data, header, self._limit, filtered=filtered)
        if self._aborted is not None and filtered and self._aborted.drops(header, is_abort_marker=aborts):
            return False
        return not header.is_control

    def _append(self, header: BatchHeader) -> None:
        start, end, data = header.position + BATCH_OVERHEAD, header.end, self._data
        if self._arena is not None:
            start = self._arena.size
            end = start + copy_records(self._data, header, self._arena, self._limit)
            data = self._arena.view()
        # a count that these bytes cannot hold is damage instead, which read_records tells
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
        """The columns; the builder is used up."""
        self._columns.set_source(self._data if self._arena is None else self._arena.view())
        return self._columns
