"""The number of records of batches, from their headers alone: the twin of the compiled kernel's function of the same name.

``recordCount`` is the number of records; ``lastOffsetDelta`` is not, because compaction leaves gaps and empty batches.
The walk stops at a batch that must be decoded::

    magic 0 and 1                    the header has no record count
    control batch                    applications do not get its records, and the records say what it marks
    part of it is outside the read   some of its records do not count
    the oldest time is requested     baseTimestamp is that of the first record, which may not be the oldest one;
                                     with LogAppendTime all records have maxTimestamp

References: KIP-98; :mod:`~kafka_remote_client.records.batch`.
"""

from __future__ import annotations

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import BatchList

__all__ = ["tally_headers"]


def tally_headers(
    batches: BatchList,
    start: int,
    stop: int,
    fetch_offset: int,
    end_offset: int,
    oldest_wanted: bool,
    aborted: AbortedTransactionFilter | None,
) -> tuple[int, int, int, int, int, int]:
    """Adds up the batches from ``start`` to the first one below ``stop`` that must be decoded.

    ``aborted`` is advanced by each batch. Returns the index of that batch, or ``stop``; the number of records in
    ``[fetch_offset, end_offset)``; and, if there are any, first and last offset of their batches and oldest and youngest
    timestamp in milliseconds. The oldest timestamp is right only with ``oldest_wanted``.
    """
    records, first, last = 0, -1, -1
    oldest, youngest = MAX_OFFSET, -MAX_OFFSET - 1
    while start < stop:
        header = batches[start]
        if header.last_offset >= fetch_offset:
            if (
                header.magic < 2
                or header.is_control
                or header.base_offset < fetch_offset
                or header.last_offset >= end_offset
                or (oldest_wanted and not header.is_log_append_time)
            ):
                break
            dropped = aborted is not None and header.producer_id >= 0 and aborted.drops(header, is_abort_marker=False)
            if header.record_count and not dropped:
                first = first if records else header.base_offset
                last = header.last_offset
                records += header.record_count
                oldest, youngest = min(oldest, header.max_timestamp), max(youngest, header.max_timestamp)
        start += 1
    return start, records, first, last, oldest, youngest
