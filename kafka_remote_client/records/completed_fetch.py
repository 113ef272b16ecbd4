"""``CompletedFetch`` decodes the bytes of one grant, and checks what must hold across its ranges.

For each batch it does the same as Kafka's class, in the same order: verify, filter aborted transactions, return records from
the fetch offset on and never control records; an empty or filtered batch moves the position to its last offset + 1. It also
does what a broker does: batches that end before the fetch offset are skipped before the filter sees them, because an ABORT
marker among them would end a later transaction of its producer.

No checksum covers a batch's base offset. The batch before confirms it. The first batch of bytes that begin inside a segment has
none, so what else is known of its place has to confirm it: the next batch if its front is there, or the bounds of the grant.

References: KIP-98, KIP-1254, Kafka's CompletedFetch and FetchCollector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, IsolationLevel, RemoteLogSegmentMetadata
from kafka_remote_client.records._select import AbortedTransactionFilter, BatchList, ColumnBuilder, scan_batches
from kafka_remote_client.records.batch import (
    ANY_OFFSET,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    PREFIX_SIZE,
    BatchHeader,
    BatchPrefix,
    BatchRules,
)
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.faults import Fault, fault_error
from kafka_remote_client.records.tally import TallyBlock, TallyBuilder

__all__ = ["MAX_FEED", "CompletedFetch", "FetchState", "GrantBounds", "aborted_filter", "checked_cap"]

MAX_FEED = 1 << 30
"""The most bytes that one feed decodes, and the highest limit of a batch: positions in a block have 32 bits."""


@attrs.frozen
class GrantBounds:
    """What a grant says about the offsets of its bytes.

    No batch begins below ``first_offset``. With ``next_offset`` the grant has ``size`` bytes, and no batch that follows them
    begins below it; None = not known. The last batch may reach past it, because the list of aborted transactions ends there.
    """

    first_offset: int = 0
    size: int = 0
    next_offset: int | None = None


@attrs.define
class FetchState:
    """The state of a read: position, epoch, chain and filter. It takes batches in the order of positions and returns blocks.

    ``unneeded_bytes``: consumed bytes of batches that are completely before the fetch offset or after the end offset.
    ``expected_offset``: the base offset of the next batch, or ANY_OFFSET. ``must_cover``: the first batch may not begin after
    ``next_fetch_offset``, and ``bounds`` or the next batch confirms its offsets. ``block_bytes``: a block ends once its
    decompressed data and columns have as many bytes. ``tally``: blocks are tallies of their records, with or without the oldest
    timestamp; None = the records themselves.
    """

    rules: BatchRules
    next_fetch_offset: int
    aborted: AbortedTransactionFilter | None
    end_offset: int
    block_bytes: int
    expected_offset: int = ANY_OFFSET
    must_cover: bool = False
    bounds: GrantBounds = GrantBounds()
    last_leader_epoch: int = UNKNOWN_EPOCH
    needed: int = 0
    unneeded_bytes: int = 0
    tally: bool | None = None

    def feed(self, data: memoryview, *, copies: bool) -> tuple[RecordBlock, int]:
        """Decodes the whole batches at the front of ``data``; see :meth:`CompletedFetch.feed`."""
        batches = scan_batches(data[:MAX_FEED], self.expected_offset, self.rules)
        self.needed = batches.needed
        if len(batches) == 0 and batches.error is not None:
            error = batches.error
            if isinstance(error, CorruptRecordError) and error.offset is not None and error.offset < self.expected_offset:
                error.gap = False  # the batch repeats earlier offsets
            raise error
        if len(batches) and self.must_cover:
            self._check_first(data, batches)
        builder = self._builder(data, batches, copies=copies)
        before = self._bytes_before(batches)
        wanted = batches.count_below(self.end_offset)
        reached, fault = builder.append(0, wanted)
        if reached:
            self._advance(batches[reached - 1])
        done = len(batches) if reached == wanted else reached
        if done == 0 and fault:
            raise fault_error(fault, batches[0].position, batches[0].base_offset)
        consumed = 0
        if done:
            consumed = batches[done - 1].end
            after = consumed - batches[wanted].position if done > wanted else 0
            self.unneeded_bytes += min(before + after, consumed)
            self.expected_offset = batches[done - 1].last_offset + 1
            self.must_cover = False
        if isinstance(builder, TallyBuilder):
            return TallyBlock(builder.finish(), self.next_fetch_offset, self.last_leader_epoch), consumed
        return RecordBlock(builder.finish(), self.next_fetch_offset, self.last_leader_epoch), consumed

    def _check_first(self, data: memoryview, batches: BatchList) -> None:
        """Raises CorruptRecordError if the offsets of the first batch, which follows no other, are certainly wrong."""
        first = batches[0]
        if first.base_offset > self.next_fetch_offset:
            raise fault_error(Fault.CHAIN, first.position, first.base_offset)
        if first.base_offset < self.bounds.first_offset:
            raise _misplaced(first, f"no batch of the grant begins below offset {self.bounds.first_offset}")
        if len(batches) > 1:  # the walk over them has compared the two
            return
        following = self._offset_behind(data, first)
        if following is None or following == first.last_offset + 1:
            return
        if following <= first.last_offset or not self.rules.allow_offset_gaps:
            gap = following > first.last_offset
            raise _misplaced(first, f"it ends at {first.last_offset}, and offset {following} follows it", gap=gap)

    def _offset_behind(self, data: memoryview, first: BatchHeader) -> int | None:
        """The offset that follows the first batch; None = not known."""
        if len(data) - first.end >= PREFIX_SIZE:
            following = BatchPrefix.read(data, first.end)
            return following.base_offset if following.magic >= 2 else None  # others may have that of their last record
        end = self.bounds.next_offset if first.end == self.bounds.size else None
        return None if end is None or end <= first.last_offset else end

    def _builder(self, data: memoryview, batches: BatchList, *, copies: bool) -> ColumnBuilder | TallyBuilder:
        common: dict[str, Any] = {
            "fetch_offset": self.next_fetch_offset,
            "end_offset": self.end_offset,
            "max_decompressed_bytes": self.rules.max_decompressed_bytes,
            "aborted": self.aborted,
        }
        if self.tally is not None:
            return TallyBuilder(data, batches, oldest=self.tally, **common)
        arena = copies or batches.needs_arena()
        return ColumnBuilder(data, batches, arena=arena, block_bytes=self.block_bytes, **common)

    def _bytes_before(self, batches: BatchList) -> int:
        """Bytes of the batches at the front that end before the fetch offset: a range begins at an index entry."""
        for index in range(len(batches)):
            if batches[index].last_offset >= self.next_fetch_offset:
                return batches[index].position
        return batches[len(batches) - 1].end if len(batches) else 0

    def _advance(self, header: BatchHeader) -> None:
        """Moves the position behind the batch of ``header``, the last one that was processed."""
        if header.last_offset < self.next_fetch_offset:
            return
        self.next_fetch_offset = min(header.last_offset + 1, self.end_offset)
        self.last_leader_epoch = header.leader_epoch


class CompletedFetch:
    """Decodes the bytes of one grant into records. Feed ranges in the order of positions; do not share an object.

    ``metadata``: of the segment; every batch is checked against its offsets and leader epochs. ``aborted_transactions``: the
    grant's list, complete for every offset that is fed; READ_COMMITTED with None (not known) raises ValueError. ``end_offset``:
    records from it on are not returned; None = no such bound. ``at_segment_start``: the first byte fed is the first one of the
    segment, so no batch is before it; otherwise the first batch must begin at or before ``fetch_offset``.
    ``bounds``: what the grant says about the offsets of the bytes, which confirms those of the first batch.
    ``allow_offset_gaps``: the topic was compacted at some time, so batches may be missing. ``max_decompressed_bytes``: the most
    bytes of one batch after decompression, and of its columns (48 bytes a record); a block ends once both together have as
    many. ``tally``: each block is a :class:`~kafka_remote_client.records.tally.TallyBlock` without records, with the oldest
    timestamp if True; None = records.

    After an exception the state is that after the last delivered batch: the caller can feed the same bytes, fetched again.
    """

    def __init__(
        self,
        metadata: RemoteLogSegmentMetadata,
        fetch_offset: int,
        isolation_level: IsolationLevel,
        aborted_transactions: Sequence[AbortedTransaction] | None,
        *,
        end_offset: int | None = None,
        allow_offset_gaps: bool = False,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
        at_segment_start: bool = False,
        bounds: GrantBounds | None = None,
        tally: bool | None = None,
    ) -> None:
        fetch_offset = arguments.offset(fetch_offset, "fetch_offset")
        stop = MAX_OFFSET if end_offset is None else arguments.offset(end_offset, "end_offset")
        starts_at = metadata.start_offset if at_segment_start else ANY_OFFSET
        self._state = FetchState(
            BatchRules.of_segment(
                metadata,
                allow_offset_gaps=allow_offset_gaps,
                max_decompressed_bytes=checked_cap(max_decompressed_bytes),
            ),
            fetch_offset,
            aborted_filter(isolation_level, aborted_transactions),
            stop,
            block_bytes=max_decompressed_bytes,
            expected_offset=starts_at,
            must_cover=not at_segment_start,
            bounds=bounds or GrantBounds(),
            tally=tally,
        )

    @property
    def next_fetch_offset(self) -> int:
        """The offset after everything delivered, skipped or filtered so far."""
        return self._state.next_fetch_offset

    @property
    def last_leader_epoch(self) -> int:
        """Leader epoch of the last batch that moved the position, -1 before the first."""
        return self._state.last_leader_epoch

    @property
    def needed(self) -> int:
        """Bytes of the batch that was truncated in the last feed, so that a caller can widen its range; 0 = not known."""
        return self._state.needed

    @property
    def unneeded_bytes(self) -> int:
        """Bytes consumed so far of batches that are completely before the fetch offset or after the end offset."""
        return self._state.unneeded_bytes

    def feed(self, data: memoryview | bytes | bytearray, *, borrow: bool = False) -> tuple[RecordBlock, int]:
        """Decodes the whole batches at the front of ``data``; returns their records and the number of bytes consumed.

        The caller keeps a truncated batch and feeds it again with the bytes that follow. 0 bytes consumed means that ``data``
        has no whole batch. A block may end before ``data`` does, if much was compressed or records are tiny: feed the rest
        until 0 bytes are consumed.

        The block refers to ``data`` if that is ``bytes``. Other memory is copied, unless ``borrow`` promises that it does not
        change while the block exists.

        Raises CorruptRecordError or UnsupportedFormatError if the first batch that was not delivered is invalid. Valid batches
        before it are returned first; the next feed, of the rest, raises.
        """
        view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
        return self._state.feed(view, copies=not borrow and not isinstance(data, bytes))


def _misplaced(batch: BatchHeader, why: str, *, gap: bool = False) -> CorruptRecordError:
    message = f"record batch at position {batch.position} with base offset {batch.base_offset}: {why}"
    return CorruptRecordError(message, offset=batch.base_offset, position=batch.position, gap=gap)


def aborted_filter(
    isolation_level: IsolationLevel, aborted_transactions: Sequence[AbortedTransaction] | None
) -> AbortedTransactionFilter | None:
    """The filter for an isolation level; None = read_uncommitted.

    Raises ValueError for READ_COMMITTED without a list, and for an invalid isolation level.
    """
    if arguments.isolation_level(isolation_level) is not IsolationLevel.READ_COMMITTED:
        return None
    if aborted_transactions is None:
        raise ValueError("read_committed needs the list of aborted transactions; none was given")
    return AbortedTransactionFilter(aborted_transactions)


def checked_cap(max_decompressed_bytes: int) -> int:
    """``max_decompressed_bytes`` itself. Raises ValueError outside [1, 1 GiB]."""
    return arguments.whole(max_decompressed_bytes, "max_decompressed_bytes", 1, MAX_FEED)
