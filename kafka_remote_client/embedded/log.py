"""The tiered log that the embedded broker serves: an index of the written batches over the files of the tier.

Tests compare direct reads with the embedded broker. So this module shares no code with the client: it imports nothing from
``records``, ``remote_log`` or ``location`` (an import contract in pyproject.toml). It reads no offset index, no transaction
index and no checkpoint. It indexes batches once, from the bytes that the archiver writes, and finds aborted transactions in the
control batches.

::

    offset  size  field                  magic
    0       8     baseOffset             2; magic 0 and 1: the offset of the message, or of the last one in a compressed set
    8       4     batchLength            bytes that follow
    12      4     partitionLeaderEpoch   2; magic 0 and 1: crc
    16      1     magic                  all
    21      2     attributes             2: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control
    23      4     lastOffsetDelta        2
    27      8     baseTimestamp          2
    35      8     maxTimestamp           2
    43      8     producerId             2
    61            records                2
    17      1     attributes             0, 1: bits 0-2 codec, 3 LogAppendTime
    18      8     timestamp              1

References: Kafka's DefaultRecordBatch, DefaultRecord, LegacyRecord, ControlRecordType, UnifiedLog.collectAbortedTransactions,
FileRecords.searchForTimestamp.
"""

from __future__ import annotations

import struct
import threading
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import attrs

from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, TopicIdPartition
from kafka_remote_client.tiered_cluster.batches import Codec, decompress, read_varint
from kafka_remote_client.wire import ZERO_UUID

__all__ = ["EmbeddedLog", "EmbeddedLogs", "RecordTime", "end_offset", "find_time"]

_FRONT = struct.Struct(">qiib")
_BATCH = struct.Struct(">hiqqq")
_BATCH_AT, _RECORDS_AT = 21, 61
_LEGACY = struct.Struct(">bq")
_LEGACY_AT = 17
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_LENGTH = struct.Struct(">i")
_MARKER = struct.Struct(">hh")
_ABORT = 0
_NO_TIMESTAMP = -1


@attrs.frozen
class RecordTime:
    """As in an answer of ListOffsets by time. ``timestamp`` is in milliseconds."""

    offset: int
    timestamp: int
    leader_epoch: int


@attrs.frozen
class _Batch:
    """An entry of the index: a record batch, or one message of magic 0 or 1. ``end``: the position after it."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    max_timestamp: int
    base_timestamp: int
    magic: int
    attributes: int
    producer_id: int
    position: int
    end: int


@attrs.frozen
class _Stored:
    """A batch and the file that holds it. ``aborts``: whether it is an ABORT marker."""

    batch: _Batch
    path: Path
    aborts: bool


class EmbeddedLog:
    """One partition's tiered log, ``[start, end)``. Thread safe.

    ``append`` adds the batches of one file. A file that begins below the end replaces the records from its first offset on, as
    after a change of the leader.
    """

    def __init__(self) -> None:
        self._stored: list[_Stored] = []
        self._aborted: list[tuple[AbortedTransaction, int]] = []
        self._lock = threading.Lock()

    @property
    def start(self) -> int:
        """The first offset. Raises IndexError before the first append."""
        return self._stored[0].batch.base_offset

    @property
    def end(self) -> int:
        """The offset after the last one. Raises IndexError before the first append."""
        return self._stored[-1].batch.last_offset + 1

    def append(self, path: Path, data: bytes) -> None:
        """Adds the file at ``path`` with the content ``data``, whole batches. Raises ValueError for an incomplete batch."""
        batches = list(_batches(data))
        if not batches:
            return
        with self._lock:
            kept = [one for one in self._stored if one.batch.base_offset < batches[0].base_offset]
            self._stored = kept + [_Stored(one, path, _aborts(data, one)) for one in batches]
            self._aborted = list(_aborted(self._stored))

    def read(self, offset: int, max_bytes: int) -> tuple[bytes, tuple[AbortedTransaction, ...]]:
        """Returns whole batches of one file from the one that holds ``offset`` on: as many as fit, at least one.

        Also returns their aborted transactions, as a broker does for read_committed. Outside of the log it returns nothing.
        The bytes are those of the file, damaged or not: a broker does not check the batches that it sends.
        """
        with self._lock:
            stored, aborted = self._stored, self._aborted
        first = bisect_left(stored, offset, key=lambda one: one.batch.last_offset)
        if first == len(stored):
            return b"", ()
        begin = stored[first]
        end = begin.batch
        for one in stored[first + 1 :]:
            if one.path != begin.path or one.batch.end - begin.batch.position > max_bytes:
                break
            end = one.batch
        with begin.path.open("rb") as file:
            file.seek(begin.batch.position)
            data = file.read(end.end - begin.batch.position)
        overlapping = (found for found, marker in aborted if marker >= offset and found.first_offset <= end.last_offset)
        return data, tuple(overlapping)

    def find_time(self, timestamp_ms: int) -> RecordTime | None:
        """Returns the first record whose timestamp is ``timestamp_ms`` or later."""
        with self._lock:
            stored = self._stored
        for one in stored:
            if one.batch.max_timestamp >= timestamp_ms:
                data = one.path.read_bytes()[one.batch.position : one.batch.end]
                if found := find_time(data, timestamp_ms):
                    return found
        return None


class EmbeddedLogs:
    """The tiered logs of all partitions. Thread safe."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str | UUID, int], EmbeddedLog] = {}
        self._lock = threading.Lock()

    def append(self, partition: TopicIdPartition, path: Path, data: bytes) -> None:
        """Adds the batches of one file to a partition: see :meth:`EmbeddedLog.append`."""
        with self._lock:
            log = self._logs.get((partition.topic_id, partition.partition)) or EmbeddedLog()
            log.append(path, data)
            for topic in (partition.topic, partition.topic_id):
                self._logs[topic, partition.partition] = log

    def log(self, topic: str, topic_id: UUID, partition: int) -> EmbeddedLog | None:
        """Returns the partition, by topic id unless that is all zeros; ``None`` if none of its segments is tiered."""
        with self._lock:
            return self._logs.get((topic if topic_id == ZERO_UUID else topic_id, partition))


