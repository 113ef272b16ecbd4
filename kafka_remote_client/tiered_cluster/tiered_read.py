"""A leader's answer to one partition of a Fetch, from the tier or from its own log, as a function.

::

    offset                        answer
    below the log start, or       OFFSET_OUT_OF_RANGE
      past the end offset
    from the local log start on   whole batches of one local segment, at least one, below the end of the isolation level
    in the tier                   the first batch that reaches the offset, whole, then bytes of its segment up to the limit
    in no segment of the tier     OFFSET_OUT_OF_RANGE

Where a segment of the tier has no batch for the offset, which compaction and deletions cause, the next segments are searched.
If none has one, the answer is empty. Without ``min_one_message``, a first batch above the limit gives an empty answer, with no
list of aborted transactions. The tail of an answer may be a part of a batch.

Aborted transactions are read from the transaction indexes, of the segment and of those that follow in both tiers, until an
entry's last stable offset shows that all are known. The answer's upper bound is an offset of the offset index, so the list
may hold more than the answer needs.

References: KIP-405; Kafka's RemoteLogManager (read, collectAbortedTransactions), LocalLog.read, OffsetIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from enum import Enum
from typing import TypeAlias

import attrs

from kafka_remote_client.model import AbortedTransaction, IsolationLevel, RemoteLogSegmentMetadata
from kafka_remote_client.tiered_cluster import epochs, indexes
from kafka_remote_client.tiered_cluster.batches import Batch
from kafka_remote_client.tiered_cluster.error_codes import ErrorCode
from kafka_remote_client.tiered_cluster.indexes import AbortedEntry
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_cluster.stored_batches import stored_batches

__all__ = ["FetchAnswer", "SpecialAnswer", "StoredObject", "read", "special_answer"]

_OFFSET_ENTRY = struct.Struct(">ii")
_ABORTED_ENTRY = struct.Struct(">hqqqq")

StoredObject: TypeAlias = Callable[[RemoteLogSegmentMetadata, FileKind], bytes]
"""An object of the tier. It is not asked for the transaction index of a segment that says that it has none."""


@attrs.frozen
class FetchAnswer:
    """``aborted``: by first offset; ``None`` under READ_UNCOMMITTED, and where Kafka sends no list."""

    records: bytes = attrs.field(default=b"", repr=False)
    aborted: tuple[AbortedTransaction, ...] | None = None
    error: ErrorCode = ErrorCode.NONE


class SpecialAnswer(Enum):
    """Why a broker answers without reading the tier."""

    QUEUE_FULL = "queue-full"
    """``remote.log.reader.max.pending.tasks`` reads wait."""
    QUOTA_EXCEEDED = "quota-exceeded"
    """``remote.log.manager.fetch.max.bytes.per.second``"""
    TIMED_OUT = "timed-out"
    """The read takes longer than ``remote.fetch.max.wait.ms``."""


def special_answer(why: SpecialAnswer) -> FetchAnswer:
    """An error, or an answer without records and without a list, also under READ_COMMITTED: it says nothing about the log."""
    full = why is SpecialAnswer.QUEUE_FULL
    return FetchAnswer(error=ErrorCode.UNKNOWN_SERVER_ERROR if full else ErrorCode.NONE)


def read(
    log: PartitionLog,
    remote: RemoteSegments,
    stored: StoredObject,
    offset: int,
    max_bytes: int,
    isolation: IsolationLevel,
    *,
    min_one_message: bool = True,
) -> FetchAnswer:
    """What a consumer gets that asks for ``offset``. ``remote`` and ``stored``: the tier."""
    if not log.log_start <= offset <= log.end_offset:
        return FetchAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    committed = isolation is IsolationLevel.READ_COMMITTED
    if offset >= log.local_log_start:
        return _read_local(log, offset, max_bytes, committed, min_one_message)
    first = remote.serving(epochs.epoch_for_offset(log.lineage, offset), offset)
    if first is None:
        return FetchAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    for segment in _from(first, log, remote):
        at, data = 0, stored(segment, FileKind.LOG)
        entries = _offset_entries(segment, stored)
        at = max((position for last, position in entries if last <= offset), default=0)
        for batch in stored_batches(data[at:]):
            if batch.last_offset < offset:
                at += batch.size
                continue
            if not min_one_message and batch.size > max_bytes:
                return FetchAnswer()
            records = data[at : at + max(max_bytes, batch.size)]
            upper = next((last for last, position in entries if position >= at + len(records)), segment.end_offset + 1)
            found = _aborted(_remote_entries(segment, log, remote, stored), batch.base_offset, upper) if committed else None
            return FetchAnswer(records, found)
    return FetchAnswer(aborted=() if committed else None)


def _from(segment: RemoteLogSegmentMetadata, log: PartitionLog, remote: RemoteSegments) -> Iterator[RemoteLogSegmentMetadata]:
    """A segment and those that follow it in the tier."""
    following: RemoteLogSegmentMetadata | None = segment
    while following is not None:
        yield following
        offset = following.end_offset + 1
        following = remote.serving(epochs.epoch_for_offset(log.lineage, offset), offset)


def _offset_entries(segment: RemoteLogSegmentMetadata, stored: StoredObject) -> list[tuple[int, int]]:
    """Offset and position of each entry of a segment's offset index."""
    index = stored(segment, FileKind.OFFSET_INDEX)
    return [(segment.start_offset + relative, position) for relative, position in _OFFSET_ENTRY.iter_unpack(index)]


