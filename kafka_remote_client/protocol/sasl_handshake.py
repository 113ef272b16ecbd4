"""SaslHandshake, version 1: which mechanism a connection is to be authenticated with.

::

    request   Mechanism STRING
    response  ErrorCode i16 | Mechanisms [STRING]: those that the broker has

Version 0 is not spoken: after it tokens follow that stand in no frame.

References: KIP-43, KIP-152.
"""

from __future__ import annotations

import attrs

from kafka_remote_client.protocol.api_keys import SASL_HANDSHAKE
from kafka_remote_client.protocol.error_codes import ErrorCode
from kafka_remote_client.wire import Buffer

__all__ = [
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "decode_request",
    "decode_response",
    "encode_request",
    "encode_response",
]


@attrs.frozen
class SaslHandshakeRequest:
    """The mechanism, by its SASL name."""

    mechanism: str


@attrs.frozen
class SaslHandshakeResponse:
    """``error_code`` UNSUPPORTED_SASL_MECHANISM where the one asked for is not among ``mechanisms``."""

    error_code: int = ErrorCode.NONE
    mechanisms: tuple[str, ...] = ()


def encode_request(request: SaslHandshakeRequest, version: int) -> bytes:
    """The body of the request. Raises ProtocolError for a version other than 1."""
    writer = SASL_HANDSHAKE.writer(version)
    writer.string(request.mechanism)
    return writer.getvalue()


def decode_request(data: Buffer, version: int) -> SaslHandshakeRequest:
    """The inverse of :func:`encode_request`. Raises ProtocolError."""
    reader = SASL_HANDSHAKE.reader(data, version)
    request = SaslHandshakeRequest(reader.string())
    reader.expect_end()
    return request


def encode_response(response: SaslHandshakeResponse, version: int) -> bytes:
    """The body of the response. Raises ProtocolError for a version other than 1."""
    writer = SASL_HANDSHAKE.writer(version)
    writer.int16(response.error_code)
    writer.array(response.mechanisms, writer.string)
    return writer.getvalue()


def decode_response(data: Buffer, version: int) -> SaslHandshakeResponse:
    """The inverse of :func:`encode_response`. Raises ProtocolError."""
    reader = SASL_HANDSHAKE.reader(data, version)
    response = SaslHandshakeResponse(reader.int16(), reader.array(reader.string))
    reader.expect_end()
    return response
