"""Decoded records as columns over one buffer, in pure Python: the twin of the compiled kernel.

Per record: int64 offset and timestamp; int32 timestamp type, leader epoch, and for key, value and headers a position in the
source buffer with a size (-1 = null) or a count. Nothing is copied before somebody asks for it. The source is the buffer
that was fed, or, as soon as one batch in it was compressed, an arena that holds the decompressed batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import cast

from confluent_kafka import Message

from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.records.batch import BATCH_OVERHEAD, BatchHeader, BatchList
from kafka_remote_client.records.compression import ByteArena, decompress_into
from kafka_remote_client.records.faults import BatchFault, fault_error
from kafka_remote_client.records.record import RecordView, read_headers, read_records, wrap_int64

__all__ = ["ColumnBuilder", "Columns", "Row"]

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
                cast("list[tuple[str, str | bytes | None]] | None", headers or None),
                None,
                # librdkafka's own numbers: 0 not available, 1 CreateTime, 2 LogAppendTime
                (timestamp_type + 1, timestamp) if timestamp_type >= 0 else (0, 0),
                -1.0,  # reads back as latency() None, as for any consumed message
                epoch,
            )
            for offset, timestamp, timestamp_type, epoch, key, value, headers in self.rows(start, stop)
        ]


class ColumnBuilder:
    """Copies records of verified batches of one buffer into columns, batch by batch; a damaged batch leaves no trace.

    ``copies`` = all batches go through the arena, because at least one is compressed or the buffer will not live on.
    Records outside ``[fetch_offset, end_offset)`` are left out.
    """

    def __init__(
        self, data: memoryview, *, copies: bool, fetch_offset: int, end_offset: int, max_decompressed_bytes: int
    ) -> None:
        self.data = data
        self._arena = ByteArena() if copies else None
        self._fetch_offset = fetch_offset
        self._end_offset = end_offset
        self._limit = max_decompressed_bytes
        self._columns = Columns()
        self.error: DirectFetchError | None = None

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def arena_size(self) -> int:
        """Bytes kept in the arena so far."""
        return self._arena.size if self._arena is not None else 0

    def append_plain(self, batches: BatchList, start: int, stop: int) -> int:
        """Adds uncompressed batches ``[start, stop)``. Returns the first not added: ``stop``, or a damaged one (``error``)."""
        for index in range(start, stop):
            if not self.append(batches, index):
                return index
        return stop

    def append(self, batches: BatchList, index: int) -> bool:
        """Adds one batch, compressed or not. False = it is damaged, and ``error`` says how."""
        header = batches[index]
        before = len(self._columns)
        try:
            self._append(header)
        except BatchFault as caught:
            self._columns.truncate(before)
            self.error = fault_error(caught.fault, header.position, header.base_offset)
            return False
        return True

    def _append(self, header: BatchHeader) -> None:
        start, end = header.position + BATCH_OVERHEAD, header.end
        data: memoryview = self.data
        if header.codec or self._arena is not None:
            start, end, data = self._copy_in(header)
        log_append_time = header.is_log_append_time
        delta = header.last_offset - header.base_offset
        for record in read_records(data, start, end, header.record_count, delta):
            offset = header.base_offset + record[0]
            if self._fetch_offset <= offset < self._end_offset:
                timestamp = header.max_timestamp if log_append_time else wrap_int64(header.base_timestamp + record[1])
                self._columns.append(offset, timestamp, int(log_append_time), header.leader_epoch, record)

    def _copy_in(self, header: BatchHeader) -> tuple[int, int, memoryview]:
        if self._arena is None:
            raise AssertionError("a builder without copies was given a compressed batch")
        payload = self.data[header.position + BATCH_OVERHEAD : header.end]
        start = self._arena.size
        if header.codec:
            decompress_into(self._arena, header.codec, payload, self._limit)
        else:
            self._arena.reserve(len(payload))[:] = payload
            self._arena.keep(len(payload))
        return start, self._arena.size, memoryview(self._arena.data)

    def finish(self) -> Columns:
        """The columns; the builder is used up."""
        self._columns.set_source(self.data if self._arena is None else self._arena.finish())
        return self._columns
