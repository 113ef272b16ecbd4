"""A partition's log and its segments in the tier, as values. The simulation reads from it and judges by it.

The log comes from a seed: batches of several codecs, transactions of three producers that commit or abort, markers, leader
epochs. It imports nothing that parses, filters or locates records, so that it can judge the code that does.

References: KIP-98 (transactions), KIP-101 (leader epochs).
"""

from __future__ import annotations

import bisect
import functools
import random
from typing import NamedTuple
from uuid import UUID

import attrs

from kafka_remote_client.model import (
    AbortedTransaction,
    EpochEntry,
    IsolationLevel,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tests.support.batches import Rec, abort_marker, batch, commit_marker

__all__ = ["LogBatch", "LogEntry", "LogRecord", "LogSegment", "ModelLog", "model_log"]

_TOPIC_ID = UUID(int=1254)
_PRODUCERS = 3
_TRANSACTIONAL = 0x10
_CODECS = (0, 0, 0, 1, 4)


class LogRecord(NamedTuple):
    """A record as an application sees it."""

    offset: int
    leader_epoch: int
    value: bytes


class LogEntry(NamedTuple):
    """A record, or a marker, which has no ``value``."""

    offset: int
    leader_epoch: int
    value: bytes | None


@attrs.frozen
class LogBatch:
    """A batch: offsets ``[base, last]``, and its bytes ``[position, position + size)`` of its segment."""

    base: int
    last: int
    epoch: int
    position: int
    size: int


@attrs.frozen(eq=False)
class LogSegment:
    """A segment in the tier."""

    metadata: RemoteLogSegmentMetadata
    batches: tuple[LogBatch, ...]
    data: bytes = attrs.field(repr=False)

    @property
    def start(self) -> int:
        """Its first offset."""
        return self.metadata.start_offset

    @property
    def end(self) -> int:
        """The first offset after it."""
        return self.metadata.end_offset + 1

    def batch_of(self, offset: int) -> int:
        """Returns the index of the batch that holds an offset."""
        return bisect.bisect_right(self.batches, offset, key=lambda one: one.base) - 1


@attrs.define
class _Transaction:
    producer: int
    first: int
    last: int = -1  # the offset of its marker
    aborts: bool = False


@attrs.frozen(eq=False)
class ModelLog:
    """See the module. ``visible``: the records of each isolation level, in order. ``end``: the first offset after the log.

    ``timestamp``: confluent_kafka's, of all records.
    """

    segments: tuple[LogSegment, ...]
    visible: dict[IsolationLevel, tuple[LogRecord, ...]] = attrs.field(repr=False)
    aborted: tuple[tuple[AbortedTransaction, int], ...] = attrs.field(repr=False)  # with the offsets of their markers
    end: int
    timestamp: tuple[int, int] = 1, 1000
    _offsets: dict[IsolationLevel, tuple[int, ...]] = attrs.field(init=False, repr=False)
    _entries: dict[IsolationLevel, list[LogEntry]] = attrs.field(factory=dict, init=False, repr=False)

    @_offsets.default
    def _offsets_of_visible(self) -> dict[IsolationLevel, tuple[int, ...]]:
        return {level: tuple(record.offset for record in records) for level, records in self.visible.items()}

    def records(self, level: IsolationLevel, start: int, end: int) -> tuple[LogRecord, ...]:
        """Returns the records in ``[start, end)``."""
        offsets = self._offsets[level]
        return self.visible[level][bisect.bisect_left(offsets, start) : bisect.bisect_left(offsets, end)]

    def entries(self, level: IsolationLevel, start: int, end: int) -> list[LogEntry]:
        """Returns what a plain consumer gets of ``[start, end)``: the visible records and the markers."""
        if level not in self._entries:
            records = self.visible[level]
            marked = set(range(self.end)).difference(self._offsets[IsolationLevel.READ_UNCOMMITTED])
            markers = [LogEntry(offset, self.epoch_before(offset + 1), None) for offset in marked]
            self._entries[level] = sorted([*(LogEntry(*one) for one in records), *markers])
        entries = self._entries[level]
        first, after = (bisect.bisect_left(entries, one, key=lambda entry: entry.offset) for one in (start, end))
        return entries[first:after]

    def aborted_in(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Returns the aborted transactions that a broker names for ``[start, end)``."""
        return tuple(one for one, last in self.aborted if last >= start and one.first_offset < end)

    def epoch_before(self, offset: int) -> int:
        """Returns the leader epoch of the offset before, -1 at the log's start."""
        segment = self.segment_of(offset - 1)
        return -1 if segment is None else segment.batches[segment.batch_of(offset - 1)].epoch

    def is_inside_batch(self, offset: int) -> bool:
        """Whether an offset is in a batch, but not its first."""
        segment = self.segment_of(offset)
        return segment is not None and segment.batches[segment.batch_of(offset)].base < offset

    def segment_of(self, offset: int) -> LogSegment | None:
        """Returns the segment that holds an offset."""
        at = bisect.bisect_right(self.segments, offset, key=lambda one: one.start) - 1
        return self.segments[at] if at >= 0 and offset < self.segments[at].end else None


class _Writer:
    """Appends batches at random and cuts segments."""

    def __init__(self, seed: int, topic: str) -> None:
        self._random = random.Random(seed)
        self._partition = TopicIdPartition(_TOPIC_ID, topic, seed)
        self._offset = 0
        self._epoch = self._random.randrange(3)
        self._open: dict[int, _Transaction] = {}
        self._ended: list[_Transaction] = []
        self._records: list[tuple[LogRecord, _Transaction | None]] = []
        self._segments: list[LogSegment] = []
        self._batches: list[LogBatch] = []
        self._data = bytearray()

    def write(self) -> ModelLog:
        for _ in range(self._random.randint(2, 6)):
            for _ in range(self._random.randint(4, 40)):
                self._append()
            self._roll()
        for producer in list(self._open):  # a segment with an undecided transaction does not reach the tier
            self._mark(producer)
        self._roll()
        aborted = {id(one) for one in self._ended if one.aborts}
        every = tuple(record for record, _ in self._records)
        committed = tuple(record for record, one in self._records if id(one) not in aborted)
        ended = sorted((one for one in self._ended if one.aborts), key=lambda one: one.last)
        return ModelLog(
            tuple(self._segments),
            {IsolationLevel.READ_UNCOMMITTED: every, IsolationLevel.READ_COMMITTED: committed},
            tuple((AbortedTransaction(one.producer, one.first), one.last) for one in ended),
            self._offset,
        )

    def _append(self) -> None:
        chance = self._random.random()
        if chance < 0.04:
            self._epoch += self._random.randint(1, 2)
        if chance < 0.6:
            self._produce(None)
        elif chance < 0.85 or not self._open:
            self._produce(self._random.randrange(_PRODUCERS))
        else:
            self._mark(self._random.choice(list(self._open)))

    def _produce(self, producer: int | None) -> None:
        count = self._random.randint(1, 5)
        values = [
            b"%d:" % (self._offset + delta) + self._random.randbytes(self._random.choice((8, 60, 900)))
            for delta in range(count)
        ]
        transaction = None
        if producer is not None:
            transaction = self._open.setdefault(producer, _Transaction(producer, self._offset))
        self._records += [
            (LogRecord(self._offset + delta, self._epoch, value), transaction) for delta, value in enumerate(values)
        ]
        self._add(
            batch(
                self._offset,
                [Rec(offset=delta, value=value) for delta, value in enumerate(values)],
                codec=self._random.choice(_CODECS),
                attributes=0 if producer is None else _TRANSACTIONAL,
                producer=-1 if producer is None else producer,
                epoch=self._epoch,
            ),
            count,
        )

    def _mark(self, producer: int) -> None:
        transaction = self._open.pop(producer)
        transaction.aborts, transaction.last = self._random.random() < 0.5, self._offset
        self._ended.append(transaction)
        marker = abort_marker if transaction.aborts else commit_marker
        self._add(marker(self._offset, producer, epoch=self._epoch), 1)

    def _add(self, data: bytes, count: int) -> None:
        self._batches.append(LogBatch(self._offset, self._offset + count - 1, self._epoch, len(self._data), len(data)))
        self._data += data
        self._offset += count

    def _roll(self) -> None:
        if not self._batches:
            return
        epochs: dict[int, int] = {}
        for one in self._batches:
            epochs.setdefault(one.epoch, one.base)
        number = len(self._segments)
        metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(self._partition, UUID(int=number + 1)),
            self._batches[0].base,
            self._batches[-1].last,
            2000,
            1,
            2000,
            tuple(EpochEntry(epoch, offset) for epoch, offset in epochs.items()),
            len(self._data),
        )
        self._segments.append(LogSegment(metadata, tuple(self._batches), bytes(self._data)))
        self._batches, self._data = [], bytearray()


@functools.lru_cache(maxsize=256)
def model_log(seed: int, topic: str = "orders") -> ModelLog:
    """Returns the log of a seed, which is also the number of its partition."""
    return _Writer(seed, topic).write()
