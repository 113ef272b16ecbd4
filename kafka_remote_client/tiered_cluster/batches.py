"""Writes and reads record batches of magic 2, as producers write them and brokers append them.

::

    offset  size  type    field                 note
    0       8     int64   baseOffset            set by the leader
    8       4     int32   batchLength           bytes that follow
    12      4     int32   partitionLeaderEpoch  set by the leader
    16      1     int8    magic                 2
    17      4     uint32  crc                   CRC-32C from offset 21 to the end
    21      2     int16   attributes            bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
    23      4     int32   lastOffsetDelta
    27      8     int64   baseTimestamp         the delete horizon, if bit 6 is set
    35      8     int64   maxTimestamp
    43      8     int64   producerId            -1: none
    51      2     int16   producerEpoch
    53      4     int32   baseSequence
    57      4     int32   records count
    61            bytes   records               compressed as a whole

A record is a zig-zag varint of its length, int8 attributes, varints of timestamp delta and offset delta, key, value and
headers; each byte string has a varint length, -1 for null. A control record's key is its version and its type, both int16; the
value of a transaction marker is its version (int16) and the epoch of the coordinator (int32).

References: Kafka's DefaultRecordBatch, DefaultRecord, EndTransactionMarker, ControlRecordType.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum

import attrs
import cramjam
import crc32c

__all__ = [
    "NO_EPOCH",
    "NO_PRODUCER",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "Batch",
    "Codec",
    "Marker",
    "Producer",
    "Record",
    "decompress",
    "encode_records",
    "marker_of",
    "new_batch",
    "new_marker",
    "parse_batches",
    "placed",
    "read_varint",
    "records_of",
    "rewritten",
    "stamped",
    "unpacked",
    "uvarint",
]

NO_PRODUCER = NO_EPOCH = NO_SEQUENCE = NO_TIMESTAMP = -1

_FRONT = struct.Struct(">qiib")
_CRC = struct.Struct(">I")
_BODY = struct.Struct(">hiqqqhii")
_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_INT32 = struct.Struct(">i")
_LENGTH_AT, _CRC_AT, _BODY_AT, _RECORDS_AT = 12, 17, 21, 61
_MAGIC = 2
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_MAX_SEQUENCE = 2**31 - 1


class Codec(IntEnum):
    """``compression.type`` under its number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Marker(IntEnum):
    """The types of control records that end a transaction."""

    ABORT = 0
    COMMIT = 1


@attrs.frozen
class Record:
    """``timestamp`` in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


@attrs.frozen
class Producer:
    """Who writes a batch. The default: a producer that is neither idempotent nor transactional."""

    id: int = NO_PRODUCER
    epoch: int = NO_EPOCH
    sequence: int = NO_SEQUENCE
    transactional: bool = False


@attrs.frozen
class Batch:
    """The header of a batch, with its bytes. ``last_offset`` is inclusive; times are in milliseconds."""

    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: bytes = attrs.field(repr=False)

    @property
    def size(self) -> int:
        return len(self.data)

    @property
    def codec(self) -> Codec:
        """Raises ValueError for an unknown number."""
        return Codec(self.attributes & _CODEC)

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def delete_horizon(self) -> int | None:
        """From when on, in milliseconds, the cleaner removes the batch's tombstones or its marker; ``None`` until it is set."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """Sequences begin again with 0 after 2147483647."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        last = self.base_sequence + self.last_offset - self.base_offset
        return last if last <= _MAX_SEQUENCE else last - _MAX_SEQUENCE - 1

    @property
    def payload(self) -> bytes:
        """The records as they are stored, compressed or not."""
        return self.data[_RECORDS_AT:]


def new_batch(
    records: Sequence[Record],
    *,
    codec: Codec = Codec.NONE,
    producer: Producer = Producer(),
    base_timestamp: int | None = None,
) -> Batch:
    """A producer's batch. The offset of the first record is the batch's base offset; a leader replaces it (:func:`placed`).

    ``base_timestamp``: that of the first record by default. Raises ValueError when there is no record.
    """
    attributes = codec | (_TRANSACTIONAL if producer.transactional else 0)
    return _batch(records, attributes, producer, base_timestamp)


