"""``read_batches``: a buffer of batches to one block, for tools and tests that know nothing of the segment around it."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_remote_client import arguments
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES, MAX_OFFSET, BatchRules
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
    """All records from ``fetch_offset`` on in the whole batches of ``buffer``, at most 1 GiB; a cut-off last batch is left out.

    Batches have to rise in offset and may leave gaps. Control records are never returned. READ_COMMITTED drops what
    ``aborted_transactions`` names, which has to be complete for the buffer. A ``bytearray`` or ``memoryview`` must not change
    while the block lives.

    Raises CorruptRecordError or UnsupportedFormatError if any batch is bad, UnsupportedFormatError also when all batches
    together decompress to more than one block can hold (1 GiB), ValueError for a buffer or a cap that is too large, and for
    what is no offset or no isolation level.
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
