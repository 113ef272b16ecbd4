"""The header of a record batch, and the walk from header to header that verifies each.

Magic 2 (KIP-98), all integers big-endian::

    offset | size | type | field                | note
    0      | 8    | i64  | baseOffset           | not covered by the checksum
    8      | 4    | i32  | batchLength          | bytes after this field; not covered
    12     | 4    | i32  | partitionLeaderEpoch | not covered
    16     | 1    | i8   | magic                | 2; not covered
    17     | 4    | u32  | crc                  | CRC-32C of bytes 21 to the end, as compressed
    21     | 2    | i16  | attributes           | bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
    23     | 4    | i32  | lastOffsetDelta      | last offset = base + this, whatever records are left in the batch
    27     | 8    | i64  | baseTimestamp        | ms; the delete horizon when bit 6 is set
    35     | 8    | i64  | maxTimestamp         | ms; every record's timestamp when bit 3 is set
    43     | 8    | i64  | producerId           | -1: none
    51     | 2    | i16  | producerEpoch        |
    53     | 4    | i32  | baseSequence         |
    57     | 4    | i32  | recordCount          |
    61     |      |      | records              | one compressed blob if bits 0-2 say so

Magic 0 and 1 share the first 17 bytes (offset, size, crc where the epoch is, magic): see ``legacy``.

The checksum does not cover the first 17 bytes, so a batch must also follow its predecessor, be inside its segment and have the
leader epoch that the segment's metadata has for its offset.

References: KIP-98, https://kafka.apache.org/documentation/#recordbatch, Kafka's DefaultRecordBatch and RemoteLogInputStream.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import DirectFetchError
from kafka_remote_client.model import UNKNOWN_EPOCH, RemoteLogSegmentMetadata, is_epoch_possible
from kafka_remote_client.records.faults import BatchFault, Fault, fault_error
from kafka_remote_client.records.legacy import read_entry
from kafka_remote_client.records.record import write_record
from kafka_remote_client.settings import default_of
from kafka_remote_client.wire import Writer

__all__ = [
    "ANY_OFFSET",
    "BATCH_OVERHEAD",
    "DEFAULT_MAX_DECOMPRESSED_BYTES",
    "LOG_OVERHEAD",
    "PREFIX_SIZE",
    "BatchHeader",
    "BatchList",
    "BatchPrefix",
    "BatchRules",
    "checksum_matches",
    "read_legacy_header",
    "read_unverified_header",
    "scan_batches",
    "write_batch",
]

LOG_OVERHEAD = 12
"""Bytes of baseOffset and batchLength, which batchLength does not count."""
BATCH_OVERHEAD = 61
"""Bytes of a magic 2 header."""
DEFAULT_MAX_DECOMPRESSED_BYTES: int = default_of("fetch.remote.max.decompressed.bytes")
"""The most bytes that a batch may decompress to by default."""
ANY_OFFSET = -1
"""The base offset of the next batch is not known."""

_PREFIX = struct.Struct(">qiib")
PREFIX_SIZE = _PREFIX.size
"""Bytes at the front of a batch of every format, including the magic."""
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LEGACY_TIMESTAMP = struct.Struct(">q")
_LEGACY_TIMESTAMP_AT = 18
_MIN_SIZES = (LOG_OVERHEAD + 14, LOG_OVERHEAD + 22, BATCH_OVERHEAD)
_CRC_AT, _CRC_START = 17, 21
_NO_TIMESTAMP = -1
_CODEC_MASK, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20


class BatchPrefix(NamedTuple):
    """The fields at the front of a batch of every format. ``size``: bytes of the whole batch, unverified.

    In magic 0 and 1 ``base_offset`` is the last offset of the entry, and ``leader_epoch`` is its checksum.
    """

    base_offset: int
    size: int
    leader_epoch: int
    magic: int

    @classmethod
    def read(cls, data: bytes | memoryview, position: int = 0) -> BatchPrefix:
        """The prefix at ``position`` of ``data``, which has at least PREFIX_SIZE bytes after it."""
        base_offset, length, leader_epoch, magic = _PREFIX.unpack_from(data, position)
        return cls(base_offset, LOG_OVERHEAD + length, leader_epoch, magic)

    @property
    def header_size(self) -> int:
        """Bytes of the header, which is also the smallest batch of this magic. Raises IndexError for an unknown magic."""
        return _MIN_SIZES[self.magic]

    @property
    def has_room_for_a_header(self) -> bool:
        """Whether the size is at least that of the smallest batch of any magic."""
        return self.size >= _MIN_SIZES[0]

    def fault(self, max_batch_bytes: int) -> Fault:
        """Why this is not the prefix of a batch of at most ``max_batch_bytes``; NONE if it may be."""
        if not 0 <= self.magic < len(_MIN_SIZES):
            return Fault.MAGIC if self.has_room_for_a_header else Fault.BATCH_SIZE
        if self.size < self.header_size:
            return Fault.BATCH_SIZE
        return Fault.BEYOND_SEGMENT if self.size > max_batch_bytes else Fault.NONE


class BatchHeader(NamedTuple):
    """The position of a batch in the buffer, and the fields of its header. Magic 0 and 1 have the fields of magic 2."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    magic: int
    leader_epoch: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    record_count: int

    @property
    def end(self) -> int:
        """The position after the batch."""
        return self.position + self.size

    @property
    def codec(self) -> int:
        """The codec's number, as in compression.py: 0 is none."""
        return self.attributes & _CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether ``max_timestamp`` is the timestamp of every record."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether its records are markers, which applications do not get."""
        return bool(self.attributes & _CONTROL)