def new_marker(kind: Marker, producer: Producer, timestamp: int, *, coordinator_epoch: int = 0) -> Batch:
    """A transaction marker, as the coordinator writes it. ``producer``'s sequence is not used."""
    record = Record(0, timestamp, _KEY.pack(0, kind), _MARKER_VALUE.pack(0, coordinator_epoch))
    return _batch([record], _TRANSACTIONAL | _CONTROL, attrs.evolve(producer, sequence=NO_SEQUENCE), None)


def _batch(records: Sequence[Record], attributes: int, producer: Producer, base_timestamp: int | None) -> Batch:
    if not records:
        raise ValueError("a batch holds at least one record")
    base_time = records[0].timestamp if base_timestamp is None else base_timestamp
    batch = Batch(
        base_offset=records[0].offset,
        leader_epoch=NO_EPOCH,
        attributes=attributes,
        last_offset=records[-1].offset,
        base_timestamp=base_time,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=producer.sequence,
        count=len(records),
        data=b"",
    )
    encoded = encode_records(records, records[0].offset, base_time)
    return _written(batch, _COMPRESS[batch.codec](encoded))


def placed(batch: Batch, base_offset: int, leader_epoch: int) -> Batch:
    """The batch as a leader appends it. The checksum covers neither field, so it stays."""
    data = _FRONT.pack(base_offset, batch.size - _LENGTH_AT, leader_epoch, _MAGIC) + batch.data[_CRC_AT:]
    last_offset = base_offset + batch.last_offset - batch.base_offset
    return attrs.evolve(batch, base_offset=base_offset, leader_epoch=leader_epoch, last_offset=last_offset, data=data)


def stamped(batch: Batch, now_ms: int) -> Batch:
    """The batch as a leader appends it with ``message.timestamp.type=LogAppendTime``: records keep their deltas."""
    changed = attrs.evolve(batch, attributes=batch.attributes | _LOG_APPEND_TIME, max_timestamp=now_ms)
    return _written(changed, batch.payload)


def rewritten(batch: Batch, records: Sequence[Record], delete_horizon: int | None) -> Batch:
    """The batch with some of its records, as a cleaner writes it: both offsets stay, and so does all that its producer set.

    An empty batch is not compressed, and has neither a base timestamp nor a delete horizon; the highest timestamp stays.
    """
    attributes = batch.attributes & ~_DELETE_HORIZON
    if not records:
        empty = attrs.evolve(batch, attributes=attributes & ~_CODEC, base_timestamp=NO_TIMESTAMP, count=0)
        return _written(empty, b"")
    if batch.log_append_time:
        records = [attrs.evolve(record, timestamp=batch.max_timestamp) for record in records]
    changed = attrs.evolve(
        batch,
        attributes=attributes if delete_horizon is None else attributes | _DELETE_HORIZON,
        base_timestamp=records[0].timestamp if delete_horizon is None else delete_horizon,
        max_timestamp=max(record.timestamp for record in records),
        count=len(records),
    )
    return _written(changed, _COMPRESS[batch.codec](encode_records(records, batch.base_offset, changed.base_timestamp)))


def _written(batch: Batch, payload: bytes) -> Batch:
    body = _BODY.pack(
        batch.attributes,
        batch.last_offset - batch.base_offset,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.count,
    )
    body += payload
    front = _FRONT.pack(batch.base_offset, _BODY_AT - _LENGTH_AT + len(body), batch.leader_epoch, _MAGIC)
    return attrs.evolve(batch, data=front + _CRC.pack(crc32c.crc32c(body)) + body)


def parse_batches(data: bytes) -> tuple[Batch, ...]:
    """Whole batches. Raises ValueError for a cut batch, another magic or a wrong checksum."""
    return tuple(_parsed(data))


def _parsed(data: bytes) -> Iterator[Batch]:
    at = 0
    while at < len(data):
        if len(data) - at < _RECORDS_AT:
            raise ValueError(f"incomplete batch header at byte {at}")
        base, length, _, magic = _FRONT.unpack_from(data, at)
        end = at + _LENGTH_AT + length
        if magic != _MAGIC:
            raise ValueError(f"batch at offset {base} has magic {magic}, not 2")
        if not at + _RECORDS_AT <= end <= len(data):
            raise ValueError(f"batch at offset {base} ends at byte {end} of {len(data)}")
        (crc,) = _CRC.unpack_from(data, at + _CRC_AT)
        if crc != crc32c.crc32c(data[at + _BODY_AT : end]):
            raise ValueError(f"batch at offset {base} has a wrong checksum")
        yield unpacked(data[at:end])
        at = end


