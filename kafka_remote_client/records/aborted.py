"""The read_committed filter: which batches belong to an aborted transaction.

For each batch of a producer, in this order:

a. transactions of the aborted list that begin at or before the batch's last offset become active;
b. an ABORT marker ends its producer's active transaction (a COMMIT marker ends none: an active one will be aborted);
c. otherwise a transactional batch of a producer with an active aborted transaction is dropped without decoding.

A marker can be the first batch of its transaction that the filter sees, so (a) must come before (b).

References: KIP-98, Kafka's CompletedFetch.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.records.batch import BatchHeader

__all__ = ["AbortedTransactionFilter"]


class AbortedTransactionFilter:
    """The filter of one read, which takes batches in offset order. The list may be unsorted and have duplicates.

    The same batch of records may come twice in a row: the second time changes nothing.
    """

    __slots__ = ("_active", "_pending", "entries")

    def __init__(self, aborted_transactions: Iterable[AbortedTransaction]) -> None:
        self.entries = tuple(aborted_transactions)
        """The list in the order of the caller."""
        self._pending = [(entry.first_offset, entry.producer_id) for entry in self.entries]
        heapify(self._pending)
        self._active: set[int] = set()

    def drops(self, header: BatchHeader, *, is_abort_marker: bool) -> bool:
        """Advances the state by one batch of a producer; True = it belongs to an aborted transaction."""
        while self._pending and self._pending[0][0] <= header.last_offset:
            self._active.add(heappop(self._pending)[1])
        if is_abort_marker:
            self._active.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._active