@attrs.frozen
class BatchRules:
    """The checks on the batches of one segment. The defaults allow every offset, any epoch, and gaps between batches.

    ``epochs``: (leader epoch, start offset) pairs, rising, of which ``model.is_epoch_possible`` says more; None = not known.
    ``max_batch_bytes``: the most bytes of a whole batch in the segment. ``max_decompressed_bytes``: the most bytes of a batch's
    records after decompression.
    """

    start_offset: int = 0
    end_offset: int = MAX_OFFSET - 1
    epochs: tuple[tuple[int, int], ...] | None = None
    allow_offset_gaps: bool = True
    max_batch_bytes: int = 2**31 - 1 + LOG_OVERHEAD
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES

    @classmethod
    def of_segment(
        cls,
        metadata: RemoteLogSegmentMetadata,
        *,
        allow_offset_gaps: bool = False,
        max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
    ) -> BatchRules:
        """The rules from a segment's metadata."""
        return cls(
            start_offset=metadata.start_offset,
            end_offset=metadata.end_offset,
            epochs=tuple((entry.epoch, entry.start_offset) for entry in metadata.segment_leader_epochs),
            allow_offset_gaps=allow_offset_gaps,
            max_batch_bytes=metadata.segment_size_in_bytes,
            max_decompressed_bytes=max_decompressed_bytes,
        )


class BatchList(Sequence[BatchHeader]):
    """The whole, valid batches at the front of a buffer, and why the walk stopped.

    ``error``: the damage of the batch after the last valid one, None at the end of the buffer. ``needed``: bytes of the batch
    that the end of the buffer truncates, 0 = not known.
    """

    __slots__ = ("_headers", "error", "needed")

    def __init__(self, headers: list[BatchHeader], error: DirectFetchError | None, needed: int) -> None:
        self._headers = headers
        self.error = error
        self.needed = needed

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, index: int) -> BatchHeader:  # type: ignore[override] # slices are never asked for
        return self._headers[index]

    def needs_arena(self) -> bool:
        """Whether the records of any batch must be decompressed or converted, so that they cannot be read in place."""
        return any(header.attributes & _CODEC_MASK or header.magic < 2 for header in self._headers)

    def count_below(self, end_offset: int) -> int:
        """The number of batches with a base offset below ``end_offset``."""
        count = len(self._headers)
        while count and self._headers[count - 1].base_offset >= end_offset:
            count -= 1
        return count


def scan_batches(data: memoryview, expected_offset: int, rules: BatchRules) -> BatchList:
    """Walks the headers of ``data`` and verifies each batch: size, checksum, chain, bounds, leader epoch.

    ``expected_offset``: the offset after the batch before, or ANY_OFFSET. With ANY_OFFSET only unprotected bytes of the first
    batch give its offset; so if the second batch does not follow it, both are refused. A truncated last batch is left out.
    """
    anchored = expected_offset != ANY_OFFSET
    headers: list[BatchHeader] = []
    fault = Fault.NONE
    needed = 0
    position, end = 0, len(data)
    offset = -1
    while end - position >= PREFIX_SIZE:
        prefix = BatchPrefix.read(data, position)
        offset = prefix.base_offset
        fault = prefix.fault(rules.max_batch_bytes)
        if fault:
            break
        if end - position < prefix.size:
            needed = prefix.size
            break
        header, fault = _read_header(data, position, prefix, rules.max_decompressed_bytes)
        fault = fault or _check_place(header, expected_offset, rules)
        if fault:
            break
        headers.append(header)
        expected_offset = header.last_offset + 1
        position += prefix.size
    if fault == Fault.CHAIN and len(headers) == 1 and not anchored:
        position, offset = headers[0].position, headers[0].base_offset
        headers.clear()
    return BatchList(headers, fault_error(fault, position, offset) if fault else None, needed)


