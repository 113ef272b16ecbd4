"""How many records batches hold, by their headers alone: the twin of the compiled kernel's function of the same name.

A header tells the number of records, and never ``lastOffsetDelta`` does: compaction leaves gaps, and batches without records.
Some batches have to be looked at, and stop the walk::

    magic 0 and 1                    their headers tell too little
    control batches                  their records are no application's; what they mark is in the records
    cut by a bound of the read       some of their records do not count
    the oldest time is asked for     baseTimestamp is that of the first record, which need not be the oldest one;
                                     with LogAppendTime all records have maxTimestamp

References: KIP-98; :mod:`~kafka_remote_client.records.batch`.
"""

from __future__ import annotations

from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import MAX_OFFSET, BatchList

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
    """Adds up the batches from ``start`` on, up to the first one before ``stop`` that has to be looked at.

    ``aborted`` sees each of them in its turn, as when records are read. Returns the number of that batch, or ``stop``; how many
    records there are in ``[fetch_offset, end_offset)``; and where there are any the first and last offset of their batches, and
    the oldest and youngest timestamp in milliseconds; the oldest one is only right if the caller asks for it.
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
