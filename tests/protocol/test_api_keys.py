from __future__ import annotations

import pytest
from kio.index import load_request_schema
from kio.schema.index import api_key_map, schema_name_map

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, Api, ApiKey, is_flexible

KNOWN_TO_KIO = [(key, version) for key in ApiKey if key in api_key_map for version in sorted(schema_name_map[api_key_map[key]])]


@pytest.mark.parametrize(("key", "version"), KNOWN_TO_KIO)
def test_kio_agrees_on_which_versions_are_flexible(key: ApiKey, version: int) -> None:
    assert is_flexible(key, version) is load_request_schema(key, version).__flexible__


def test_kio_knows_all_of_our_keys_but_the_private_one() -> None:
    assert set(ApiKey) - {key for key, _ in KNOWN_TO_KIO} == {ApiKey.DIRECT_REMOTE_FETCH}


def test_the_private_key_is_announced_and_never_sent_as_flexible() -> None:
    assert ApiKey.DIRECT_REMOTE_FETCH == 32540
    assert not is_flexible(ApiKey.DIRECT_REMOTE_FETCH, 0)


def test_an_unknown_key_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="unknown API key 999"):
        is_flexible(999, 0)


@pytest.mark.parametrize("api", [API_VERSIONS, FETCH, LIST_OFFSETS, METADATA])
def test_only_supported_versions_are_read_and_written(api: Api) -> None:
    for version in (api.versions[0] - 1, api.versions[-1] + 1):
        with pytest.raises(ProtocolError, match="is not one of"):
            api.reader(b"", version)
        with pytest.raises(ProtocolError, match="is not one of"):
            api.writer(version)
    for version in api.versions:
        assert api.reader(b"", version).flexible is api.writer(version).flexible is is_flexible(api.key, version)
