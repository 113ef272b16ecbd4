"""The kinds of damage of a batch, as numbers that the compiled kernel and its Python twin share.

Both report ``(fault, position, offset)``. This module makes the exception, so that both raise the same type and text.
"""

from __future__ import annotations

from enum import IntEnum

from kafka_remote_client.errors import CorruptRecordError, DirectFetchError, UnsupportedFormatError

__all__ = ["BatchFault", "Fault", "fault_error"]


class Fault(IntEnum):
    """The kinds of damage. NONE = the batch is good."""

    NONE = 0
    BATCH_SIZE = 1
    MAGIC = 2
    BEYOND_SEGMENT = 3
    CRC = 4
    CHAIN = 5
    OUTSIDE_SEGMENT = 6
    LEADER_EPOCH = 7
    RECORD_COUNT = 8
    LAST_OFFSET = 9
    CODEC = 10
    VARINT = 11
    RECORD_SIZE = 12
    OFFSET_DELTA = 13
    KEY_SIZE = 14
    VALUE_SIZE = 15
    HEADERS = 16
    BODY_SIZE = 17
    TRAILING_BYTES = 18
    DECOMPRESSION = 19
    TOO_LARGE = 20
    CONTROL_RECORD = 21
    LEGACY_MESSAGE = 22
    LEGACY_OFFSET = 23


_TEXTS = {
    Fault.BATCH_SIZE: "its size field is smaller than its header",
    Fault.MAGIC: "its magic is not supported",
    Fault.BEYOND_SEGMENT: "its size field is larger than the whole segment",
    Fault.CRC: "its checksum does not match its bytes",
    Fault.CHAIN: "its base offset does not follow the previous batch",
    Fault.OUTSIDE_SEGMENT: "its offsets are outside of the segment",
    Fault.LEADER_EPOCH: "its leader epoch did not write these offsets",
    Fault.RECORD_COUNT: "its record count does not fit its bytes",
    Fault.LAST_OFFSET: "its last offset is below its base offset",
    Fault.CODEC: "its compression codec is unknown",
    Fault.VARINT: "it has a variable-length integer without an end",
    Fault.RECORD_SIZE: "a record's size does not fit the batch",
    Fault.OFFSET_DELTA: "its records' offsets do not increase",
    Fault.KEY_SIZE: "a key's size does not fit its record",
    Fault.VALUE_SIZE: "a value's size does not fit its record",
    Fault.HEADERS: "a record's headers do not fit their record",
    Fault.BODY_SIZE: "a record's fields do not fill its size",
    Fault.TRAILING_BYTES: "bytes remain after its last record",
    Fault.DECOMPRESSION: "its compressed records do not decompress",
    Fault.TOO_LARGE: "its decompressed records exceed the limit of one batch (max_decompressed_bytes)",
    Fault.CONTROL_RECORD: "its control record does not parse",
    Fault.LEGACY_MESSAGE: "a message of the old format in it does not parse",
    Fault.LEGACY_OFFSET: "its inner messages' offsets contradict the outer one's",
}
_UNSUPPORTED = frozenset({Fault.MAGIC, Fault.CODEC, Fault.TOO_LARGE})


class BatchFault(Exception):  # noqa: N818 - callers of this package get the exception of fault_error instead
    """Carries a fault from the decoding of one batch to the code that knows the batch's position."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def fault_error(fault: int, position: int, offset: int) -> DirectFetchError:
    """The exception for a batch at ``position`` of the buffer whose header has the base offset ``offset``.

    UnsupportedFormatError if the bytes may be valid but this client cannot read them, otherwise CorruptRecordError.
    """
    kind = Fault(fault)
    message = f"record batch at position {position} with base offset {offset}: {_TEXTS[kind]}"
    if kind in _UNSUPPORTED:
        return UnsupportedFormatError(message)
    return CorruptRecordError(message, offset=offset, position=position, gap=kind is Fault.CHAIN)
