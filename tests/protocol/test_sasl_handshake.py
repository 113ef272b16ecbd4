from __future__ import annotations

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    decode_response,
    encode_request,
)


def test_golden_bytes() -> None:
    assert encode_request(SaslHandshakeRequest("PLAIN"), 1).hex() == "0005504c41494e"
    assert decode_response(bytes.fromhex("0021" + "00000001" + "0005504c41494e"), 1) == SaslHandshakeResponse(33, ("PLAIN",))


def test_version_0_with_unframed_tokens_is_not_supported() -> None:
    with pytest.raises(ProtocolError, match="version 0"):
        encode_request(SaslHandshakeRequest("PLAIN"), 0)
