"""The custom metadata that Aiven's plugin writes for a segment, if ``custom.metadata.fields.include`` is set.

It is one section of tagged fields::

    uvarint field count, then per field in rising tag order: uvarint tag | uvarint size | value

    tag | field         | value                           | content
    0   | REMOTE_SIZE   | zig-zag VARLONG                 | bytes uploaded: log, indexes and manifest
    1   | OBJECT_PREFIX | COMPACT_STRING                  | key.prefix at the time of the upload
    2   | OBJECT_KEY    | COMPACT_STRING                  | the path without prefix and without suffix

Unknown tags are skipped. Empty metadata has no fields.

References: KIP-405 (custom metadata), KIP-482; SegmentCustomMetadataField and SegmentCustomMetadataSerde of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.wire import Reader, TaggedFields, Writer

__all__ = ["AivenCustomMetadata"]

_T = TypeVar("_T")

_REMOTE_SIZE, _OBJECT_PREFIX, _OBJECT_KEY = range(3)


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
            size = Writer(flexible=True)
            size.varlong(self.remote_size)
            fields[_REMOTE_SIZE] = size.getvalue()
        for tag, text in ((_OBJECT_PREFIX, self.object_prefix), (_OBJECT_KEY, self.object_key)):
            if text is not None:
                value = Writer(flexible=True)
                value.string(text)
                fields[tag] = value.getvalue()
        writer = Writer(flexible=True)
        writer.tagged_fields(fields)
        return writer.getvalue()

    @classmethod
    def decode(cls, data: bytes | None) -> AivenCustomMetadata:
        """The fields in ``data``. Raises RemoteLogMetadataError for malformed bytes."""
        if not data:
            return cls()
        reader = _reader(data)
        fields = reader.tagged_fields()
        reader.expect_end()
        return cls(
            _field(fields, _REMOTE_SIZE, Reader.varlong),
            _field(fields, _OBJECT_PREFIX, Reader.string),
            _field(fields, _OBJECT_KEY, Reader.string),
        )


def _reader(data: bytes) -> Reader:
    return Reader(data, flexible=True, what="custom metadata", error=RemoteLogMetadataError)


def _field(fields: TaggedFields, tag: int, read: Callable[[Reader], _T]) -> _T | None:
    if tag not in fields:
        return None
    reader = _reader(fields[tag])
    value = read(reader)
    reader.expect_end()
    return value
