"""The records of a batch in the format of magic 2: decompressed, and converted from older formats, in an arena."""

from __future__ import annotations

from kafka_remote_client.records.batch import BATCH_OVERHEAD, BatchHeader
from kafka_remote_client.records.compression import Arena, decompress_into
from kafka_remote_client.records.legacy import as_v2_records, read_entry

__all__ = ["copy_records"]


def copy_records(data: memoryview, header: BatchHeader, arena: Arena, limit: int) -> int:
    """Appends the records of the batch at ``header`` in ``data`` to ``arena``; returns their bytes there. Raises BatchFault."""
    if header.magic == 2 and header.codec:
        return decompress_into(arena, header.codec, data[header.position + BATCH_OVERHEAD : header.end], limit)
    if header.magic == 2:
        records = data[header.position + BATCH_OVERHEAD : header.end]
    else:
        records = memoryview(as_v2_records(read_entry(data[header.position : header.end], limit)))
    arena.reserve(len(records))[:] = records
    arena.keep(len(records))
    return len(records)
