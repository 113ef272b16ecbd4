"""The transactions that are open where the tier ends: by the last producer snapshot, else by reading the log.

A snapshot may be missing (topics of old brokers have none) or damaged, and a lineage may leave a segment before its end, where
no snapshot was taken. Then the batches themselves tell, from the last segment whose snapshot is sound on::

    snapshot n   sound                    the transactions open at the end of segment n
    segments n+1 ... the tier's end       a transactional batch opens its producer's transaction, an end marker closes it

Without any sound snapshot the scan begins where the last unbroken chain of segments does. What began before that has no record
there, or shows itself by its first one; so the scan always decides, unless a batch cannot be read.

References: KIP-98; Kafka's ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.records import RemoteLogInputStream
from kafka_remote_client.records.batch import BatchHeader, BatchRules
from kafka_remote_client.remote_log.aborted_transactions import undecided_transactions
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment

__all__ = ["open_transactions_at_end"]

_PIECE = 4 << 20


def open_transactions_at_end(indexes: RemoteIndexCache, log: TieredLog) -> tuple[AbortedTransaction, ...]:
    """Producer and first offset of each, in the order of these offsets; empty for an empty tier.

    They are not aborted (yet); the type only says what it holds. Raises CorruptRecordError, UnsupportedFormatError or
    RemoteLogError when neither a snapshot nor the log tells, and what the store raises.
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
    found = (AbortedTransaction(producer_id, first) for producer_id, first in opened.items())
    return tuple(sorted(found, key=lambda one: (one.first_offset, one.producer_id)))


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
