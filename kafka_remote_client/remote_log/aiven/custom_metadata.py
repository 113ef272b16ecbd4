"""What Aiven's plugin writes into a segment's custom metadata, if it is configured to (``custom.metadata.fields.include``).

A tagged-field section and nothing else::

    uvarint field count, then per field in rising tag order: uvarint tag | uvarint size | value

    tag | field         | value                           | content
    0   | REMOTE_SIZE   | zig-zag VARLONG                 | bytes uploaded: log, indexes and manifest
    1   | OBJECT_PREFIX | COMPACT_STRING                  | key.prefix at the time of the upload
    2   | OBJECT_KEY    | COMPACT_STRING                  | the path without prefix and without suffix

Unknown tags are skipped. No bytes are no fields.

References: KIP-405 (custom metadata), KIP-482; SegmentCustomMetadataField and SegmentCustomMetadataSerde of the plugin.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.remote_log.flexible import FlexibleReader, FlexibleWriter

__all__ = ["AivenCustomMetadata"]

_REMOTE_SIZE, _OBJECT_PREFIX, _OBJECT_KEY = range(3)
_VARLONG_MAX_BYTES = 10


@attrs.frozen
class AivenCustomMetadata:
    """The three fields; None = not included."""

    remote_size: int | None = None
    object_prefix: str | None = None
    object_key: str | None = None

    def encode(self) -> bytes:
        """The section of the module's table."""
        fields: dict[int, bytes] = {}
        if self.remote_size is not None:
            fields[_REMOTE_SIZE] = _varlong(self.remote_size)
        for tag, text in ((_OBJECT_PREFIX, self.object_prefix), (_OBJECT_KEY, self.object_key)):
            if text is not None:
                value = FlexibleWriter()
                value.string(text)
                fields[tag] = value.getvalue()
        writer = FlexibleWriter()
        writer.tags(fields)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes | None) -> AivenCustomMetadata:
        """Any bytes at all give the fields or RemoteLogMetadataError."""
        if not data:
            return cls()
        reader = FlexibleReader(data)
        fields = reader.tags()
        _check_at_end(reader)
        size = fields.get(_REMOTE_SIZE)
        return cls(
            None if size is None else _read_varlong(size), _read_text(fields, _OBJECT_PREFIX), _read_text(fields, _OBJECT_KEY)
        )


def _read_text(fields: dict[int, bytes], tag: int) -> str | None:
    if tag not in fields:
        return None
    reader = FlexibleReader(fields[tag])
    text = reader.string()
    _check_at_end(reader)
    return text


def _check_at_end(reader: FlexibleReader) -> None:
    if reader.remaining:
        raise RemoteLogMetadataError(f"custom metadata has {reader.remaining} bytes too many")


def _varlong(value: int) -> bytes:
    writer = FlexibleWriter()
    writer.uvarint(value << 1 ^ value >> 63)
    return writer.getvalue()


def _read_varlong(data: bytes) -> int:
    if not 1 <= len(data) <= _VARLONG_MAX_BYTES or data[-1] > 0x7F or any(byte < 0x80 for byte in data[:-1]):
        raise RemoteLogMetadataError("custom metadata has a REMOTE_SIZE that is no varlong")
    value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data)) & (1 << 64) - 1
    return value >> 1 ^ -(value & 1)
