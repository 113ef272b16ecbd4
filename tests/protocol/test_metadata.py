from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.protocol.api_keys import METADATA
from kafka_remote_client.protocol.metadata import (
    MetadataBroker,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.support.wire_oracles import DIRECTIONS, check_against_oracles, check_damage, check_round_trip

EVERY_VERSION = pytest.mark.parametrize("version", METADATA.versions)
BOTH_DIRECTIONS = pytest.mark.parametrize("direction", DIRECTIONS)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_decoding_inverts_encoding_with_all_tags(direction: str, version: int, data: st.DataObject) -> None:
    check_round_trip("metadata", direction, version, data)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_other_implementations_write_the_same_bytes(direction: str, version: int, data: st.DataObject) -> None:
    check_against_oracles("metadata", direction, version, data)


@BOTH_DIRECTIONS
@EVERY_VERSION
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_a_protocol_error_or_another_message(direction: str, version: int, data: st.DataObject) -> None:
    check_damage("metadata", direction, version, data)


def test_bytes_after_the_message_are_ignored() -> None:
    response = MetadataResponse((MetadataBroker(1, "localhost", 9092),), (), "cluster")
    assert decode_response(encode_response(response, 12) + b"\x00", 12) == response


def test_a_topic_without_a_name_is_empty_where_null_does_not_exist() -> None:
    request = MetadataRequest((MetadataRequestTopic(None),))
    assert decode_request(encode_request(request, 9), 9).topics == (MetadataRequestTopic(""),)
    response = MetadataResponse((), (MetadataTopic(None),))
    assert decode_response(encode_response(response, 11), 11).topics == (MetadataTopic(""),)


def test_old_versions_say_nothing_of_creating_topics_and_mean_yes() -> None:
    assert decode_request(encode_request(MetadataRequest(()), 3), 3).allow_auto_topic_creation
    assert not decode_request(encode_request(MetadataRequest(()), 4), 4).allow_auto_topic_creation
