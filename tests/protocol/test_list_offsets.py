from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.protocol.api_keys import LIST_OFFSETS
from kafka_remote_client.protocol.list_offsets import (
    FIRST_VERSION,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetSpec,
    encode_request,
)
from tests.support.wire_oracles import DIRECTIONS, check_against_oracles, check_damage, check_round_trip

EVERY_VERSION = pytest.mark.parametrize("version", LIST_OFFSETS.versions)
BOTH_DIRECTIONS = pytest.mark.parametrize("direction", DIRECTIONS)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_decoding_inverts_encoding_with_all_tags(direction: str, version: int, data: st.DataObject) -> None:
    check_round_trip("list_offsets", direction, version, data)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_other_implementations_write_the_same_bytes(direction: str, version: int, data: st.DataObject) -> None:
    check_against_oracles("list_offsets", direction, version, data)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_a_protocol_error_or_another_message(direction: str, version: int, data: st.DataObject) -> None:
    check_damage("list_offsets", direction, version, data)


def test_each_special_timestamp_has_kafkas_number_and_first_version() -> None:
    assert {spec.name: (int(spec), FIRST_VERSION[spec]) for spec in OffsetSpec} == {
        "LATEST": (-1, 1),
        "EARLIEST": (-2, 1),
        "MAX_TIMESTAMP": (-3, 7),
        "EARLIEST_LOCAL": (-4, 8),
        "LATEST_TIERED": (-5, 9),
        "EARLIEST_PENDING_UPLOAD": (-6, 11),
    }


def test_golden_bytes_of_a_question_about_the_tier() -> None:
    wanted = ListOffsetsPartition(3, OffsetSpec.LATEST_TIERED, 2)
    request = ListOffsetsRequest((ListOffsetsTopic("t", (wanted,)),))
    asked = "00000003" + "00000002" + "fffffffffffffffb" + "00"
    assert encode_request(request, 9).hex() == "ffffffff" + "00" + "02" + "0274" + "02" + asked + "00" + "00"
