"""The aborted transactions that a reader of a range of offsets needs, complete or with the word that it is not.

A reader of ``[a, b)`` needs exactly the aborted transactions that began below ``b`` and whose ABORT marker lies at or after
``a``. Markers may lie in later segments, or still on the broker's disk. The search walks the segments from the one that holds
``a`` on and stops as soon as nothing that follows can matter:

- an index entry says so: its last stable offset is at or above ``b``, so all that began below ``b`` was decided before it;
- the segment's producer snapshot says so: no transaction that began below ``b`` is open where the segment ends.

Reached the tier's end without either, a marker may still be local, and only the broker knows.

References: KIP-98; Kafka's RemoteLogManager.collectAbortedTransactions, TransactionIndex.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import RemoteLogError
from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.prefetch import Prefetch
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.remote_log.transaction_index import TransactionIndex

__all__ = ["CollectedTransactions", "collect_aborted_transactions", "is_decided_within", "undecided_transactions"]


@attrs.frozen
class CollectedTransactions:
    """``searched_end`` is the first offset that was not searched: the end of the unbroken tier where it is not complete."""

    aborted: tuple[AbortedTransaction, ...]
    is_complete: bool
    searched_end: int


@attrs.frozen
class _SegmentSearch:
    """What one segment tells. ``is_complete``: no other has to be asked. ``undecided``: as undecided_transactions has it."""

    aborted: frozenset[AbortedTransaction]
    is_complete: bool
    undecided: tuple[AbortedTransaction, ...] | None = None


def collect_aborted_transactions(
    indexes: RemoteIndexCache,
    log: TieredLog,
    fetch_offset: int,
    upper_bound: int,
    tail: TransactionIndex | None = None,
    prefetch: Prefetch | None = None,
) -> CollectedTransactions:
    """What a reader of ``[fetch_offset, upper_bound)`` needs, in the order of first offsets.

    ``tail`` is the transaction index of the segments after the tier's end, if known. ``prefetch`` reads the files
    of several segments at once. Raises CorruptIndexError, or what the store raises.
    """
    found: set[AbortedTransaction] = set()
    undecided: tuple[AbortedTransaction, ...] | None = None
    end = fetch_offset
    for segment in (prefetch or Prefetch(indexes)).of_transactions(log.segments_from(fetch_offset)):
        end = segment.end
        search = _search(indexes, segment, fetch_offset, upper_bound)
        found |= search.aborted
        undecided = search.undecided
        if search.is_complete:
            return CollectedTransactions(_ordered(found), is_complete=True, searched_end=end)
    if tail is None:
        return CollectedTransactions(_ordered(found), is_complete=False, searched_end=end)
    result = tail.collect_aborted_txns(fetch_offset, upper_bound)
    found.update(entry.transaction for entry in result.aborted_transactions)
    decided = {entry.transaction for entry in tail}
    complete = result.is_complete or (
        undecided is not None and _none_below(tuple(t for t in undecided if t not in decided), upper_bound)
    )
    return CollectedTransactions(_ordered(found), is_complete=complete, searched_end=end)


def is_decided_within(indexes: RemoteIndexCache, segment: TieredSegment, fetch_offset: int, upper_bound: int) -> bool:
    """Whether the search for a reader of ``[fetch_offset, upper_bound)`` ends in ``segment``, which holds the first of them.

    Raises as :func:`collect_aborted_transactions`.
    """
    return _search(indexes, segment, fetch_offset, upper_bound).is_complete


def undecided_transactions(indexes: RemoteIndexCache, segment: TieredSegment) -> tuple[AbortedTransaction, ...] | None:
    """The transactions that are open where ``segment`` ends; None = not known.

    Not known where the lineage leaves the segment before its end, and where the snapshot is missing or damaged: then others
    have to be asked, nothing is wrong with the records.
    """
    if not segment.is_whole:
        return None
    try:
        return indexes.open_transactions(segment.metadata)
    except RemoteLogError:
        return None


def _search(indexes: RemoteIndexCache, segment: TieredSegment, fetch_offset: int, upper_bound: int) -> _SegmentSearch:
    result = _of_segment(indexes, segment).collect_aborted_txns(fetch_offset, upper_bound)
    aborted = frozenset(entry.transaction for entry in result.aborted_transactions)
    if result.is_complete:
        return _SegmentSearch(aborted, is_complete=True)
    undecided = undecided_transactions(indexes, segment)
    return _SegmentSearch(aborted, undecided is not None and _none_below(undecided, upper_bound), undecided)


def _of_segment(indexes: RemoteIndexCache, segment: TieredSegment) -> TransactionIndex:
    index = indexes.transaction_index(segment.metadata)
    if segment.is_whole:
        return index
    return TransactionIndex([entry for entry in index if entry.last_offset < segment.end])


def _none_below(transactions: tuple[AbortedTransaction, ...], upper_bound: int) -> bool:
    return all(transaction.first_offset >= upper_bound for transaction in transactions)


def _ordered(transactions: set[AbortedTransaction]) -> tuple[AbortedTransaction, ...]:
    return tuple(sorted(transactions, key=lambda t: (t.first_offset, t.producer_id)))
