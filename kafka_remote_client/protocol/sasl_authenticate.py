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
from kafka_remote_client.protocol.message_layout import MessageLayout
from kafka_remote_client.wire import TaggedFields, tag_numbers

__all__ = [
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]


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


_REQUEST = MessageLayout(SASL_AUTHENTICATE, SaslAuthenticateRequest, "auth_bytes bytes")
_RESPONSE = MessageLayout(
    SASL_AUTHENTICATE,
    SaslAuthenticateResponse,
    "error_code int16 | error_message string? | auth_bytes bytes | 1+ session_lifetime_ms int64",
)
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
encode_response, decode_response = _RESPONSE.encode, _RESPONSE.decode
