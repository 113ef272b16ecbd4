"""Control records: markers that end a transaction, and records for brokers only.

Key of a control record::

    offset | size | type | field   | note
    0      | 2    | i16  | version | 0; later versions read as 0, negative ones are damage
    2      | 2    | i16  | type    | 0 ABORT, 1 COMMIT; consumers ignore all others

References: KIP-98, Kafka's ControlRecordType.
"""

from __future__ import annotations

import struct

from kafka_remote_client.records.aborted import AbortedTransactionFilter
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.records.compression import ByteArena
from kafka_remote_client.records.faults import BatchFault, Fault
from kafka_remote_client.records.payload import copy_records
from kafka_remote_client.records.record import read_records

__all__ = ["ABORT", "COMMIT", "control_keys", "control_type", "is_abort_marker", "is_delivered"]

ABORT, COMMIT = 0, 1
"""The types of control records that end a transaction."""

_KEY = struct.Struct(">hh")


def control_type(key: bytes | None) -> int:
    """The type in a control record's key, which may be unknown. Raises BatchFault CONTROL_RECORD for a malformed key."""
    if key is None or len(key) < _KEY.size:
        raise BatchFault(Fault.CONTROL_RECORD)
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise BatchFault(Fault.CONTROL_RECORD)
    return int(kind)


def control_keys(data: memoryview, header: BatchHeader, limit: int) -> list[bytes | None]:
    """The keys of all records of a control batch. Raises BatchFault if the batch is malformed anywhere.

    ``limit``: the most bytes that its records may decompress to.
    """
    arena = ByteArena()
    size = copy_records(data, header, arena, limit)
    view = arena.view()
    records = read_records(view, 0, size, header.record_count, header.last_offset - header.base_offset)
    return [None if key_size < 0 else bytes(view[key : key + key_size]) for _, _, key, key_size, *_ in records]


def is_abort_marker(data: memoryview, header: BatchHeader, limit: int, *, filtered: bool) -> bool:
    """Whether a control batch ends an aborted transaction. Raises BatchFault if the batch is malformed anywhere.

    The first record has the type. A batch without records, which compaction leaves, marks nothing. ``filtered``: False if
    no filter needs the type, which then may be anything.
    """
    keys = control_keys(data, header, limit)
    return filtered and bool(keys) and control_type(keys[0]) == ABORT


def is_delivered(data: memoryview, header: BatchHeader, limit: int, aborted: AbortedTransactionFilter | None) -> bool:
    """Whether the application gets the records of a batch: not of a control batch, and not those that ``aborted`` drops.

    ``aborted`` is advanced by the batch; None = read_uncommitted. Raises BatchFault for a malformed control batch.
    """
    filtered = aborted is not None and header.producer_id >= 0
    aborts = header.is_control and is_abort_marker(data, header, limit, filtered=filtered)
    if aborted is not None and filtered and aborted.drops(header, is_abort_marker=aborts):
        return False
    return not header.is_control
