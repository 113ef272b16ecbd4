"""SaslAuthenticate, versions 0-2: one message of a mechanism each way.

::

    request   AuthBytes BYTES | TAGS v2
    response  ErrorCode i16 | ErrorMessage STRING, nullable | AuthBytes BYTES | v1+ SessionLifetimeMs i64 | TAGS v2

``SessionLifetimeMs`` in the last answer of an exchange: after so long the broker expects the client to authenticate again
on this connection, and closes it otherwise. 0 = never.

References: KIP-152, KIP-368 (re-authentication).
"""

from __future__ import annotations

import attrs

from kafka_remote_client.protocol.api_keys import SASL_AUTHENTICATE
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.wire import Buffer, TaggedFields, tag_numbers

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]

_FIRST_WITH_LIFETIME = 1


def _hidden(data: bytes) -> str:
    return f"<{len(data)} bytes>"


@attrs.frozen
class SaslAuthenticateRequest:
    """The client's message; it may hold a password or a token, and is in no ``repr``."""

    auth_bytes: bytes = attrs.field(repr=_hidden)
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


@attrs.frozen
class SaslAuthenticateResponse:
    """The broker's message. ``session_lifetime_ms`` is 0 below version 1."""

    error_code: int = ErrorCode.NONE
    error_message: str | None = None
    auth_bytes: bytes = attrs.field(default=b"", repr=_hidden)
    session_lifetime_ms: int = 0
    tags: TaggedFields = attrs.field(factory=dict, repr=tag_numbers)


def encode_request(request: SaslAuthenticateRequest, version: int) -> bytes:
    """The body of the request. Raises ProtocolError for a version outside 0-2."""
    writer = SASL_AUTHENTICATE.writer(version)
    writer.bytes_(request.auth_bytes)
    writer.tagged_fields(request.tags)
    return writer.getvalue()


def decode_request(data: Buffer, version: int) -> SaslAuthenticateRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    reader = SASL_AUTHENTICATE.reader(data, version)
    request = SaslAuthenticateRequest(reader.bytes_(), reader.tagged_fields())
    reader.expect_end()
    return request


def encode_response(response: SaslAuthenticateResponse, version: int) -> bytes:
    """The body of the response. Raises ProtocolError for a version outside 0-2."""
    writer = SASL_AUTHENTICATE.writer(version)
    writer.int16(response.error_code)
    writer.nullable_string(response.error_message)
    writer.bytes_(response.auth_bytes)
    if version >= _FIRST_WITH_LIFETIME:
        writer.int64(response.session_lifetime_ms)
    writer.tagged_fields(response.tags)
    return writer.getvalue()


def decode_response(data: Buffer, version: int) -> SaslAuthenticateResponse:
    """The inverse of :func:`encode_response`. Raises ProtocolError."""
    reader = SASL_AUTHENTICATE.reader(data, version)
    response = SaslAuthenticateResponse(
        error_code=reader.int16(),
        error_message=reader.nullable_string(),
        auth_bytes=reader.bytes_(),
        session_lifetime_ms=reader.int64() if version >= _FIRST_WITH_LIFETIME else 0,
        tags=reader.tagged_fields(),
    )
    reader.expect_end()
    return response
