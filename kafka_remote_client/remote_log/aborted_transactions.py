"""The aborted transactions that a reader of a range of offsets needs, and whether the list is complete.

A reader of ``[a, b)`` needs the aborted transactions that began below ``b`` and have their ABORT marker at or after ``a``.
Markers may be in later segments, or only in the broker's local log. The search walks the segments, from the one that holds
``a``, and stops if later segments cannot change the result:

- an index entry has a last stable offset at or above ``b``, so all transactions that began below ``b`` ended before it;
- the segment's producer snapshot has no open transaction that began below ``b``.

If the search reaches the end of the tier without either, a marker may be in the local log: only the broker has it.

References: KIP-98; Kafka's RemoteLogManager.collectAbortedTransactions, TransactionIndex.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import RemoteLogError
from kafka_remote_client.model import UNKNOWN_EPOCH, AbortedTransaction, in_offset_order
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.prefetch import Prefetch
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.remote_log.transaction_index import TransactionIndex

__all__ = ["CollectedTransactions", "collect_aborted_transactions", "is_decided_within", "undecided_transactions"]


@attrs.frozen
class CollectedTransactions:
    """The result. ``searched_end``: the first offset that was not searched; if incomplete, the end of the unbroken tier.

    ``searched_epoch``: the leader epoch of the record before it, as the metadata of its segment have it.
    """

    aborted: tuple[AbortedTransaction, ...]
    is_complete: bool
    searched_end: int
    searched_epoch: int


@attrs.frozen
class _SegmentSearch:
    """The result of one segment. ``is_complete``: no other segment is needed. ``undecided``: see undecided_transactions."""

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
    """The transactions that a reader of ``[fetch_offset, upper_bound)`` needs, in the order of first offsets.

    ``tail``: the transaction index of the segments after the tier's end, if known. ``prefetch`` reads the files of several
    segments at once. Raises CorruptIndexError, and the errors of the store.
    """
    found: set[AbortedTransaction] = set()
    undecided: tuple[AbortedTransaction, ...] | None = None
    end, epoch = fetch_offset, UNKNOWN_EPOCH
    for segment in (prefetch or Prefetch(indexes)).of_transactions(log.segments_from(fetch_offset)):
        end, epoch = segment.end, segment.metadata.epoch_for_offset(segment.end - 1)
        search = _search(indexes, segment, fetch_offset, upper_bound)
        found |= search.aborted
        undecided = search.undecided
        if search.is_complete:
            return CollectedTransactions(in_offset_order(found), is_complete=True, searched_end=end, searched_epoch=epoch)
    if tail is None:
        return CollectedTransactions(in_offset_order(found), is_complete=False, searched_end=end, searched_epoch=epoch)
    result = tail.collect_aborted_txns(fetch_offset, upper_bound)
    found.update(entry.transaction for entry in result.aborted_transactions)
    decided = {entry.transaction for entry in tail}
    complete = result.is_complete or (
        undecided is not None and _none_below(tuple(t for t in undecided if t not in decided), upper_bound)
    )
    return CollectedTransactions(in_offset_order(found), is_complete=complete, searched_end=end, searched_epoch=epoch)


def is_decided_within(indexes: RemoteIndexCache, segment: TieredSegment, fetch_offset: int, upper_bound: int) -> bool:
    """Whether the search for a reader of ``[fetch_offset, upper_bound)`` ends in ``segment``, which holds the first of them.

    Raises as :func:`collect_aborted_transactions`.
    """
    return _search(indexes, segment, fetch_offset, upper_bound).is_complete


def undecided_transactions(indexes: RemoteIndexCache, segment: TieredSegment) -> tuple[AbortedTransaction, ...] | None:
    """The transactions that are open at the end of ``segment``; None = not known.

    They are unknown if the lineage leaves the segment before its end, and if the snapshot is missing or damaged. The records
    are valid then, and later segments have the answer.
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
