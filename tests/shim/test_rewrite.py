"""Addresses in answers are replaced, and nothing else; kio decodes every version in full to check it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import importlib
import io
import uuid
from collections.abc import Iterator
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import ApiKey
from kafka_remote_client.shim.rewrite import names_brokers, rewrite_addresses

REWRITTEN = [
    *((ApiKey.METADATA, "metadata", "MetadataResponse", version) for version in range(14)),
    *((ApiKey.FIND_COORDINATOR, "find_coordinator", "FindCoordinatorResponse", version) for version in range(7)),
    *((ApiKey.DESCRIBE_CLUSTER, "describe_cluster", "DescribeClusterResponse", version) for version in range(3)),
    *((ApiKey.PRODUCE, "produce", "ProduceResponse", version) for version in range(10, 14)),
]
EXAMPLES = {
    "timedelta_i32": dt.timedelta(milliseconds=5),
    "datetime_i64": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
    "error_code": ErrorCode.not_leader_or_follower,
    "uuid": uuid.UUID(int=5),
    "bool": True,
}


def advertise(node_id: int, host: str, port: int) -> tuple[str, int]:
    return f"shim-for-{host}", port + 10_000 + node_id


def response_class(module: str, name: str, version: int) -> Any:
    return getattr(importlib.import_module(f"kio.schema.{module}.v{version}.response"), name)


def encoded(value: Any) -> bytes:
    out = io.BytesIO()
    entity_writer(type(value))(out, value)
    return out.getvalue()


def decoded(kind: Any, body: bytes) -> Any:
    value, end = entity_reader(kind)(body, 0)
    assert end == len(body)
    return value


def brokers_of(value: Any) -> Iterator[Any]:
    """Returns every structure with a host in it, at any depth."""
    if dataclasses.is_dataclass(value):
        if hasattr(value, "host"):
            yield value
        for field in dataclasses.fields(value):
            yield from brokers_of(getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            yield from brokers_of(item)


def rewritten(value: Any) -> Any:
    """Returns the same value with its addresses changed field by field."""
    if isinstance(value, tuple):
        return tuple(rewritten(item) for item in value)
    if not dataclasses.is_dataclass(value):
        return value
    changed = {field.name: rewritten(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "host"):
        changed["host"], changed["port"] = advertise(
            getattr(value, "node_id", getattr(value, "broker_id", 0)), value.host, value.port
        )
    return dataclasses.replace(value, **changed)


def filled(kind: Any, depth: int = 0) -> Any:
    """A value of a kio class with something in every field: two elements in each array, strings where strings go."""
    hints = get_type_hints(kind)
    return kind(**{field.name: _value(hints[field.name], field, depth) for field in dataclasses.fields(kind)})


def _value(hint: Any, field: Any, depth: int) -> Any:
    if get_origin(hint) is tuple:
        return tuple(_value(get_args(hint)[0], field, depth + number + 1) for number in range(2))
    if get_origin(hint) is not None:  # an optional value
        hint = get_args(hint)[0]
    if dataclasses.is_dataclass(hint):
        return filled(hint, depth)
    kafka_type = field.metadata["kafka_type"]
    if kafka_type == "string":
        return f"{field.name}-{depth}"
    return EXAMPLES.get(kafka_type, depth + 1)


@pytest.mark.parametrize(("key", "module", "name", "version"), REWRITTEN)
def test_addresses_are_replaced_and_everything_else_is_kept(key: ApiKey, module: str, name: str, version: int) -> None:
    kind = response_class(module, name, version)
    value = filled(kind)
    assert list(brokers_of(value)), "the example must name brokers"
    body = rewrite_addresses(key, version, encoded(value), advertise)
    assert decoded(kind, body) == rewritten(value)


def test_other_answers_are_unchanged() -> None:
    named = {(key, version) for key in ApiKey for version in range(-1, 30) if names_brokers(key, version)}
    assert named == {(key, version) for key, _, _, version in REWRITTEN}


def test_controllers_are_unchanged() -> None:
    kind = response_class("describe_cluster", "DescribeClusterResponse", 2)
    body = encoded(dataclasses.replace(filled(kind), endpoint_type=2))
    assert rewrite_addresses(ApiKey.DESCRIBE_CLUSTER, 2, body, advertise) == body


def test_an_answer_without_node_endpoints_is_copied() -> None:
    kind = response_class("produce", "ProduceResponse", 12)
    body = encoded(dataclasses.replace(filled(kind), node_endpoints=()))
    assert rewrite_addresses(ApiKey.PRODUCE, 12, body, advertise) == body


def test_unknown_tags_and_fields_are_kept() -> None:
    kind = response_class("metadata", "MetadataResponse", 12)
    value = filled(kind)
    unknown = b"\x01\xf0\x61\x03abc" + b"and a field of the future"
    body = rewrite_addresses(ApiKey.METADATA, 12, encoded(value)[:-1] + unknown, advertise)
    assert body.endswith(unknown)
    assert body[: -len(unknown)] + b"\0" == encoded(rewritten(value))


@pytest.mark.parametrize(("key", "module", "name", "version"), REWRITTEN)
def test_a_truncated_answer_raises_or_ends_after_the_addresses(key: ApiKey, module: str, name: str, version: int) -> None:
    body = encoded(filled(response_class(module, name, version)))
    whole = rewrite_addresses(key, version, body, advertise)
    for size in range(len(body)):
        try:
            cut = rewrite_addresses(key, version, body[:size], advertise)
        except ProtocolError:
            continue
        assert whole.startswith(cut)


@given(st.sampled_from(REWRITTEN), st.binary(max_size=200))
def test_any_bytes_give_an_answer_or_a_protocol_error(example: tuple[ApiKey, str, str, int], body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        rewrite_addresses(example[0], example[3], body, advertise)
