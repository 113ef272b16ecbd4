from __future__ import annotations

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.serial import entity_reader, entity_writer

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
    frame,
)


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (RequestHeader(ApiKey.FETCH, 11, 7, "me"), "0001000b0000000700026d65"),
        (RequestHeader(ApiKey.FETCH, 12, 7, "me"), "0001000c0000000700026d6500"),
        (RequestHeader(ApiKey.FETCH, 12, 7, None), "0001000c00000007ffff00"),
        (RequestHeader(ApiKey.FETCH, 12, 7, "", {9: b"\x01"}), "0001000c00000007000001090101"),
    ],
)
def test_the_client_id_stays_classic_and_tags_follow_it(header: RequestHeader, text: str) -> None:
    assert encode_request_header(header).hex() == text
    assert decode_request_header(bytes.fromhex(text) + b"body") == (header, b"body")


@pytest.mark.parametrize(
    ("key", "version"), [(ApiKey.FETCH, 11), (ApiKey.FETCH, 18), (ApiKey.API_VERSIONS, 4), (ApiKey.SASL_HANDSHAKE, 1)]
)
def test_kio_writes_the_same_request_headers(key: ApiKey, version: int) -> None:
    schema = load_request_schema(key, version).__header_schema__
    body = encode_request_header(RequestHeader(key, version, 12, "client"))
    decoded, size = entity_reader(schema)(body, 0)
    out = io.BytesIO()
    entity_writer(schema)(out, decoded)
    assert (size, out.getvalue()) == (len(body), body)


@pytest.mark.parametrize(
    ("key", "version", "text"),
    [
        (ApiKey.FETCH, 11, "00000007"),
        (ApiKey.FETCH, 12, "0000000700"),
        (ApiKey.API_VERSIONS, 4, "00000007"),
    ],
)
def test_flexible_responses_have_tags_except_api_versions(key: ApiKey, version: int, text: str) -> None:
    assert encode_response_header(key, version, 7).hex() == text
    assert decode_response_header(key, version, bytes.fromhex(text) + b"body") == (7, b"body")


def test_tags_of_a_response_header_are_skipped() -> None:
    assert decode_response_header(ApiKey.FETCH, 12, bytes.fromhex("000000070105026869") + b"body") == (7, b"body")


def test_a_frame_begins_with_the_length_of_the_rest() -> None:
    assert frame(b"head", b"body!") == b"\x00\x00\x00\x09headbody!"


def test_the_header_of_an_unknown_message_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="unknown API key"):
        encode_request_header(RequestHeader(999, 0, 1))


@settings(deadline=None)
@given(st.binary(max_size=24))
def test_any_bytes_give_a_header_or_a_protocol_error(data: bytes) -> None:
    for decode in (decode_request_header, lambda body: decode_response_header(ApiKey.FETCH, 12, body)):
        with contextlib.suppress(ProtocolError):
            decode(data)