def unpacked(data: bytes) -> Batch:
    """One whole batch, unchecked."""
    base, _, epoch, _ = _FRONT.unpack_from(data)
    attributes, delta, base_time, max_time, producer, producer_epoch, sequence, count = _BODY.unpack_from(data, _BODY_AT)
    return Batch(base, epoch, attributes, base + delta, base_time, max_time, producer, producer_epoch, sequence, count, data)


def records_of(batch: Batch) -> tuple[Record, ...]:
    """The records of a batch, control records too. Timestamps are those of the producer, also with LogAppendTime."""
    return tuple(_records(batch, decompress(batch.codec, batch.payload)))


def _records(batch: Batch, data: bytes) -> Iterator[Record]:
    at = 0
    for _ in range(batch.count):
        length, at = read_varint(data, at)
        end = at + length
        time_delta, at = read_varint(data, at + 1)  # after the attributes
        offset_delta, at = read_varint(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        count, at = read_varint(data, at)
        headers = []
        for _ in range(count):
            name, at = _read_bytes(data, at)
            content, at = _read_bytes(data, at)
            headers.append((name or b"", content))
        if at != end:
            raise ValueError(f"record at offset {batch.base_offset + offset_delta} does not end where its length says")
        yield Record(batch.base_offset + offset_delta, batch.base_timestamp + time_delta, key, value, tuple(headers))


def marker_of(batch: Batch) -> tuple[Marker, int]:
    """The marker of a control batch, and its coordinator's epoch. Raises ValueError for another type of control record."""
    (record,) = records_of(batch)
    _, kind = _KEY.unpack(record.key or b"")
    _, coordinator_epoch = _MARKER_VALUE.unpack(record.value or b"")
    return Marker(kind), coordinator_epoch


def encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> bytes:
    """Records as a batch holds them before it is compressed."""
    out = bytearray()
    for record in records:
        body = b"\0" + _varint(record.timestamp - base_timestamp) + _varint(record.offset - base_offset)
        body += _sized(record.key) + _sized(record.value) + _varint(len(record.headers))
        for name, value in record.headers:
            body += _sized(name) + _sized(value)
        out += _varint(len(body)) + body
    return bytes(out)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(value: int) -> bytes:
    return uvarint((value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF)


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits in each byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A zig-zag varint and the position after it."""
    raw = shift = 0
    while True:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return raw >> 1 ^ -(raw & 1), at


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    return (None, at) if length < 0 else (data[at : at + length], at + length)


def _xerial(data: bytes) -> bytes:
    """Snappy in the framing of the Java client."""
    out = bytearray(_XERIAL)
    for at in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK]))
        out += _INT32.pack(len(block)) + block
    return bytes(out)


def _unsnap(data: bytes) -> bytes:
    """Snappy in the framing of the Java client, or a raw block as librdkafka writes it."""
    if not data.startswith(_XERIAL[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, at = bytearray(), len(_XERIAL)
    while at < len(data):
        (length,) = _INT32.unpack_from(data, at)
        out += bytes(cramjam.snappy.decompress_raw(data[at + 4 : at + 4 + length]))
        at += 4 + length
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    """An LZ4 frame of independent blocks: Kafka's reader takes no linked ones."""
    compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
    compressor.compress(data)
    return bytes(compressor.finish())


_COMPRESS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda data: bytes(cramjam.gzip.compress(data)),
    Codec.SNAPPY: _xerial,
    Codec.LZ4: _lz4,
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.compress(data)),
}
_DECOMPRESS: dict[Codec, Callable[[bytes], bytes]] = {
    Codec.NONE: bytes,
    Codec.GZIP: lambda data: bytes(cramjam.gzip.decompress(data)),
    Codec.SNAPPY: _unsnap,
    Codec.LZ4: lambda data: bytes(cramjam.lz4.decompress(data)),
    Codec.ZSTD: lambda data: bytes(cramjam.zstd.decompress(data)),
}


def decompress(codec: Codec, payload: bytes) -> bytes:
    """The encoded records of a batch."""
    return _DECOMPRESS[codec](payload)
