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

from kafka_remote_client.errors import ForbiddenLocationError, InvalidStorageResponseError, ProtocolError
from kafka_remote_client.wire import Reader, Writer

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
        texts = {_URL: self.url, _OBJECT_KEY: self.object_key, _ETAG: self.etag}
        values = {tag: text.encode() for tag, text in texts.items() if text is not None}
        if self.signed_headers:
            headers = Writer(flexible=True)
            headers.uvarint(len(self.signed_headers))
            for name, value in self.signed_headers:
                headers.string(name)
                headers.string(value)
            values[_HEADERS] = headers.getvalue()
        blobs = {_CHUNK_TABLE: self.chunk_table, _DATA_KEY: self.data_key}
        values |= {tag: data for tag, data in blobs.items() if data is not None}
        writer = Writer(flexible=True)
        writer.tagged_fields(values)
        return writer.getvalue()

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
        except (ProtocolError, UnicodeDecodeError):
            raise InvalidStorageResponseError("the custom metadata of a granted range does not parse") from None

    @classmethod
    def _decode(cls, data: bytes) -> LocationMetadata:
        reader = Reader(data, flexible=True)
        fields = reader.tagged_fields()
        reader.expect_end()
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
    reader = Reader(data, flexible=True)
    headers = tuple((reader.string(), reader.string()) for _ in range(reader.uvarint()))
    reader.expect_end()
    for name, value in headers:
        if not name or not _TOKEN.issuperset(name) or any(c in value for c in "\r\n\0"):
            raise ForbiddenLocationError("a signed header of the location is not a valid HTTP header")
    return headers
