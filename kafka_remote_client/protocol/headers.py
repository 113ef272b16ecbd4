"""The header in front of each request and response, and the length in front of both.

::

    frame     length i32, then that many bytes
    request   api_key i16 | api_version i16 | correlation_id i32 | client_id STRING (nullable) | TAGS with a flexible body
    response  correlation_id i32                                                               | TAGS with a flexible body

Two exceptions: ``client_id`` keeps its classic encoding in every version, and the response to ApiVersions never has TAGS,
because a client reads it before it knows what the broker speaks.

References: https://kafka.apache.org/protocol#protocol_messages, KIP-482, KIP-511.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.protocol.api_keys import ApiKey, is_flexible
from kafka_remote_client.wire import NO_TAGS, Buffer, Reader, TaggedFields, Writer, tag_numbers

__all__ = [
    "RequestHeader",
    "decode_request_header",
    "decode_response_header",
    "encode_request_header",
    "encode_response_header",
    "frame",
]


@attrs.frozen
class RequestHeader:
    """What stands in front of a request's body."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None = None
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


def encode_request_header(header: RequestHeader) -> bytes:
    """The header's bytes, without the frame's length."""
    writer = Writer()
    writer.int16(header.api_key)
    writer.int16(header.api_version)
    writer.int32(header.correlation_id)
    writer.nullable_string(header.client_id)
    if is_flexible(header.api_key, header.api_version):
        writer.tagged_section(header.tags)
    return writer.getvalue()


def decode_request_header(data: Buffer) -> tuple[RequestHeader, memoryview]:
    """The header of a request frame (after its length) and the body behind it."""
    reader = Reader(data)
    api_key, api_version, correlation_id = reader.int16(), reader.int16(), reader.int32()
    client_id = reader.nullable_string()
    tags = reader.tagged_section() if is_flexible(api_key, api_version) else NO_TAGS
    return RequestHeader(api_key, api_version, correlation_id, client_id, tags), reader.rest()


def encode_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header in front of the response to that request, without the frame's length."""
    writer = Writer()
    writer.int32(correlation_id)
    if _flexible_response(api_key, version):
        writer.tagged_section(NO_TAGS)
    return writer.getvalue()


def decode_response_header(api_key: int, version: int, data: Buffer) -> tuple[int, memoryview]:
    """The correlation id of a response frame (after its length) and the body behind its header."""
    reader = Reader(data)
    correlation_id = reader.int32()
    if _flexible_response(api_key, version):
        reader.tagged_section()
    return correlation_id, reader.rest()


def frame(header: bytes, body: Buffer) -> bytes:
    """Length, header and body as one piece: two small writes would wait for each other (Nagle and delayed ACK)."""
    writer = Writer()
    writer.int32(len(header) + len(body))
    writer.raw(header)
    writer.raw(body)
    return writer.getvalue()


def _flexible_response(api_key: int, version: int) -> bool:
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)
