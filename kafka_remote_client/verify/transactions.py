"""Compares the transaction index and the producer snapshot with the transactions in the log.

An ABORT marker ends a transaction of its producer. The index has an entry for it, unless the transaction has no batch in this
partition. Of the transactions that began in this segment, the snapshot has those that are open at the end of the log.

The cleaner of a compacted topic removes records of a transaction, but not its marker while any is left. So in such a topic a
transaction may begin later than the files say, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_remote_client.model import AbortedTransaction
from kafka_remote_client.records import BatchHeader
from kafka_remote_client.records.batch import DEFAULT_MAX_DECOMPRESSED_BYTES
from kafka_remote_client.records.control import ABORT, COMMIT, control_keys, control_type
from kafka_remote_client.records.faults import BatchFault
from kafka_remote_client.remote_log.transaction_index import AbortedTxn, TransactionIndex
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.first_of_many import FirstOfMany

__all__ = ["TransactionsCheck", "transaction_marker"]


class TransactionsCheck:
    """A BatchListener. None: the file is missing or unreadable, and is not judged.

    ``open_transactions`` are those of the producer snapshot. ``compacted``: the log may have holes.
    """

    def __init__(
        self,
        index: TransactionIndex | None,
        open_transactions: tuple[AbortedTransaction, ...] | None,
        start_offset: int,
        *,
        compacted: bool = False,
    ) -> None:
        self._index = index
        self._snapshot = open_transactions
        self._start = start_offset
        self._compacted = compacted
        self._entries: Iterator[AbortedTxn] = iter(index or ())
        self._next = next(self._entries, None)
        self._open: dict[int, int] = {}
        self._ended: set[int] = set()
        self._whole = True
        self._bad = FirstOfMany()
        self._bad_snapshot = FirstOfMany()

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        kind = transaction_marker(header, data)
        if kind is None:
            if header.is_transactional and not header.is_control:
                self._open.setdefault(header.producer_id, header.base_offset)
            return
        entry = self._entry_at(header.base_offset)
        began = self._open.pop(header.producer_id, None)
        if kind == ABORT and self._index is not None:
            self._compare_entry(entry, header, began)
        elif entry is not None:
            self._refuse(entry, "that is a COMMIT marker")
        self._ended.add(header.producer_id)

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        self._refuse_before(first_offset)
        while self._next is not None and self._next.last_offset <= last_offset:
            self._next = next(self._entries, None)
        # Transactions that began or ended there are unknown
        self._open.clear()
        self._whole = False

    @property
    def ends_before_index(self) -> bool:
        """Returns whether the log has ended and the index has entries past its end."""
        return self._next is not None

    def problems(self) -> list[Problem]:
        """Returns at most one problem for each of the two files, after the walk has ended."""
        while self._next is not None:
            self._refuse(self._next, "the log ends before it")
            self._next = next(self._entries, None)
        if self._snapshot is not None and self._whole:
            self._check_snapshot(self._snapshot)
        return [
            *self._bad.problems(FindingKind.TRANSACTION_INDEX_MISMATCH, len(self._index or ()), "entries"),
            *self._bad_snapshot.problems(FindingKind.PRODUCER_SNAPSHOT_MISMATCH, len(self._snapshot or ()), "transactions"),
        ]

    def _entry_at(self, offset: int) -> AbortedTxn | None:
        """Returns the entry whose marker is at ``offset``."""
        self._refuse_before(offset)
        if self._next is None or self._next.last_offset != offset:
            return None
        entry, self._next = self._next, next(self._entries, None)
        return entry

    def _refuse_before(self, offset: int) -> None:
        """Reports the remaining entries below ``offset``: they have no marker."""
        while self._next is not None and self._next.last_offset < offset:
            self._refuse(self._next, "there is no marker")
            self._next = next(self._entries, None)

    def _compare_entry(self, entry: AbortedTxn | None, marker: BatchHeader, began: int | None) -> None:
        if entry is None:
            if began is not None:
                words = f"the transaction of producer {marker.producer_id} from offset {began} on, aborted at"
                self._bad.add(f"{words} {marker.base_offset}, is not in the index", None, marker.base_offset)
            return
        if entry.producer_id != marker.producer_id:
            self._refuse(entry, f"that marker is of producer {marker.producer_id}")
            return
        if entry.last_stable_offset > entry.last_offset + 1:
            self._refuse(entry, f"its last stable offset {entry.last_stable_offset} is after it")
        began_here = entry.first_offset >= self._start or marker.producer_id in self._ended
        if began_here and self._whole and not self._agrees(entry.first_offset, began):
            self._refuse(entry, "no such transaction begins there" if began is None else f"it begins at {began}")

    def _agrees(self, told: int, began: int | None) -> bool:
        """Returns whether a transaction from ``told`` on in a file may begin at ``began`` in the log; None = not there."""
        return told == began or (self._compacted and (began is None or told < began))

    def _check_snapshot(self, snapshot: tuple[AbortedTransaction, ...]) -> None:
        listed = {transaction.producer_id: transaction.first_offset for transaction in snapshot}
        for producer_id, began in self._open.items():
            known = listed.get(producer_id)
            earlier = known is not None and known < self._start and producer_id not in self._ended
            if (known is None or not self._agrees(known, began)) and not earlier:
                words = "is not in the snapshot" if known is None else f"begins at {known} in the snapshot"
                self._bad_snapshot.add(
                    f"the open transaction of producer {producer_id} from offset {began} on {words}", None, began
                )
        for producer_id, known in listed.items():
            if self._agrees(known, None):
                continue
            if producer_id not in self._open and (known >= self._start or producer_id in self._ended):
                words = f"a transaction of producer {producer_id} from offset {known} on, which is not open in the log"
                self._bad_snapshot.add(words, None, known)

    def _refuse(self, entry: AbortedTxn, why: str) -> None:
        words = f"producer {entry.producer_id}, offsets {entry.first_offset} to {entry.last_offset}: {why}"
        self._bad.add(words, None, entry.last_offset)


def transaction_marker(header: BatchHeader, data: memoryview) -> int | None:
    """Returns ABORT or COMMIT for a batch that ends a transaction of its producer; else None."""
    if not header.is_control or not header.is_transactional:
        return None
    try:
        control = control_keys(data, header._replace(position=0), DEFAULT_MAX_DECOMPRESSED_BYTES)
        kind = control_type(control[0]) if control else None
    except BatchFault:
        return None  # decoding it has been listed
    return kind if kind in {ABORT, COMMIT} else None
