"""Kafka's primitive types, read from and written to bytes.

::

    type            | classic                                | flexible (KIP-482)
    BOOLEAN         | 1 byte, 0 = false                      | the same
    INT8/16/32/64   | big-endian two's complement            | the same
    UUID            | 16 bytes                               | the same
    UNSIGNED_VARINT | 7 bits a byte, low bits first, at most 5 bytes
    VARINT          | the same over the zigzag of an INT32
    VARLONG         | the same over the zigzag of an INT64, at most 10 bytes
    STRING          | INT16 length (-1 = null), UTF-8        | uvarint length + 1 (0 = null), UTF-8
    BYTES, RECORDS  | INT32 length (-1 = null), bytes        | uvarint length + 1 (0 = null), bytes
    ARRAY           | INT32 count (-1 = null), items         | uvarint count + 1 (0 = null), items
    TAGGED_FIELDS   | absent                                 | uvarint count, then per field, tags rising: uvarint tag,
                    |                                        | uvarint size, bytes

A :class:`Reader` or :class:`Writer` is flexible or classic as a whole, as a message version is. The writer raises ProtocolError
for a value that the type cannot hold. The reader raises its ``error`` for every byte string that does not follow the table, and
nothing else. It checks each length against the bytes that are there, so reading takes linear time and memory.

Messages of Kafka's protocol, records of the metadata topic and custom metadata are read and written by this module. Of the
records of a log it reads the integers (:func:`base_128`): in ``records/record.py`` wrong bytes have causes of their own.

References: KIP-482, https://kafka.apache.org/protocol#protocol_types.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar
from uuid import UUID

from kafka_remote_client.errors import DirectFetchError, ProtocolError

__all__ = ["NO_TAGS", "ZERO_UUID", "Buffer", "Reader", "TaggedFields", "Writer", "base_128", "tag_numbers"]

Buffer: TypeAlias = bytes | bytearray | memoryview
TaggedFields: TypeAlias = Mapping[int, bytes]
_T = TypeVar("_T")

ZERO_UUID = UUID(int=0)
NO_TAGS: TaggedFields = {}

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")

_NULL = -1
_MAX_CLASSIC_STRING = 0x7FFF


def tag_numbers(fields: TaggedFields) -> str:
    """A ``repr`` without the values: a tagged field may hold a signed URL."""
    return f"<tags {sorted(fields)}>"


def base_128(data: Buffer, at: int, end: int, bits: int) -> tuple[int, int]:
    """An unsigned integer at ``at``, 7 bits a byte, low bits first, and the position after it.

    The position is -1 where the integer does not end before ``end``, or has ``bits`` bits and goes on.
    """
    value = shift = 0
    while at < end and shift < bits:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, -1


class Reader:
    """Reads one buffer from its front. ``flexible`` selects the column of the module's table.

    ``what``, ``error``: how messages name the data, and the class of all that is raised.
    """

    __slots__ = ("_at", "_end", "_error", "_view", "_what", "flexible")

    def __init__(
        self,
        data: Buffer,
        *,
        flexible: bool = False,
        what: str = "the message",
        error: type[DirectFetchError] = ProtocolError,
    ) -> None:
        self._view = memoryview(data)
        self._at = 0
        self._end = len(self._view)
        self._what = what
        self._error = error
        self.flexible = flexible

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return self._end - self._at

    def rest(self) -> memoryview:
        """All that is left, without copying it."""
        return self._view[self._advance(self.remaining) :]

    def expect_end(self) -> None:
        """Raises ProtocolError when bytes are left over: then the message was not what its version says."""
        if self._at != self._end:
            raise self._error(f"{self.remaining} bytes follow {self._what}")

    def boolean(self) -> bool:
        return self.int8() != 0

    def int8(self) -> int:
        value: int = _INT8.unpack_from(self._view, self._advance(1))[0]
        return value

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self._view, self._advance(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._view, self._advance(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self._view, self._advance(8))[0]
        return value

    def uuid(self) -> UUID:
        at = self._advance(16)
        return UUID(bytes=bytes(self._view[at : at + 16]))

    def uvarint(self) -> int:
        at = self._at
        if at < self._end and (value := self._view[at]) < 0x80:  # nearly all have one byte
            self._at = at + 1
            return value
        return self._base_128(32)

    def varint(self) -> int:
        value = self.uvarint()
        return (value >> 1) ^ -(value & 1)

    def varlong(self) -> int:
        value = self._base_128(64)
        return (value >> 1) ^ -(value & 1)

    def nullable_string(self) -> str | None:
        size = self._length(self.int16)
        if size == _NULL:
            return None
        at = self._advance(size)
        try:
            return str(self._view[at : at + size], "utf-8")
        except UnicodeDecodeError:
            raise self._error(f"{self._what} has a string that is not UTF-8") from None

    def string(self) -> str:
        return self._not_null(self.nullable_string())

    def nullable_view(self) -> memoryview | None:
        """BYTES or RECORDS as a slice of the reader's own buffer."""
        size = self._length(self.int32)
        if size == _NULL:
            return None
        at = self._advance(size)
        return self._view[at : at + size]

    def nullable_bytes(self) -> bytes | None:
        view = self.nullable_view()
        return None if view is None else bytes(view)

    def bytes_(self) -> bytes:
        return self._not_null(self.nullable_bytes())

    def nullable_array(self, read_item: Callable[[], _T]) -> tuple[_T, ...] | None:
        """An ARRAY; ``read_item`` reads one item from this reader, and every item has at least one byte."""
        count = self._length(self.int32)
        if count == _NULL:
            return None
        if count > self.remaining:
            raise self._error(f"{self._what} has an array of {count} items in {self.remaining} bytes")
        return tuple(read_item() for _ in range(count))

    def array(self, read_item: Callable[[], _T]) -> tuple[_T, ...]:
        return self._not_null(self.nullable_array(read_item))

    def tagged_fields(self) -> TaggedFields:
        """The section at the end of every flexible structure, values raw; nothing is read in a classic version."""
        return self.tagged_section() if self.flexible else NO_TAGS

    def tagged_section(self) -> TaggedFields:
        """A TAGGED_FIELDS section, whatever the version: headers have one of their own."""
        fields: dict[int, bytes] = {}
        last = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            if tag <= last:
                raise self._error(f"{self._what} has tag {tag} after tag {last}")
            last = tag
            size = self.uvarint()
            at = self._advance(size)
            fields[tag] = bytes(self._view[at : at + size])
        return fields

    def _length(self, classic: Callable[[], int]) -> int:
        size = self.uvarint() - 1 if self.flexible else classic()
        if size < _NULL:
            raise self._error(f"{self._what} has the negative length {size}")
        return size

    def _advance(self, size: int) -> int:
        at = self._at
        if size > self._end - at:
            raise self._error(f"{self._what} is truncated by {size - self.remaining} bytes")
        self._at = at + size
        return at

    def _base_128(self, bits: int) -> int:
        value, at = base_128(self._view, self._at, self._end, bits)
        if at < 0 and 7 * self.remaining < bits:
            self._advance(self.remaining + 1)
        if at < 0 or value >> bits:
            raise self._error(f"{self._what} has a variable-length integer of more than {bits} bits")
        self._at = at
        return value

    def _not_null(self, value: _T | None) -> _T:
        if value is None:
            raise self._error(f"{self._what} has null in a field that is not nullable")
        return value


