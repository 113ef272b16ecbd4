"""The transactions that are open at the end of the tier: from the last producer snapshot, or from the log.

A snapshot may be missing (topics of old brokers have none) or damaged, and a lineage may leave a segment before its end, where
no snapshot was taken. Then the batches after the last valid snapshot are read::

    snapshot n, valid                 the transactions open at the end of segment n
    segments n+1 to the tier's end    a transactional batch opens its producer's transaction, an end marker closes it

Without a valid snapshot the scan begins at the last unbroken chain of segments. A transaction that began before it either has
no record in the chain, or its first record there opens it. So the scan always gives a result, unless a batch cannot be read.

References: KIP-98; Kafka's ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction, in_offset_order
from kafka_remote_client.records import RemoteLogInputStream
from kafka_remote_client.records.batch import BatchHeader, BatchRules
from kafka_remote_client.remote_log.aborted_transactions import undecided_transactions
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment

__all__ = ["open_transactions_at_end"]

_PIECE = 4 << 20


def open_transactions_at_end(indexes: RemoteIndexCache, log: TieredLog) -> tuple[AbortedTransaction, ...]:
    """The transactions in the order of first offsets; empty for an empty tier. They are open, not aborted.

    Raises CorruptRecordError, UnsupportedFormatError or RemoteLogError if neither a snapshot nor the log is readable, and the
    errors of the store.
    """
    chain = _last_chain(log)
    end = log.end_offset()
    if (chain[-1].end if chain else None) != end:
        raise CorruptIndexError(f"{log.cache.topic_id_partition}: segments before the tier's end at {end} are missing")
    to_scan: list[TieredSegment] = []
    opened: dict[int, int] = {}
    for segment in reversed(chain):
        known = undecided_transactions(indexes, segment)
        if known is not None:
            opened = {one.producer_id: one.first_offset for one in known}
            break
        to_scan.append(segment)
    for segment in reversed(to_scan):
        for header in _batches(indexes, segment):
            if header.is_transactional and header.is_control:
                opened.pop(header.producer_id, None)
            elif header.is_transactional:
                opened.setdefault(header.producer_id, header.base_offset)
    return in_offset_order(AbortedTransaction(producer_id, first) for producer_id, first in opened.items())


def _last_chain(log: TieredLog) -> list[TieredSegment]:
    chain: list[TieredSegment] = []
    for segment in log.all_segments():
        if chain and chain[-1].end != segment.start:
            chain.clear()
        chain.append(segment)
    return chain


def _batches(indexes: RemoteIndexCache, segment: TieredSegment) -> Iterator[BatchHeader]:
    """The batches of ``[segment.start, segment.end)`` that have a producer (magic 2), each with its checksum verified."""
    log = indexes.log(segment.metadata)
    rules = BatchRules.of_segment(segment.metadata, allow_offset_gaps=True)
    position, wanted = 0, _PIECE
    while position < log.size:
        end = min(position + wanted, log.size)
        data = log.store.get_range(log.key, position, end)
        stream = RemoteLogInputStream(data, rules)
        for header in stream:
            if header.base_offset >= segment.end:
                return
            if header.magic >= 2 and header.last_offset >= segment.start:
                yield header
        if not stream.consumed and (end == log.size or stream.needed <= len(data) or position + len(data) < end):
            raise CorruptIndexError(f"{log.key}: no whole batch at {position} of {log.size} bytes")
        position += stream.consumed
        wanted = max(_PIECE, stream.needed)
