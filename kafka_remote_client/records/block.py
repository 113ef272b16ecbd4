"""``RecordBlock``: decoded records of one partition, as other packages get them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import Message

from kafka_remote_client import arguments
from kafka_remote_client.records._select import Columns, Row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RECORD_COLUMNS", "RecordBlock"]

RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
"""The columns of :meth:`RecordBlock.to_arrow`, in their order."""

_MAX_INDEX = 2**63


class RecordBlock:
    """Records in offset order, as columns; ``len()`` counts them. Each method reads its value from the columns.

    Reading continues at ``next_offset`` after the block, even if the block has no record. ``last_leader_epoch`` is the epoch of
    the last batch that was processed, -1 if unknown. The block holds the buffer that it was decoded from, or memory of its own.
    """

    __slots__ = ("_columns", "last_leader_epoch", "next_offset")

    def __init__(self, columns: Columns, next_offset: int, last_leader_epoch: int) -> None:
        self._columns = columns
        self.next_offset = next_offset
        self.last_leader_epoch = last_leader_epoch

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<RecordBlock of {len(self)} records, next offset {self.next_offset}>"

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the block holds."""
        return self._columns.nbytes

    def offset(self, index: int) -> int:
        """The record's offset. ``index`` counts from 0. All methods with an index raise IndexError outside of the block."""
        return self._columns.offset(self._checked(index))

    def timestamp(self, index: int) -> int:
        """Milliseconds since the Unix epoch, -1 when the record has none."""
        return self._columns.timestamp(self._checked(index))

    def timestamp_type(self, index: int) -> int:
        """0 CreateTime, 1 LogAppendTime, -1 none (magic 0)."""
        return self._columns.timestamp_type(self._checked(index))

    def leader_epoch(self, index: int) -> int:
        """The partition leader epoch of the record's batch, -1 when it has none (magic 0 and 1)."""
        return self._columns.leader_epoch(self._checked(index))

    def key(self, index: int) -> bytes | None:
        """The record's key."""
        return self._columns.key(self._checked(index))

    def value(self, index: int) -> bytes | None:
        """The record's value."""
        return self._columns.value(self._checked(index))

    def headers(self, index: int) -> list[tuple[str, bytes | None]]:
        """The record's headers in their order, repeated names included."""
        return self._columns.headers(self._checked(index))

    def messages(self, topic: str, partition: int, start: int = 0, stop: int | None = None) -> list[Message]:
        """The records ``[start, stop)`` as ``confluent_kafka.Message``; indexes outside of the block are ignored.

        They equal consumed messages: headers are None if there are none, and the latency is None.
        """
        return self._columns.messages(topic, partition, *self._cut(start, stop))

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """(offset, timestamp in ms, timestamp type, leader epoch, key, value, headers) of each record in ``[start, stop)``."""
        return self._columns.rows(*self._cut(start, stop))

    def to_arrow(self, topic: str, partition: int, names: Sequence[str] = RECORD_COLUMNS) -> pa.RecordBatch:
        """All records as a ``pyarrow.RecordBatch`` with the schema of Spark's Kafka source, headers included.

        ``names``: its columns and their order, of RECORD_COLUMNS. Only these are built.

        Raises ImportError without pyarrow (extra ``arrow``), KeyError for a name that is not in RECORD_COLUMNS, and
        UnsupportedFormatError for a timestamp or a column that Arrow cannot hold.
        """
        from kafka_remote_client.records.arrow import record_batch  # noqa: PLC0415 - pyarrow is an extra

        return record_batch(self._columns, topic, partition, names)

    def slice_to_arrow(self, topic: str, partition: int, start: int = 0, stop: int | None = None) -> pa.RecordBatch:
        """The records ``[start, stop)`` with ``records.arrow.RECORD_SCHEMA``; indexes outside of the block are ignored.

        Raises ImportError without pyarrow (extra ``arrow``), and UnsupportedFormatError for a column that Arrow cannot hold.
        """
        from kafka_remote_client.records.arrow import slice_batch  # noqa: PLC0415 - pyarrow is an extra

        return slice_batch(self._columns, topic, partition, *self._cut(start, stop))

    def _checked(self, index: int) -> int:
        if type(index) is not int:  # the usual case costs no call
            index = arguments.whole(index, "index", -_MAX_INDEX)
        if not 0 <= index < len(self._columns):
            raise IndexError(f"the block has no record {index}, only {len(self._columns)} records")
        return index

    def _cut(self, start: int, stop: int | None) -> tuple[int, int]:
        length = len(self._columns)
        start = arguments.whole(start, "start", -_MAX_INDEX)
        stop = None if stop is None else arguments.whole(stop, "stop", -_MAX_INDEX)
        start = min(max(start, 0), length)
        return start, length if stop is None else min(max(stop, start), length)