class Writer:
    """Appends values to one buffer. ``flexible`` selects the column of the module's table."""

    __slots__ = ("_out", "flexible")

    def __init__(self, *, flexible: bool = False) -> None:
        self._out = bytearray()
        self.flexible = flexible

    def getvalue(self) -> bytes:
        """All bytes written so far."""
        return bytes(self._out)

    def raw(self, data: Buffer) -> None:
        """Bytes as they are, without a length."""
        self._out += data

    def boolean(self, value: bool) -> None:
        self._out.append(1 if value else 0)

    def int8(self, value: int) -> None:
        self._out += _packed(_INT8, value)

    def int16(self, value: int) -> None:
        self._out += _packed(_INT16, value)

    def int32(self, value: int) -> None:
        self._out += _packed(_INT32, value)

    def int64(self, value: int) -> None:
        self._out += _packed(_INT64, value)

    def uuid(self, value: UUID) -> None:
        self._out += value.bytes

    def uvarint(self, value: int) -> None:
        self._base_128(value, 32)

    def varint(self, value: int) -> None:
        self._base_128((value << 1) ^ (value >> 31), 32)

    def varlong(self, value: int) -> None:
        self._base_128((value << 1) ^ (value >> 63), 64)

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self._length(None, self.int16)
            return
        try:
            raw = value.encode()
        except UnicodeEncodeError:
            raise ProtocolError("a string cannot be written as UTF-8") from None
        if not self.flexible and len(raw) > _MAX_CLASSIC_STRING:
            raise ProtocolError(f"a string of {len(raw)} bytes exceeds its length field")
        self._length(len(raw), self.int16)
        self._out += raw

    def string(self, value: str) -> None:
        self.nullable_string(value)

    def nullable_bytes(self, value: Buffer | None) -> None:
        """BYTES or RECORDS."""
        self._length(None if value is None else len(value), self.int32)
        if value is not None:
            self._out += value

    def bytes_(self, value: Buffer) -> None:
        self.nullable_bytes(value)

    def nullable_array(self, items: Iterable[_T] | None, write_item: Callable[[_T], None]) -> None:
        """An ARRAY; ``write_item`` writes one item to this writer."""
        values = None if items is None else tuple(items)
        self._length(None if values is None else len(values), self.int32)
        for item in values or ():
            write_item(item)

    def array(self, items: Iterable[_T], write_item: Callable[[_T], None]) -> None:
        self.nullable_array(items, write_item)

    def tagged_fields(self, fields: TaggedFields) -> None:
        """The section at the end of every flexible structure, by rising tag. A classic version has no place for one."""
        if self.flexible:
            self.tagged_section(fields)
        elif fields:
            raise ProtocolError("this message version has no tagged fields")

    def tagged_section(self, fields: TaggedFields) -> None:
        """A TAGGED_FIELDS section, whatever the version: headers have one of their own."""
        self.uvarint(len(fields))
        for tag in sorted(fields):
            self.uvarint(tag)
            self.uvarint(len(fields[tag]))
            self._out += fields[tag]

    def _length(self, size: int | None, classic: Callable[[int], None]) -> None:
        if self.flexible:
            self.uvarint(0 if size is None else size + 1)
        else:
            classic(_NULL if size is None else size)

    def _base_128(self, value: int, bits: int) -> None:
        if not 0 <= value < 1 << bits:
            raise ProtocolError(f"{value} exceeds a variable-length integer of {bits} bits")
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)


def _packed(kind: struct.Struct, value: int) -> bytes:
    try:
        return kind.pack(value)
    except struct.error:
        raise ProtocolError(f"{value} does not fit {kind.size} bytes") from None
