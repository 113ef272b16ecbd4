"""The producer snapshot of a segment: the state of every producer at the segment's end + 1.

====== ==== ====== ==========================================
offset size type   field
====== ==== ====== ==========================================
0      2    int16  version, 1
2      4    uint32 CRC-32C of the bytes from offset 6 to the end
6      4    int32  number of entries, each of 46 bytes:
====== ==== ====== ==========================================

====== ==== ===== =====================
offset size type  field
====== ==== ===== =====================
0      8    int64 producerId
8      2    int16 producerEpoch
10     4    int32 lastSequence
14     8    int64 lastOffset
22     4    int32 offsetDelta
26     8    int64 timestamp
34     4    int32 coordinatorEpoch
38     8    int64 currentTxnFirstOffset, -1 = no open transaction
====== ==== ===== =====================

It has the transactions that are open at the end of the tier, and the producers. A transaction that began below the end and is
not open there has its marker in the tier.

References: Kafka's ProducerStateManager, ProducerSnapshot.json.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import crc32c

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import AbortedTransaction, in_offset_order

__all__ = ["open_transactions", "producer_ids"]

_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1
_CRC_START = 6
_NO_TRANSACTION = -1


def open_transactions(data: bytes) -> tuple[AbortedTransaction, ...]:
    """The transactions that are open at the snapshot's offset, in the order of first offsets. They are open, not aborted.

    Raises CorruptIndexError for another version, a wrong checksum, and a wrong count.
    """
    entries = ((producer_id, first) for producer_id, *_, first in _entries(data) if first != _NO_TRANSACTION)
    return in_offset_order(AbortedTransaction(producer_id, first) for producer_id, first in entries)


def producer_ids(data: bytes) -> list[int]:
    """The id of every producer in the snapshot. Raises as :func:`open_transactions`."""
    return [producer_id for producer_id, *_ in _entries(data)]


def _entries(data: bytes) -> Iterator[tuple[int, ...]]:
    if len(data) < _HEADER.size:
        raise CorruptIndexError(f"producer snapshot has {len(data)} bytes")
    version, checksum, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptIndexError(f"producer snapshot has version {version}, not {_VERSION}")
    if crc32c.crc32c(data[_CRC_START:]) != checksum:
        raise CorruptIndexError("producer snapshot has a wrong checksum")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptIndexError(f"producer snapshot has {len(data)} bytes for {count} entries")
    return _ENTRY.iter_unpack(data[_HEADER.size :])
