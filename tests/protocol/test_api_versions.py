from __future__ import annotations

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import API_VERSIONS, ApiKey
from kafka_remote_client.protocol.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeature,
    decode_response,
    encode_response,
)


def response(*keys: tuple[int, int, int], features: tuple[SupportedFeature, ...] = ()) -> ApiVersionsResponse:
    return ApiVersionsResponse(api_keys=tuple(ApiVersion(*key) for key in keys), supported_features=features)


def test_an_unsupported_version_is_answered_in_version_0() -> None:
    body = bytes.fromhex("0023" + "00000001" + "001200000004")
    for version in API_VERSIONS.versions:
        assert decode_response(body, version) == ApiVersionsResponse(35, (ApiVersion(ApiKey.API_VERSIONS, 0, 4),))


def test_a_refusal_that_does_not_parse_is_a_protocol_error() -> None:
    # librdkafka's mock cluster, asked at version 3: a compact array inside a body of version 0.
    with pytest.raises(ProtocolError):
        decode_response(bytes.fromhex("0023" + "01" + "001200000002" + "00000000"), 3)


@pytest.mark.parametrize(
    ("spoken", "best"), [((4, 18), 18), ((0, 12), 12), ((0, 11), None), ((19, 20), None), ((15, 40), 18), ((12, 12), 12)]
)
def test_the_best_version_is_the_highest_that_both_support(spoken: tuple[int, int], best: int | None) -> None:
    assert response((ApiKey.FETCH, *spoken)).best_version(ApiKey.FETCH, range(12, 19)) == best


def test_a_message_that_the_peer_lacks_has_no_best_version() -> None:
    assert response((ApiKey.METADATA, 0, 9)).best_version(ApiKey.FETCH, range(12, 19)) is None


@pytest.mark.parametrize(
    ("answer", "announced"),
    [
        (response((ApiKey.FETCH, 4, 18)), False),
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 0)), True),
        (response((ApiKey.DIRECT_REMOTE_FETCH, 1, 2)), False),
        (response(features=(SupportedFeature("direct.remote.fetch", 1, 1),)), True),
        (response(features=(SupportedFeature("direct.remote.fetch", 1, 2),)), True),
        (response(features=(SupportedFeature("direct.remote.fetch", 2, 3),)), False),
        (response(features=(SupportedFeature("metadata.version", 1, 29),)), False),
    ],
)
def test_either_announcement_of_the_dialect_is_enough(answer: ApiVersionsResponse, announced: bool) -> None:
    assert answer.announces_direct_fetch is announced


@pytest.mark.parametrize(
    ("answer", "announced"),
    [
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 0), features=(SupportedFeature("direct.remote.fetch", 1, 1),)), False),
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 1)), True),
        (response(features=(SupportedFeature("direct.remote.fetch", 1, 2),)), True),
        (response(features=(SupportedFeature("metadata.version", 1, 29),)), False),
    ],
)
def test_either_announcement_of_batches_is_enough(answer: ApiVersionsResponse, announced: bool) -> None:
    assert answer.announces_many_partitions is announced


@pytest.mark.parametrize("version", API_VERSIONS.versions)
def test_every_version_carries_the_announcement(version: int) -> None:
    assert decode_response(encode_response(response((1, 4, 18)).announcing(), version), version).announces_direct_fetch


def test_a_second_announcement_changes_nothing() -> None:
    once = response((ApiKey.FETCH, 4, 18), features=(SupportedFeature("kraft.version", 0, 1),)).announcing()
    assert once.announcing() == once
    assert once.api_keys[0] == ApiVersion(ApiKey.FETCH, 4, 18)
    assert once.supported_features[0].name == "kraft.version"


@pytest.mark.parametrize(
    ("answer", "announced"),
    [
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 1), features=(SupportedFeature("direct.remote.fetch", 1, 2),)), False),
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 2)), True),
        (response(features=(SupportedFeature("direct.remote.fetch", 1, 3),)), True),
        (response().announcing(), True),
    ],
)
def test_either_announcement_of_large_positions_is_enough(answer: ApiVersionsResponse, announced: bool) -> None:
    assert answer.announces_large_positions is announced


@pytest.mark.parametrize(
    ("answer", "announced"),
    [
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 2), features=(SupportedFeature("direct.remote.fetch", 1, 3),)), False),
        (response((ApiKey.DIRECT_REMOTE_FETCH, 0, 3)), True),
        (response(features=(SupportedFeature("direct.remote.fetch", 1, 4),)), True),
        (response().announcing(), True),
    ],
)
def test_either_announcement_of_segment_lists_is_enough(answer: ApiVersionsResponse, announced: bool) -> None:
    assert answer.announces_segment_lists is announced


def test_golden_bytes_of_the_announcement() -> None:
    keys = "02" + "7f1c00000003" + "00"
    features = "02" + "14" + b"direct.remote.fetch".hex() + "00010004" + "00"
    body = "0000" + keys + "00000000" + "01" + "00" + "1a" + features
    assert encode_response(ApiVersionsResponse().announcing(), 3).hex() == body
