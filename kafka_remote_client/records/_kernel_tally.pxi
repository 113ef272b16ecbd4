# Part of _kernel.pyx: counts records by their headers alone, the twin of header_tally.py.


def tally_headers(BatchList batches, int64_t start, int64_t stop, int64_t fetch_offset, int64_t end_offset,
                  bint oldest_wanted, AbortedTransactionFilter aborted):
    """``header_tally.tally_headers`` without the interpreter's lock."""
    cdef Batch *batch
    cdef int64_t records = 0, first = -1, last = -1, oldest = 9223372036854775807, youngest = MIN_OFFSET
    with nogil:
        while start < stop:
            batch = &batches.batches[start]
            if batch.last_offset >= fetch_offset:
                if (batch.magic < 2 or batch.attributes & CONTROL or batch.base_offset < fetch_offset
                        or batch.last_offset >= end_offset or (oldest_wanted and not batch.attributes & LOG_APPEND_TIME)):
                    break
                if aborted is None or batch.producer_id < 0 or not aborted.dropped(batch, False):
                    if batch.record_count:
                        if records == 0:
                            first = batch.base_offset
                        last = batch.last_offset
                        records += batch.record_count
                        oldest = min(oldest, batch.max_timestamp)
                        youngest = max(youngest, batch.max_timestamp)
            start += 1
    return start, records, first, last, oldest, youngest
