"""The versions offered to clients: at most those that the shim reads, and never an empty range."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.protocol.api_versions import ApiVersion, ApiVersionsResponse, decode_response, encode_response
from kafka_remote_client.shim.frames import RequestHead
from kafka_remote_client.shim.offered_versions import announce, check_version

NEW_BROKER = ApiVersionsResponse(
    api_keys=(
        ApiVersion(ApiKey.PRODUCE, 0, 13),
        ApiVersion(ApiKey.FETCH, 4, 18),
        ApiVersion(ApiKey.METADATA, 0, 14),
        ApiVersion(ApiKey.FIND_COORDINATOR, 0, 9),
        ApiVersion(ApiKey.SASL_HANDSHAKE, 0, 2),
        ApiVersion(ApiKey.SHARE_GROUP_HEARTBEAT, 0, 1),
        ApiVersion(ApiKey.SHARE_FETCH, 0, 2),
        ApiVersion(ApiKey.SHARE_ACKNOWLEDGE, 0, 2),
        ApiVersion(ApiKey.DESCRIBE_CLUSTER, 0, 3),
        ApiVersion(999, 3, 4),
    )
)


def offered(version: int, response: ApiVersionsResponse = NEW_BROKER, **overrides: range) -> dict[int, tuple[int, int]]:
    keys = {ApiKey[name]: versions for name, versions in overrides.items()}
    answer = decode_response(announce(version, encode_response(response, version), keys), version)
    return {entry.api_key: (entry.min_version, entry.max_version) for entry in answer.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_only_messages_that_the_shim_reads_are_bounded(version: int) -> None:
    assert offered(version) == {
        ApiKey.PRODUCE: (0, 13),
        ApiKey.FETCH: (4, 15),
        ApiKey.METADATA: (0, 13),
        ApiKey.FIND_COORDINATOR: (0, 6),
        ApiKey.SASL_HANDSHAKE: (1, 1),
        ApiKey.DESCRIBE_CLUSTER: (0, 2),
        999: (3, 4),
        ApiKey.DIRECT_REMOTE_FETCH: (0, 3),
    }


@pytest.mark.parametrize("version", range(5))
def test_the_shim_announces_itself_in_every_version(version: int) -> None:
    answer = decode_response(announce(version, encode_response(NEW_BROKER, version), {}), version)
    assert answer.announces_direct_fetch
    assert bool(answer.supported_features) == (version >= 3)


def test_a_message_with_only_newer_versions_is_not_offered() -> None:
    future = ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.FETCH, 16, 20), ApiVersion(ApiKey.METADATA, 13, 15)))
    assert offered(3, future) == {ApiKey.METADATA: (13, 13), ApiKey.DIRECT_REMOTE_FETCH: (0, 3)}


def test_a_strategy_may_offer_more_than_the_broker_has() -> None:
    old = ApiVersionsResponse(api_keys=(ApiVersion(ApiKey.LIST_OFFSETS, 0, 7),))
    assert offered(3, old, LIST_OFFSETS=range(1, 10))[ApiKey.LIST_OFFSETS] == (1, 9)


@pytest.mark.parametrize("body", [b"\x00\x23\x00\x00\x00\x00", b"\x00\x23 whatever this is"])
def test_an_error_answer_is_not_changed(body: bytes) -> None:
    assert announce(4, body, {}) == body


def test_an_answer_to_a_newer_request_is_read_in_the_newest_known_format() -> None:
    body = encode_response(NEW_BROKER, 4)
    assert announce(5, body, {}) == announce(4, body, {})


def test_an_answer_that_does_not_parse_raises() -> None:
    with pytest.raises(ProtocolError):
        announce(3, b"\x00\x00\xff", {})


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.FETCH, 16),
        (ApiKey.METADATA, 14),
        (ApiKey.SASL_HANDSHAKE, 0),
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1),
        (ApiKey.SHARE_FETCH, 1),
        (ApiKey.SHARE_ACKNOWLEDGE, 2),
        (ApiKey.PRODUCE, -1),
    ],
)
def test_requests_that_were_not_offered_are_refused(key: int, version: int) -> None:
    with pytest.raises(ProtocolError, match="is not supported"):
        check_version(RequestHead(key, version, 1))


@pytest.mark.parametrize(("key", "version"), [(ApiKey.FETCH, 15), (ApiKey.PRODUCE, 99), (12_345, 7)])
def test_other_requests_pass(key: int, version: int) -> None:
    check_version(RequestHead(key, version, 1))


def test_answers_that_are_kept_depend_on_version_body_and_overrides() -> None:
    plain, bounded = offered(3), offered(3, FETCH=range(12, 14))
    assert bounded != plain
    assert offered(3) == plain
    other = offered(3, ApiVersionsResponse(api_keys=(ApiVersion(999, 0, 1),)))
    assert other[999] == (0, 1)
    assert ApiKey.METADATA not in other


@pytest.mark.parametrize(("entries", "is_kept"), [(2729, True), (2730, False)])
def test_answers_of_more_than_16_kib_are_not_kept(entries: int, is_kept: bool) -> None:
    body = encode_response(ApiVersionsResponse(api_keys=tuple(ApiVersion(1000 + number, 0, 1) for number in range(entries))), 0)
    assert (len(body) <= 16 << 10) == is_kept
    first, again = (announce(0, body, {}) for _ in range(2))
    assert bool(first is again) == is_kept, "a kept answer is the same object"
