"""The bytes that a grant puts into CustomMetadata of a range: what a fetcher needs to read it.

A tagged-field section and nothing else, like the custom metadata of known KIP-405 plugins::

    uvarint field count, then per field in rising tag order: uvarint tag | uvarint size | value

    tag | field          | value
    0   | URL            | UTF-8
    1   | signed headers | uvarint count, then per header COMPACT_STRING name, COMPACT_STRING value
    2   | object key     | UTF-8
    3   | ETag           | UTF-8
    4   | chunk table    | of stores that keep segments in chunks: which chunks the range needs (ChunkTable)
    5   | data key       | the key of encrypted chunks, in the clear

Unknown tags are skipped, so that a newer peer can add fields.

References: KIP-482 (tagged fields), docs/wire-format.md.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import ForbiddenLocationError, InvalidStorageResponseError

__all__ = ["LocationMetadata"]

_URL, _HEADERS, _OBJECT_KEY, _ETAG, _CHUNK_TABLE, _DATA_KEY = range(6)
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def _secret(value: object) -> str:
    return "<redacted>" if value else repr(value)


def _size(value: bytes | None) -> str:
    return "None" if value is None else f"<{len(value)} bytes>"


@attrs.frozen
class LocationMetadata:
    """A range's own location. ``url``, ``signed_headers`` and ``data_key`` are bearer secrets and never shown.

    With a ``chunk_table`` the object is not what Kafka wrote, and a plain fetcher's bytes have to be restored from chunks.
    """

    url: str | None = attrs.field(default=None, repr=_secret)
    signed_headers: tuple[tuple[str, str], ...] = attrs.field(default=(), repr=_secret)
    object_key: str | None = None
    etag: str | None = None
    chunk_table: bytes | None = attrs.field(default=None, repr=_size)
    data_key: bytes | None = attrs.field(default=None, repr=_secret)

    def encode(self) -> bytes:
        """The tagged-field section of the module's table."""
        fields: list[tuple[int, bytes]] = []
        if self.url is not None:
            fields.append((_URL, self.url.encode()))
        if self.signed_headers:
            body = bytearray(_uvarint(len(self.signed_headers)))
            for pair in self.signed_headers:
                for text in pair:
                    raw = text.encode()
                    body += _uvarint(len(raw) + 1) + raw
            fields.append((_HEADERS, bytes(body)))
        if self.object_key is not None:
            fields.append((_OBJECT_KEY, self.object_key.encode()))
        if self.etag is not None:
            fields.append((_ETAG, self.etag.encode()))
        if self.chunk_table is not None:
            fields.append((_CHUNK_TABLE, self.chunk_table))
        if self.data_key is not None:
            fields.append((_DATA_KEY, self.data_key))
        out = bytearray(_uvarint(len(fields)))
        for tag, value in fields:
            out += _uvarint(tag) + _uvarint(len(value)) + value
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes | None) -> LocationMetadata:
        """Parses a section; ``None`` or no bytes give an empty one.

        Raises InvalidStorageResponseError when the bytes do not parse, ForbiddenLocationError for a header whose name or
        value could smuggle another one.
        """
        if not data:
            return cls()
        try:
            return cls._decode(data)
        except (IndexError, UnicodeDecodeError):
            raise InvalidStorageResponseError("the custom metadata of a granted range does not parse") from None

    @classmethod
    def _decode(cls, data: bytes) -> LocationMetadata:
        fields: dict[int, bytes] = {}
        count, at = _read_uvarint(data, 0)
        last = -1
        for _ in range(count):
            tag, at = _read_uvarint(data, at)
            size, at = _read_uvarint(data, at)
            if tag <= last or at + size > len(data):
                raise IndexError
            last = tag
            fields[tag] = data[at : at + size]
            at += size
        if at != len(data):
            raise IndexError
        return cls(
            _text(fields.get(_URL)),
            _read_headers(fields[_HEADERS]) if _HEADERS in fields else (),
            _text(fields.get(_OBJECT_KEY)),
            _text(fields.get(_ETAG)),
            fields.get(_CHUNK_TABLE),
            fields.get(_DATA_KEY),
        )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _read_headers(data: bytes) -> tuple[tuple[str, str], ...]:
    count, at = _read_uvarint(data, 0)
    headers = []
    for _ in range(count):
        name, at = _read_string(data, at)
        value, at = _read_string(data, at)
        if not name or not _TOKEN.issuperset(name) or any(c in value for c in "\r\n\0"):
            raise ForbiddenLocationError("a signed header of the location is not a valid HTTP header")
        headers.append((name, value))
    if at != len(data):
        raise IndexError
    return tuple(headers)


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _read_uvarint(data, at)
    end = at + size - 1
    if size == 0 or end > len(data):
        raise IndexError
    return data[at:end].decode(), end


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise IndexError
