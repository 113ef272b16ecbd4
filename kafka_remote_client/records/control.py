"""Control records: the markers that end a transaction, and those that matter to brokers only.

Key of a control record::

    offset | size | type | field   | note
    0      | 2    | i16  | version | 0; later versions read as 0, negative ones are damage
    2      | 2    | i16  | type    | 0 ABORT, 1 COMMIT; all others mean nothing to a consumer

References: KIP-98, Kafka's ControlRecordType.
"""

from __future__ import annotations

import struct

from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.records.compression import ByteArena
from kafka_remote_client.records.faults import BatchFault, Fault
from kafka_remote_client.records.payload import copy_records
from kafka_remote_client.records.record import read_records

__all__ = ["ABORT", "COMMIT", "control_keys", "control_type", "is_abort_marker"]

ABORT, COMMIT = 0, 1
"""The types of control records that end a transaction."""

_KEY = struct.Struct(">hh")


def control_type(key: bytes | None) -> int:
    """The type in a control record's key, known or not. Raises BatchFault CONTROL_RECORD for a key that does not parse."""
    if key is None or len(key) < _KEY.size:
        raise BatchFault(Fault.CONTROL_RECORD)
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise BatchFault(Fault.CONTROL_RECORD)
    return int(kind)


def control_keys(data: memoryview, header: BatchHeader, limit: int) -> list[bytes | None]:
    """The keys of all records of a control batch, which is parsed to its end. Raises BatchFault where it does not parse."""
    arena = ByteArena()
    size = copy_records(data, header, arena, limit)
    view = arena.view()
    records = read_records(view, 0, size, header.record_count, header.last_offset - header.base_offset)
    return [None if key_size < 0 else bytes(view[key : key + key_size]) for _, _, key, key_size, *_ in records]


def is_abort_marker(data: memoryview, header: BatchHeader, limit: int, *, filtered: bool) -> bool:
    """Whether a control batch ends an aborted transaction. Raises BatchFault where it does not parse.

    Its first record tells. An empty one, which compaction leaves behind, marks nothing. Without ``filtered`` the marker is not
    needed: it is still parsed to its end, but its key may hold anything.
    """
    keys = control_keys(data, header, limit)
    return filtered and bool(keys) and control_type(keys[0]) == ABORT
