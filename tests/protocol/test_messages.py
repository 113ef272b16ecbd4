"""Every message in every version and both directions: there and back, against other implementations, and damaged."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.protocol.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.support.wire_oracles import DIRECTIONS, check_against_oracles, check_damage, check_round_trip

_APIS = {
    "api_versions": API_VERSIONS,
    "fetch": FETCH,
    "list_offsets": LIST_OFFSETS,
    "metadata": METADATA,
    "sasl_authenticate": SASL_AUTHENTICATE,
    "sasl_handshake": SASL_HANDSHAKE,
}
EVERY_MESSAGE = pytest.mark.parametrize(
    ("message", "direction", "version"),
    [(name, direction, version) for name, api in _APIS.items() for direction in DIRECTIONS for version in api.versions],
)


@EVERY_MESSAGE
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_decoding_inverts_encoding_with_all_tags(message: str, direction: str, version: int, data: st.DataObject) -> None:
    check_round_trip(message, direction, version, data)


@EVERY_MESSAGE
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_other_implementations_write_the_same_bytes(message: str, direction: str, version: int, data: st.DataObject) -> None:
    check_against_oracles(message, direction, version, data)


@EVERY_MESSAGE
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_a_protocol_error_or_another_message(
    message: str, direction: str, version: int, data: st.DataObject
) -> None:
    check_damage(message, direction, version, data)
