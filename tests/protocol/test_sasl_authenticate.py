from __future__ import annotations

from kafka_remote_client.protocol.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    decode_response,
    encode_request,
)


def test_golden_bytes() -> None:
    assert encode_request(SaslAuthenticateRequest(b"\0u\0p"), 1).hex() == "00000004" + "00750070"
    answer = bytes.fromhex("0000" + "ffff" + "00000000" + "0000000000000bb8")
    assert decode_response(answer, 1) == SaslAuthenticateResponse(session_lifetime_ms=3000)


def test_no_repr_shows_auth_bytes() -> None:
    assert "hush" not in repr(SaslAuthenticateRequest(b"\0me\0hush"))
    assert "hush" not in repr(SaslAuthenticateResponse(auth_bytes=b"hush"))