def read_unverified_header(data: bytes | memoryview, position: int, prefix: BatchPrefix) -> BatchHeader:
    """The header at the front of ``data``, which may lack the records. ``position``: where the batch begins in its log.

    ``prefix`` is that of ``data`` and has no fault; ``data`` has at least its ``header_size``. For magic 0 and 1 only the last
    offset is known: the base offset is the same, and the record count is -1.
    """
    base, size, _, magic = prefix
    if magic == 2:
        return _unpack_header(data, 0, position, size)[0]
    timestamp = _LEGACY_TIMESTAMP.unpack_from(data, _LEGACY_TIMESTAMP_AT)[0] if magic else _NO_TIMESTAMP
    return BatchHeader(position, size, base, base, magic, UNKNOWN_EPOCH, 0, timestamp, timestamp, -1, -1)


def checksum_matches(batch: bytes | memoryview) -> bool:
    """Whether the bytes ``batch`` match their checksum as one whole batch of magic 2. The size field is ignored."""
    if len(batch) < BATCH_OVERHEAD:
        return False
    return _checksum(batch[_CRC_START:]) == int.from_bytes(batch[_CRC_AT:_CRC_START], "big")


def _checksum(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C."""
    import crc32c  # noqa: PLC0415 - the kernel has its own, and this package imports its command line

    return crc32c.crc32c(data)


def write_batch(
    base_offset: int, records: Sequence[tuple[int, bytes | None, bytes | None]], leader_epoch: int = UNKNOWN_EPOCH
) -> bytes:
    """An uncompressed batch of magic 2 without a producer: (timestamp in ms, key, value) of records with successive offsets."""
    body = Writer()
    first = records[0][0]
    for number, (timestamp, key, value) in enumerate(records):
        write_record(body, number, timestamp - first, key, value)
    payload, last = body.getvalue(), max(timestamp for timestamp, _, _ in records)
    length, count = BATCH_OVERHEAD - LOG_OVERHEAD + len(payload), len(records)
    fields = (base_offset, length, leader_epoch, 2, 0, 0, count - 1, first, last, -1, -1, -1, count)
    batch = bytearray(_HEADER.pack(*fields) + payload)
    batch[_CRC_AT:_CRC_START] = _checksum(batch[_CRC_START:]).to_bytes(_CRC_START - _CRC_AT, "big")
    return bytes(batch)


def read_legacy_header(
    data: memoryview, position: int, size: int, magic: int, max_decompressed_bytes: int
) -> tuple[BatchHeader, Fault]:
    """The header of a magic 2 batch with the same records. It decodes the records, because they have the base offset."""
    try:
        entry = read_entry(data[position : position + size], max_decompressed_bytes)
    except BatchFault as caught:
        return BatchHeader(position, size, -1, -1, magic, UNKNOWN_EPOCH, 0, -1, -1, -1, 0), caught.fault
    attributes = entry.attributes & (_CODEC_MASK | _LOG_APPEND_TIME if magic else _CODEC_MASK)
    return BatchHeader(
        position=position,
        size=size,
        base_offset=entry.base_offset,
        last_offset=entry.last_offset,
        magic=magic,
        leader_epoch=UNKNOWN_EPOCH,
        attributes=attributes,
        base_timestamp=entry.timestamp,
        max_timestamp=entry.timestamp,
        producer_id=-1,
        record_count=len(entry.messages),
    ), Fault.NONE


def _read_header(
    data: memoryview, position: int, prefix: BatchPrefix, max_decompressed_bytes: int
) -> tuple[BatchHeader, Fault]:
    size = prefix.size
    if prefix.magic < 2:
        return read_legacy_header(data, position, size, prefix.magic, max_decompressed_bytes)
    header, crc = _unpack_header(data, position, position, size)
    if _checksum(data[position + _CRC_START : position + size]) != crc:
        return header, Fault.CRC
    if header.last_offset < header.base_offset:
        return header, Fault.LAST_OFFSET
    return header, Fault.RECORD_COUNT if header.record_count < 0 else Fault.NONE


def _unpack_header(data: bytes | memoryview, at: int, position: int, size: int) -> tuple[BatchHeader, int]:
    """The header of magic 2 at ``at`` of ``data``, and its checksum."""
    base, _, epoch, magic, crc, attributes, delta, base_time, max_time, producer, _, _, count = _HEADER.unpack_from(data, at)
    return BatchHeader(position, size, base, base + delta, magic, epoch, attributes, base_time, max_time, producer, count), crc


def _check_place(header: BatchHeader, expected_offset: int, rules: BatchRules) -> Fault:
    base = header.base_offset
    if not rules.start_offset <= base <= header.last_offset <= rules.end_offset:
        return Fault.OUTSIDE_SEGMENT
    if expected_offset != ANY_OFFSET and (base < expected_offset or (base > expected_offset and not rules.allow_offset_gaps)):
        return Fault.CHAIN
    if rules.epochs is None or header.magic < 2:
        return Fault.NONE
    possible = is_epoch_possible(rules.epochs, header.leader_epoch, base, header.last_offset)
    return Fault.NONE if possible else Fault.LEADER_EPOCH
