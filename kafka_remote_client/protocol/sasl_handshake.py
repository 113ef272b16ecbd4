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
from kafka_remote_client.protocol.message_layout import MessageLayout

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


_REQUEST = MessageLayout(SASL_HANDSHAKE, SaslHandshakeRequest, "mechanism string")
_RESPONSE = MessageLayout(SASL_HANDSHAKE, SaslHandshakeResponse, "error_code int16 | mechanisms [string]")
encode_request, decode_request = _REQUEST.encode, _REQUEST.decode
encode_response, decode_response = _RESPONSE.encode, _RESPONSE.decode
