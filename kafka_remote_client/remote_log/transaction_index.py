"""The transaction index of a segment has the transactions whose ABORT marker lies in the segment.

It has no header and no checksum, only entries of 34 bytes in the order of the markers:

====== ==== ===== ================ ==============================================================
offset size type  field            note
====== ==== ===== ================ ==============================================================
0      2    int16 version          0
2      8    int64 producerId
10     8    int64 firstOffset      may lie in an earlier segment
18     8    int64 lastOffset       of the marker itself; rises strictly
26     8    int64 lastStableOffset first offset of the oldest other transaction open at the marker,
                                   else the marker's offset + 1
====== ==== ===== ================ ==============================================================

Committed transactions are not in it. A missing object means no entries.

References: Kafka's TransactionIndex, AbortedTxn; KIP-98.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import attrs

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction

__all__ = ["ENTRY_SIZE", "AbortedTxn", "TransactionIndex", "TxnIndexSearchResult"]

_ENTRY = struct.Struct(">hqqqq")
ENTRY_SIZE = _ENTRY.size
_VERSION = 0


@attrs.frozen
class AbortedTxn:
    """An entry of the index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def transaction(self) -> AbortedTransaction:
        return AbortedTransaction(self.producer_id, self.first_offset)


@attrs.frozen
class TxnIndexSearchResult:
    """``is_complete``: no later entry, in this segment or another, belongs to the requested range."""

    aborted_transactions: tuple[AbortedTxn, ...]
    is_complete: bool


class TransactionIndex:
    """An immutable index."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[AbortedTxn] = ()) -> None:
        self._entries = tuple(entries)

    @classmethod
    def parse(cls, data: bytes, start_offset: int, end_offset: int) -> TransactionIndex:
        """The index of the segment ``[start_offset, end_offset]``.

        Raises CorruptIndexError for a length that is no multiple of 34, an unknown version, entries out of order, and
        markers outside the segment.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptIndexError(f"transaction index of segment {start_offset} has {len(data)} bytes")
        entries = []
        last = start_offset - 1
        for version, producer_id, first, marker, stable in _ENTRY.iter_unpack(data):
            if version != _VERSION:
                raise CorruptIndexError(f"transaction index of segment {start_offset} has an entry of version {version}")
            if not last < marker <= end_offset or not 0 <= first <= marker:
                raise CorruptIndexError(
                    f"transaction index of segment {start_offset} has a transaction from {first} to {marker} after {last}; "
                    f"the segment ends at {end_offset}"
                )
            last = marker
            entries.append(AbortedTxn(producer_id, first, marker, stable))
        return cls(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._entries)

    @property
    def nbytes(self) -> int:
        return len(self._entries) * ENTRY_SIZE

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The transactions that overlap ``[fetch_offset, upper_bound_offset)``.

        A transaction that ended before ``fetch_offset`` must not be among them: the marker that ends the filtering lies before
        the range, so all later records of its producer would be dropped.
        """
        found = []
        for entry in self._entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return TxnIndexSearchResult(tuple(found), is_complete=True)
        return TxnIndexSearchResult(tuple(found), is_complete=False)
