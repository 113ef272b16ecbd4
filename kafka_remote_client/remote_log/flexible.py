"""The primitive types of Kafka's flexible message encoding, as far as metadata records use them.

============== =====================================================================================
type           bytes
============== =====================================================================================
int8 … int64   big-endian, fixed width
uvarint        groups of seven bits, lowest first, high bit = more follow; at most five bytes
uuid           16 bytes
string         uvarint length + 1, UTF-8
nullable bytes uvarint 0 for null, else uvarint length + 1, bytes
array          uvarint count + 1, elements
tagged section uvarint count, then per field in rising tag order: uvarint tag, uvarint size, bytes
============== =====================================================================================

Any bytes at all give values or RemoteLogMetadataError: lengths are checked before they are used.

References: KIP-482.
"""

from __future__ import annotations

import struct
from uuid import UUID

from kafka_remote_client.errors import RemoteLogMetadataError

__all__ = ["FlexibleReader", "FlexibleWriter"]

_I8, _I32, _I64 = (struct.Struct(f) for f in (">b", ">i", ">q"))
_UVARINT_MAX_BYTES = 5


class FlexibleReader:
    """Reads one message from the front of ``data`` on."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def remaining(self) -> int:
        return len(self._data) - self._at

    def raw(self, size: int) -> bytes:
        """The next ``size`` bytes. Raises RemoteLogMetadataError when there are fewer."""
        if size > self.remaining:
            raise RemoteLogMetadataError(f"metadata record ends {size - self.remaining} bytes early")
        start = self._at
        self._at += size
        return self._data[start : self._at]

    def int8(self) -> int:
        return int(_I8.unpack(self.raw(1))[0])

    def int32(self) -> int:
        return int(_I32.unpack(self.raw(4))[0])

    def int64(self) -> int:
        return int(_I64.unpack(self.raw(8))[0])

    def uvarint(self) -> int:
        value = 0
        for shift in range(0, 7 * _UVARINT_MAX_BYTES, 7):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise RemoteLogMetadataError(f"metadata record has a varint of more than {_UVARINT_MAX_BYTES} bytes")

    def uuid(self) -> UUID:
        return UUID(bytes=self.raw(16))

    def string(self) -> str:
        raw = self.nullable_bytes()
        if raw is None:
            raise RemoteLogMetadataError("metadata record has null where a string is required")
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise RemoteLogMetadataError("metadata record has a string that is not UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        size = self.uvarint()
        return None if size == 0 else self.raw(size - 1)

    def array_length(self) -> int:
        """The number of elements. Null is an error; so is a number that the bytes left cannot hold."""
        length = self.uvarint() - 1
        if not 0 <= length <= self.remaining:
            raise RemoteLogMetadataError(f"metadata record has an array of {length} elements in {self.remaining} bytes")
        return length

    def tags(self) -> dict[int, bytes]:
        """A tagged section: tag to bytes, unknown tags included."""
        fields: dict[int, bytes] = {}
        last = -1
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            if tag <= last:
                raise RemoteLogMetadataError(f"metadata record has tag {tag} after tag {last}")
            last = tag
            fields[tag] = self.raw(self.uvarint())
        return fields


class FlexibleWriter:
    """Writes the same types; :meth:`getvalue` gives the message."""

    __slots__ = ("_out",)

    def __init__(self) -> None:
        self._out = bytearray()

    def getvalue(self) -> bytes:
        return bytes(self._out)

    def int8(self, value: int) -> None:
        self._out += _I8.pack(value)

    def int32(self, value: int) -> None:
        self._out += _I32.pack(value)

    def int64(self, value: int) -> None:
        self._out += _I64.pack(value)

    def uvarint(self, value: int) -> None:
        while value > 0x7F:
            self._out.append(value & 0x7F | 0x80)
            value >>= 7
        self._out.append(value)

    def uuid(self, value: UUID) -> None:
        self._out += value.bytes

    def string(self, value: str) -> None:
        self.nullable_bytes(value.encode())

    def nullable_bytes(self, value: bytes | None) -> None:
        if value is None:
            self.uvarint(0)
        else:
            self.uvarint(len(value) + 1)
            self._out += value

    def array_length(self, value: int) -> None:
        self.uvarint(value + 1)

    def tags(self, fields: dict[int, bytes] | None = None) -> None:
        section = sorted((fields or {}).items())
        self.uvarint(len(section))
        for tag, value in section:
            self.uvarint(tag)
            self.uvarint(len(value))
            self._out += value
