"""``CompletedFetch``: one grant's bytes to records, with everything that must hold across its ranges.

It does per batch what Kafka's class of this name does, in its order: next batch, verify, aborted-transaction filter, records
from the fetch offset on, control batches never returned; an empty or completely filtered batch moves the position to its last
offset + 1. What a broker does for its clients comes on top: batches that end before the fetch offset are skipped before the
filter sees them, because an ABORT marker among them would end a transaction that is still to come.

References: KIP-98, KIP-1254, Kafka's CompletedFetch and FetchCollector.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import CorruptRecordError, DirectFetchError
from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, IsolationLevel, RemoteLogSegmentMetadata
from kafka_remote_client.records._select import AbortedTransactionFilter, BatchList, ColumnBuilder, scan_batches
from kafka_remote_client.records.batch import ANY_OFFSET, DEFAULT_MAX_DECOMPRESSED_BYTES, MAX_OFFSET, BatchHeader, BatchRules
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.faults import Fault, fault_error
from kafka_remote_client.records.tally import TallyBlock, TallyBuilder

__all__ = ["MAX_FEED", "CompletedFetch", "FetchState", "aborted_filter", "checked_cap"]

MAX_FEED = 1 << 30
"""Positions in a block are 32 bits wide: so much input is looked at in one go, and no cap on a batch may be larger."""


@attrs.define
class FetchState:
    """Where a read stands: position, epoch, chain and filter. Batches go in, in position order; blocks come out.

    ``unneeded_bytes`` counts the consumed bytes of batches that are completely before the fetch offset or after the end offset.

    ``expected_offset`` is where the next batch has to begin, ANY_OFFSET where that is not known. ``must_cover`` = the first
    batch may not begin after ``next_fetch_offset``. A block ends early once its memory reaches ``block_bytes``: decompressed
    data and columns.

    ``tally``: blocks are tallies of their records, with or without the oldest timestamp; ``None`` = the records themselves.
    """

    rules: BatchRules
    next_fetch_offset: int
    aborted: AbortedTransactionFilter | None
    end_offset: int
    block_bytes: int
    expected_offset: int = ANY_OFFSET
    must_cover: bool = False
    last_leader_epoch: int = UNKNOWN_EPOCH
    needed: int = 0
    unneeded_bytes: int = 0
    tally: bool | None = None

    def feed(self, data: memoryview, *, copies: bool) -> tuple[RecordBlock, int]:
        """Decodes the whole batches at the front of ``data``; see :meth:`CompletedFetch.feed`."""
        batches = scan_batches(data[:MAX_FEED], self.expected_offset, self.rules)
        self.needed = batches.needed
        if len(batches) == 0 and batches.error is not None:
            raise self._judged(batches.error)
        if len(batches) and self.must_cover and batches[0].base_offset > self.next_fetch_offset:
            raise fault_error(Fault.CHAIN, batches[0].position, batches[0].base_offset)
        builder = self._tallies(data, batches) or ColumnBuilder(
            data,
            batches,
            arena=copies or batches.needs_arena(),
            fetch_offset=self.next_fetch_offset,
            end_offset=self.end_offset,
            max_decompressed_bytes=self.rules.max_decompressed_bytes,
            block_bytes=self.block_bytes,
            aborted=self.aborted,
        )
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
        return self._block(builder), consumed

    def _judged(self, error: DirectFetchError) -> DirectFetchError:
        """The error of the next batch. One that begins before its place, among offsets that came already, follows no gap."""
        if isinstance(error, CorruptRecordError) and error.offset is not None and error.offset < self.expected_offset:
            error.gap = False
        return error

    def _tallies(self, data: memoryview, batches: BatchList) -> TallyBuilder | None:
        if self.tally is None:
            return None
        return TallyBuilder(
            data,
            batches,
            fetch_offset=self.next_fetch_offset,
            end_offset=self.end_offset,
            max_decompressed_bytes=self.rules.max_decompressed_bytes,
            aborted=self.aborted,
            oldest=self.tally,
        )

    def _block(self, builder: ColumnBuilder | TallyBuilder) -> RecordBlock:
        if isinstance(builder, TallyBuilder):
            return TallyBlock(builder.finish(), self.next_fetch_offset, self.last_leader_epoch)
        return RecordBlock(builder.finish(), self.next_fetch_offset, self.last_leader_epoch)

    def _bytes_before(self, batches: BatchList) -> int:
        """Bytes of the batches at the front that end before the fetch offset: what an index entry points to begins earlier."""
        for index in range(len(batches)):
            if batches[index].last_offset >= self.next_fetch_offset:
                return batches[index].position
        return batches[len(batches) - 1].end if len(batches) else 0

    def _advance(self, header: BatchHeader) -> None:
        """``header`` is the last batch that is done, records or none."""
        if header.last_offset < self.next_fetch_offset:
            return
        self.next_fetch_offset = min(header.last_offset + 1, self.end_offset)
        self.last_leader_epoch = header.leader_epoch


class CompletedFetch:
    """Turns the bytes of one grant into records. Ranges are fed in position order; one object per grant, never shared.

    ``metadata`` is the segment's; every batch is checked against its offsets and leader epochs.
    ``aborted_transactions`` is the grant's list, complete for every offset that is fed; READ_COMMITTED with ``None`` (not
    known) raises ValueError. Records from ``end_offset`` on are not returned (``None``: no such bound).
    ``at_segment_start`` = the first byte fed is the segment's first one, which proves that nothing lies before its first
    batch; otherwise the first batch has to begin at or before ``fetch_offset``. ``allow_offset_gaps`` = the topic was
    compacted at some time, so batches may be missing between others. ``max_decompressed_bytes`` bounds what one batch
    decompresses to and the memory of its columns (48 bytes a record); a block ends once both together have reached it.
    ``tally``: blocks are each a :class:`~kafka_remote_client.records.tally.TallyBlock` without records; whether it tells the
    oldest timestamp. ``None`` = records.

    After an exception the state is that after the last batch delivered: the same bytes, fetched again from there, go on.
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
        """Size in bytes of the batch that the last feed found cut off, so that a caller can widen its range; 0 = not known."""
        return self._state.needed

    @property
    def unneeded_bytes(self) -> int:
        """Consumed bytes so far of batches that are completely before the fetch offset, or after the end offset."""
        return self._state.unneeded_bytes

    def feed(self, data: memoryview | bytes | bytearray, *, borrow: bool = False) -> tuple[RecordBlock, int]:
        """Decodes the whole batches at the front of ``data``; returns their records and how many bytes they took.

        A batch that is cut off stays with the caller, who puts the bytes that follow after it. Nothing consumed and no
        exception means that ``data`` holds no whole batch. When much was compressed, or records are tiny, a block ends before
        ``data`` does: feed the rest until nothing is consumed.

        The block refers to ``data`` where that is ``bytes``. Memory that its owner could change is copied, unless
        ``borrow`` promises that it stays as it is for as long as the block lives.

        Raises CorruptRecordError or UnsupportedFormatError when the first batch not yet delivered is bad. Good batches
        before a bad one are returned first; the next feed, of the rest, raises.
        """
        view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
        return self._state.feed(view, copies=not borrow and not isinstance(data, bytes))


def aborted_filter(
    isolation_level: IsolationLevel, aborted_transactions: Sequence[AbortedTransaction] | None
) -> AbortedTransactionFilter | None:
    """The filter that an isolation level asks for.

    Raises ValueError for READ_COMMITTED without a list, and for what is no isolation level.
    """
    if arguments.isolation_level(isolation_level) is not IsolationLevel.READ_COMMITTED:
        return None
    if aborted_transactions is None:
        raise ValueError("read_committed needs the list of aborted transactions; none was given")
    return AbortedTransactionFilter(aborted_transactions)


def checked_cap(max_decompressed_bytes: int) -> int:
    """``max_decompressed_bytes`` itself. Raises ValueError outside [1, 1 GiB]."""
    return arguments.whole(max_decompressed_bytes, "max_decompressed_bytes", 1, MAX_FEED)
