"""``read_batches`` decodes a buffer of batches into one block, for tools and tests without a segment's metadata."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_remote_client import arguments
from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, BatchRules
from kafka_remote_client.records.block import RecordBlock
from kafka_remote_client.records.completed_fetch import MAX_FEED, FetchState, aborted_filter, checked_cap
from kafka_remote_client.records.faults import Fault, fault_error

__all__ = ["read_batches"]


def read_batches(
    buffer: bytes | bytearray | memoryview,
    *,
    fetch_offset: int = 0,
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    aborted_transactions: Sequence[AbortedTransaction] = (),
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> RecordBlock:
    """All records from ``fetch_offset`` on in the whole batches of ``buffer``, at most 1 GiB, without a truncated last batch.

    The offsets of batches must rise and may have gaps. Control records are never returned. READ_COMMITTED drops the
    ``aborted_transactions``, which must be complete for the buffer. A ``bytearray`` or ``memoryview`` must not change while the
    block exists.

    Raises CorruptRecordError or UnsupportedFormatError for any invalid batch, UnsupportedFormatError also if all batches
    together decompress to more than one block can hold (1 GiB), ValueError for a buffer or a limit that is too large, for an
    invalid offset, and for an invalid isolation level.
    """
    fetch_offset = arguments.offset(fetch_offset, "fetch_offset")
    view = memoryview(buffer).cast("B")
    if len(view) > MAX_FEED:
        raise ValueError(f"the buffer must have at most {MAX_FEED} bytes, not {len(view)}")
    state = FetchState(
        BatchRules(max_decompressed_bytes=checked_cap(max_decompressed_bytes)),
        fetch_offset,
        aborted_filter(isolation_level, aborted_transactions),
        MAX_OFFSET,
        block_bytes=MAX_FEED,
    )
    block, consumed = state.feed(view, copies=False)
    if consumed and consumed < len(view):
        rest, more = state.feed(view[consumed:], copies=False)
        if more:
            raise fault_error(Fault.TOO_LARGE, consumed, rest.next_offset)
    return block
