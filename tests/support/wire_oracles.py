"""Oracles for the wire codecs: kio and kafka-python read our bytes, and any damaged message raises ProtocolError.

kio and kafka-python decode our bytes and encode them again, which must give the same bytes. Their traps: kio refuses a tagged
field or an error code that it does not know; kafka-python drops unknown tagged fields and reads an ApiVersions answer with
any error as version 0. So they judge messages without those; tagged fields are judged by golden bytes.
"""

from __future__ import annotations

import io
from functools import cache
from importlib import import_module
from typing import Any

import pytest
from hypothesis import strategies as st
from kafka.protocol import consumer as kafka_consumer
from kafka.protocol import metadata as kafka_metadata
from kafka.protocol import sasl as kafka_sasl
from kio.serial import entity_reader, entity_writer

from kafka_remote_client.errors import ProtocolError
from tests.support import wire_values

__all__ = ["DIRECTIONS", "check_against_oracles", "check_damage", "check_round_trip"]

DIRECTIONS = ("request", "response")

_KAFKA_PYTHON = {
    "api_versions": (kafka_metadata.ApiVersionsRequest, kafka_metadata.ApiVersionsResponse),
    "fetch": (kafka_consumer.FetchRequest, kafka_consumer.FetchResponse),
    "list_offsets": (kafka_consumer.ListOffsetsRequest, kafka_consumer.ListOffsetsResponse),
    "metadata": (kafka_metadata.MetadataRequest, kafka_metadata.MetadataResponse),
    "sasl_authenticate": (kafka_sasl.SaslAuthenticateRequest, kafka_sasl.SaslAuthenticateResponse),
    "sasl_handshake": (kafka_sasl.SaslHandshakeRequest, kafka_sasl.SaslHandshakeResponse),
}


def check_round_trip(api: str, direction: str, version: int, data: st.DataObject) -> None:
    """Checks that a drawn value with raw tagged fields is the same after encoding and decoding."""
    value = _draw(api, direction, version, data, tags=True)
    assert _ours(api, "decode", direction)(_ours(api, "encode", direction)(value, version), version) == value


def check_against_oracles(api: str, direction: str, version: int, data: st.DataObject) -> None:
    """Checks that kio and kafka-python decode our bytes of a drawn value, and encode the same ones."""
    value = _draw(api, direction, version, data, tags=False)
    body = _ours(api, "encode", direction)(value, version)
    assert _kio_again(api, direction, version, body) == body
    if api != "api_versions" or not getattr(value, "error_code", 0):
        assert _kafka_python_again(api, direction, version, body) == body


def check_damage(api: str, direction: str, version: int, data: st.DataObject) -> None:
    """Checks that a body with a removed or replaced piece decodes or raises ProtocolError."""
    body = _ours(api, "encode", direction)(_draw(api, direction, version, data, tags=True), version)
    start = data.draw(st.integers(0, len(body)), "start")
    end = data.draw(st.integers(start, min(start + 8, len(body))), "end")
    damaged = body[:start] + data.draw(st.binary(max_size=8), "instead") + body[end:]
    try:
        _ours(api, "decode", direction)(damaged, version)
    except ProtocolError:
        return
    except BaseException as error:
        pytest.fail(f"{api} {direction} version {version}: {error!r} for {damaged.hex()}")


def _draw(api: str, direction: str, version: int, data: st.DataObject, *, tags: bool) -> Any:
    return data.draw(_strategy(api, direction, version, tags), direction)


@cache
def _strategy(api: str, direction: str, version: int, tags: bool) -> st.SearchStrategy[Any]:
    """Cached, because Hypothesis checks each new strategy, which takes most of the time of an example."""
    strategy: st.SearchStrategy[Any] = getattr(getattr(wire_values, api)(version, tags=tags), direction)()
    return strategy


def _ours(api: str, verb: str, direction: str) -> Any:
    return getattr(import_module(f"kafka_remote_client.protocol.{api}"), f"{verb}_{direction}")


def _kio_again(api: str, direction: str, version: int, body: bytes) -> bytes:
    module = import_module(f"kio.schema.{api}.v{version}.{direction}")
    entity = getattr(module, "".join(part.capitalize() for part in api.split("_")) + direction.capitalize())
    decoded, size = entity_reader(entity)(body, 0)
    assert size == len(body)
    out = io.BytesIO()
    entity_writer(entity)(out, decoded)
    return out.getvalue()


def _kafka_python_again(api: str, direction: str, version: int, body: bytes) -> bytes:
    message: Any = _KAFKA_PYTHON[api][direction == "response"]
    decoded = message.decode(body, version=version)
    decoded._header = None  # it cannot be encoded with the one that it was decoded with
    return bytes(decoded.encode(version=version))