def find_time(data: bytes, timestamp_ms: int) -> RecordTime | None:
    """Returns the first record of whole batches with the timestamp ``timestamp_ms`` or later. Transaction markers count."""
    for batch in _batches(data):
        if batch.max_timestamp < timestamp_ms:
            continue
        for offset, timestamp in _records(data, batch):
            if timestamp >= timestamp_ms:
                return RecordTime(offset, timestamp, batch.leader_epoch)
    return None


def end_offset(data: bytes) -> int:
    """Returns the offset after the last of whole batches. Raises ValueError without a batch."""
    return max(batch.last_offset for batch in _batches(data)) + 1


def _batches(data: bytes) -> Iterator[_Batch]:
    position = 0
    while position < len(data):
        offset, length, epoch, magic = _FRONT.unpack_from(data, position)
        end = position + 12 + length
        if length < 0 or end > len(data):
            raise ValueError(f"batch at offset {offset} ends at byte {end} of {len(data)}")
        if magic >= 2:
            attributes, delta, base_time, max_time, producer = _BATCH.unpack_from(data, position + _BATCH_AT)
            yield _Batch(offset, offset + delta, epoch, max_time, base_time, magic, attributes, producer, position, end)
        else:
            attributes, timestamp = _LEGACY.unpack_from(data, position + _LEGACY_AT)
            timestamp = timestamp if magic else _NO_TIMESTAMP
            yield _Batch(offset, offset, UNKNOWN_EPOCH, timestamp, timestamp, magic, attributes, -1, position, end)
        position = end


def _records(data: bytes, batch: _Batch) -> Iterator[tuple[int, int]]:
    """Yields offset and timestamp of each record of a batch."""
    codec, append_time = batch.attributes & _CODEC, batch.attributes & _LOG_APPEND_TIME
    if batch.magic < 2:
        yield from _messages(data, batch) if codec else [(batch.last_offset, batch.max_timestamp)]
        return
    records = decompress(Codec(codec), data[batch.position + _RECORDS_AT : batch.end])
    at = 0
    while at < len(records):
        length, at = read_varint(records, at)
        time_delta, inside = read_varint(records, at + 1)
        offset_delta, _ = read_varint(records, inside)
        yield batch.base_offset + offset_delta, batch.max_timestamp if append_time else batch.base_timestamp + time_delta
        at += length


def _messages(data: bytes, wrapper: _Batch) -> Iterator[tuple[int, int]]:
    """Yields offset and timestamp of each message in a compressed one of magic 1, whose inner offsets begin at 0."""
    at = wrapper.position + _LEGACY_AT + _LEGACY.size
    key, at = _LENGTH.unpack_from(data, at)[0], at + 4
    at += max(key, 0)
    inner = list(_batches(decompress(Codec(wrapper.attributes & _CODEC), data[at + 4 : wrapper.end])))
    first = wrapper.last_offset - inner[-1].last_offset
    for message in inner:
        timestamp = wrapper.max_timestamp if wrapper.attributes & _LOG_APPEND_TIME else message.max_timestamp
        yield first + message.last_offset, timestamp


def _aborts(data: bytes, batch: _Batch) -> bool:
    """Returns whether a batch is an ABORT marker: a control record's key is its version and its type, both int16."""
    if not batch.attributes & _CONTROL or batch.magic < 2:
        return False
    _, at = read_varint(data, batch.position + _RECORDS_AT)
    at += 1  # the record's attributes
    for _ in ("timestamp delta", "offset delta", "key length"):
        _, at = read_varint(data, at)
    version_and_type: tuple[int, int] = _MARKER.unpack_from(data, at)
    return version_and_type[1] == _ABORT


def _aborted(stored: list[_Stored]) -> Iterator[tuple[AbortedTransaction, int]]:
    """Yields aborted transactions with their markers' offsets, in the order of the markers."""
    opened: dict[int, int] = {}
    for one in stored:
        batch = one.batch
        if batch.attributes & _CONTROL and batch.magic >= 2:
            first = opened.pop(batch.producer_id, None)
            if one.aborts and first is not None:
                yield AbortedTransaction(batch.producer_id, first), batch.last_offset
        elif batch.attributes & _TRANSACTIONAL and batch.magic >= 2:
            opened.setdefault(batch.producer_id, batch.base_offset)
