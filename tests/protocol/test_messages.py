"""Every message in each version and direction: round trip, equal to other implementations, and with damaged bytes."""

from __future__ import annotations

from importlib import import_module

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.protocol.api_keys import API_VERSIONS, FETCH, LIST_OFFSETS, METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from kafka_remote_client.protocol.fetch import NO_SESSION_EPOCH
from kafka_remote_client.protocol.metadata import NO_LEADER, OPERATIONS_NOT_ASKED
from kafka_remote_client.wire import ZERO_UUID, tag_numbers
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


def _messages() -> list[type]:
    modules = [import_module(f"kafka_remote_client.protocol.{name}") for name in (*_APIS, "headers")]
    classes = [cls for module in modules for cls in vars(module).values() if isinstance(cls, type) and attrs.has(cls)]
    return sorted({cls for cls in classes if "tags" in attrs.fields_dict(cls)}, key=lambda cls: cls.__qualname__)


def test_no_repr_shows_the_values_of_tags() -> None:
    tagged = {cls: attrs.fields_dict(cls)["tags"] for cls in _messages()}
    assert len(tagged) > 20
    assert [cls for cls, tags in tagged.items() if tags.repr is not tag_numbers] == []
    assert [cls for cls, tags in tagged.items() if tags.default != attrs.Factory(dict)] == []


_NOT_ZERO = {
    "cluster_authorized_operations": -(1 << 31),
    "controller_id": -1,
    "current_leader_epoch": -1,
    "high_watermark": -1,
    "last_fetched_epoch": -1,
    "last_stable_offset": -1,
    "leader_epoch": -1,
    "log_start_offset": -1,
    "offset": -1,
    "preferred_read_replica": -1,
    "replica_id": -1,
    "session_epoch": -1,
    "timeout_ms": 30_000,
    "timestamp": -1,
    "topic_authorized_operations": -(1 << 31),
}
"""By Kafka's message schemas; ``timeout_ms`` has no default there."""


def test_a_missing_field_has_the_default_of_kafkas_schema() -> None:
    told = {(cls, field.name): field.default for cls in _messages() for field in attrs.fields(cls) if field.name != "tags"}
    given = {key: value for key, value in told.items() if value is not attrs.NOTHING}
    assert len(given) > 50
    numbers = {key: int(value) for key, value in given.items() if isinstance(value, int)}
    assert numbers == {(cls, name): _NOT_ZERO.get(name, 0) for cls, name in numbers}
    others = {key: value for key, value in given.items() if key not in numbers}
    assert {value for value in others.values() if value is not None} == {"", (), b"", ZERO_UUID}
    nullable = {f"{cls.__name__}.{name}" for (cls, name), value in others.items() if value is None}
    assert nullable == {
        "MetadataBroker.rack",
        "MetadataRequest.topics",
        "MetadataRequestTopic.name",
        "MetadataResponse.cluster_id",
        "PartitionData.aborted_transactions",
        "PartitionData.records",
        "RequestHeader.client_id",
        "SaslAuthenticateResponse.error_message",
    }
    assert (NO_LEADER, NO_SESSION_EPOCH, OPERATIONS_NOT_ASKED) == (-1, -1, -(1 << 31))
