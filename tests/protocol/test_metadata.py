from __future__ import annotations

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


def test_bytes_after_the_message_are_ignored() -> None:
    response = MetadataResponse((MetadataBroker(1, "localhost", 9092),), (), "cluster")
    assert decode_response(encode_response(response, 12) + b"\x00", 12) == response


def test_a_topic_without_a_name_is_empty_in_versions_without_null() -> None:
    request = MetadataRequest((MetadataRequestTopic(None),))
    assert decode_request(encode_request(request, 9), 9).topics == (MetadataRequestTopic(""),)
    response = MetadataResponse((), (MetadataTopic(None),))
    assert decode_response(encode_response(response, 11), 11).topics == (MetadataTopic(""),)


def test_old_versions_always_allow_topic_creation() -> None:
    assert decode_request(encode_request(MetadataRequest(()), 3), 3).allow_auto_topic_creation
    assert not decode_request(encode_request(MetadataRequest(()), 4), 4).allow_auto_topic_creation
