"""Layouts as codecs of classes; those of dictionaries are tested with the messages that use them."""

from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.api_keys import METADATA
from kafka_remote_client.protocol.message_layout import MessageLayout, parse_layout
from kafka_remote_client.wire import Reader, TaggedFields, Writer


@attrs.frozen
class _Part:
    number: int


@attrs.frozen
class _Sample:
    name: str | None = "default"
    parts: tuple[_Part, ...] | None = ()
    late: int = 7
    tags: TaggedFields = attrs.field(factory=dict)


_SAMPLE = MessageLayout(
    METADATA, _Sample, "1-9 name string | 10+ name string? | parts? [number int32] | 9+ late int8", parts=_Part
)


def test_fields_of_another_version_have_the_default_of_the_class() -> None:
    value = _Sample("x", (_Part(1),), 3)
    assert _SAMPLE.decode(_SAMPLE.encode(value, 8), 8) == attrs.evolve(value, late=7)
    assert _SAMPLE.decode(_SAMPLE.encode(value, 9), 9) == value


def test_a_class_keeps_its_tags_and_a_part_without_any_drops_them() -> None:
    value = _Sample("x", (_Part(1),), tags={4: b"t"})
    body = _SAMPLE.encode(value, 9)
    assert body == b"\x02x" + b"\x02" + b"\0\0\0\x01" + b"\0" + b"\x07" + b"\x01\x04\x01t"
    assert _SAMPLE.decode(body.replace(b"\x01\0\x07", b"\x01\x01\x05\x01p\x07"), 9) == value
    with pytest.raises(ProtocolError, match="no tagged fields"):
        _SAMPLE.encode(value, 8)


def test_null_is_the_empty_string_where_a_version_has_no_null() -> None:
    value = _Sample(None, None)
    assert _SAMPLE.decode(_SAMPLE.encode(value, 9), 9) == _Sample("", None)
    assert _SAMPLE.decode(_SAMPLE.encode(value, 10), 10) == value


def test_a_null_array_is_an_error_unless_its_name_allows_it() -> None:
    writer = Writer()
    writer.nullable_array(None, writer.int32)
    assert parse_layout("numbers? [int32]").reading(0)(Reader(writer.getvalue())) == {"numbers": None}
    with pytest.raises(ProtocolError, match="not nullable"):
        parse_layout("numbers [int32]").reading(0)(Reader(writer.getvalue()))


def test_bytes_after_the_message_are_an_error_unless_asked_for() -> None:
    body = _SAMPLE.encode(_Sample("x"), 8) + b"\x09"
    with pytest.raises(ProtocolError, match="1 bytes follow"):
        _SAMPLE.decode(body, 8)
    value, reader = _SAMPLE.decode_front(body, 8)
    assert (value, bytes(reader.rest())) == (_Sample("x"), b"\x09")


def test_a_field_that_its_class_does_not_have_is_found_at_once() -> None:
    with pytest.raises(AssertionError, match="not the fields of"):
        parse_layout("number int32 | missing int8", _Part)
