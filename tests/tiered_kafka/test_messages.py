"""Layouts that are written as text decode and encode messages of all their versions."""

from __future__ import annotations

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.tiered_kafka.messages import MESSAGES, Message
from kafka_remote_client.wire import Writer

SAMPLE = Message(
    "Sample", 99, range(3), 2,
    "1+ flag bool | name string? | parts [number int32 | 0-1 old int16 | tags [string]]",
    "error int16 | 2+ data bytes | 1+ parts [id uuid]",
)  # fmt: skip


def test_requests_have_the_fields_of_their_version() -> None:
    writer = Writer()
    writer.boolean(True)
    writer.nullable_string(None)
    writer.array([7], writer.int32)
    writer.int16(3)
    writer.array(["a", "b"], writer.string)
    part = {"number": 7, "old": 3, "tags": ("a", "b")}
    assert SAMPLE.decode_request(writer.getvalue(), 1) == {"flag": True, "name": None, "parts": (part,)}


def test_flexible_requests_have_compact_lengths_and_tags() -> None:
    data = b"\x01" + b"\x02x" + b"\x02" + b"\0\0\0\x07" + b"\x01" + b"\0" + b"\x01\x09\x01z"
    part = {"number": 7, "old": 0, "tags": ()}
    assert SAMPLE.decode_request(data, 2) == {"flag": True, "name": "x", "parts": (part,)}
    with pytest.raises(ProtocolError, match="the Sample request"):
        SAMPLE.decode_request(data + b"\0", 2)


@pytest.mark.parametrize(
    ("version", "encoded"), [(0, b"\0\x05"), (1, b"\0\x05" + b"\0\0\0\0"), (2, b"\0\x05" + b"\x01" + b"\x01" + b"\0")]
)
def test_fields_that_are_left_out_have_defaults(version: int, encoded: bytes) -> None:
    assert SAMPLE.encode_response({"error": 5}, version) == encoded


def test_response_with_another_field_raises() -> None:
    with pytest.raises(ProtocolError, match="colour"):
        SAMPLE.encode_response({"colour": 1}, 0)


@pytest.mark.parametrize("message", MESSAGES.values(), ids=lambda one: one.name)
def test_empty_answers_encode_in_each_version(message: Message) -> None:
    for version in message.versions:
        assert message.encode_response({}, version)