def _remote_entries(
    segment: RemoteLogSegmentMetadata, log: PartitionLog, remote: RemoteSegments, stored: StoredObject
) -> Iterator[AbortedEntry]:
    for one in _from(segment, log, remote):
        if not one.txn_index_empty:
            for fields in _ABORTED_ENTRY.iter_unpack(stored(one, FileKind.TRANSACTION_INDEX)):
                yield AbortedEntry(*fields[1:])
    for local in log.segments:
        yield from local.aborted


def _aborted(entries: Iterator[AbortedEntry], start: int, upper: int) -> tuple[AbortedTransaction, ...]:
    """The transactions with records in ``[start, upper)``. Both tiers may name the same one."""
    found = set()
    for entry in entries:
        if entry.last_offset >= start and entry.first_offset < upper:
            found.add(AbortedTransaction(entry.producer_id, entry.first_offset))
        if entry.last_stable_offset >= upper:
            break
    return tuple(sorted(found, key=lambda one: (one.first_offset, one.producer_id)))


def _read_local(log: PartitionLog, offset: int, max_bytes: int, committed: bool, min_one_message: bool) -> FetchAnswer:
    end = log.last_stable_offset if committed else log.high_watermark
    none: tuple[AbortedTransaction, ...] | None = () if committed else None
    for number, segment in enumerate(log.segments):
        batches = [batch for batch in segment.batches if batch.last_offset >= offset and batch.base_offset < end]
        if batches:
            records = b"".join(batch.data for batch in batches)
            size = max(max_bytes, batches[0].size) if min_one_message else max_bytes
            records = records[:size]
            upper = _upper(segment.batches, log.config.index_interval_bytes, batches[0], len(records))
            upper = upper or (log.segments[number + 1].base_offset if number + 1 < len(log.segments) else log.end_offset)
            later = (entry for one in log.segments[number:] for entry in one.aborted)
            return FetchAnswer(records, _aborted(later, offset, upper) if committed else None)
    return FetchAnswer(aborted=none)


def _upper(batches: tuple[Batch, ...], interval: int, first: Batch, size: int) -> int | None:
    """The offset of the first index entry at or after the end of what is read."""
    end = sum(batch.size for batch in batches[: batches.index(first)]) + size
    return next((last for last, position in indexes.offset_index_entries(batches, interval) if position >= end), None)
