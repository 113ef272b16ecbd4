from __future__ import annotations

import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import ProtocolError, RemoteLogMetadataError
from kafka_remote_client.wire import ZERO_UUID, Reader, Writer, tag_numbers

FLEXIBLE = pytest.mark.parametrize("flexible", [False, True], ids=["classic", "flexible"])


def written(write: Callable[[Writer], None], *, flexible: bool = False) -> bytes:
    writer = Writer(flexible=flexible)
    write(writer)
    return writer.getvalue()


def reader(text: str, *, flexible: bool = False) -> Reader:
    return Reader(bytes.fromhex(text), flexible=flexible)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("boolean", True, "01"),
        ("boolean", False, "00"),
        ("int8", -1, "ff"),
        ("int16", -2, "fffe"),
        ("int32", 0x01020304, "01020304"),
        ("int64", -(1 << 63), "8000000000000000"),
        ("uuid", UUID("00010203-0405-0607-0809-0a0b0c0d0e0f"), "000102030405060708090a0b0c0d0e0f"),
        ("uvarint", 0, "00"),
        ("uvarint", 127, "7f"),
        ("uvarint", 12481, "c161"),
        ("uvarint", 0xFFFFFFFF, "ffffffff0f"),
        ("varint", -1, "01"),
        ("varint", 1, "02"),
        ("varint", (1 << 31) - 1, "feffffff0f"),
        ("varint", -(1 << 31), "ffffffff0f"),
        ("varlong", -1, "01"),
        ("varlong", 1 << 31, "8080808010"),
        ("varlong", -(1 << 63), "ffffffffffffffffff01"),
    ],
)
@FLEXIBLE
def test_numbers_are_encoded_alike_in_every_version(kind: str, value: object, text: str, flexible: bool) -> None:
    assert written(lambda w: getattr(w, kind)(value), flexible=flexible).hex() == text
    assert written(lambda w: (w.raw(b"ab"), getattr(w, kind)(value), w.raw(b"c")), flexible=flexible).hex() == f"6162{text}63"
    source = reader(text, flexible=flexible)
    assert getattr(source, kind)() == value
    source.expect_end()


@pytest.mark.parametrize(
    ("kind", "value", "classic", "flexible"),
    [
        ("string", "kafka", "00056b61666b61", "066b61666b61"),
        ("string", "", "0000", "01"),
        ("nullable_string", None, "ffff", "00"),
        ("nullable_string", "ä", "0002c3a4", "03c3a4"),
        ("bytes_", b"\x00\x01", "000000020001", "030001"),
        ("bytes_", b"", "00000000", "01"),
        ("nullable_bytes", None, "ffffffff", "00"),
        ("nullable_bytes", b"\x07", "0000000107", "0207"),
    ],
)
def test_lengths_are_classic_or_compact(kind: str, value: object, classic: str, flexible: str) -> None:
    for text, is_flexible in ((classic, False), (flexible, True)):
        assert written(lambda w: getattr(w, kind)(value), flexible=is_flexible).hex() == text
        assert written(lambda w: (w.int8(1), getattr(w, kind)(value)), flexible=is_flexible).hex() == f"01{text}"
        source = reader(text, flexible=is_flexible)
        assert getattr(source, kind)() == value
        source.expect_end()


@pytest.mark.parametrize(
    ("items", "classic", "flexible"), [((), "00000000", "01"), (None, "ffffffff", "00"), ((1, 2), "000000020102", "030102")]
)
def test_arrays_are_classic_or_compact(items: tuple[int, ...] | None, classic: str, flexible: str) -> None:
    for text, is_flexible in ((classic, False), (flexible, True)):
        assert written(lambda w: w.nullable_array(items, w.int8), flexible=is_flexible).hex() == text
        source = reader(text, flexible=is_flexible)
        assert source.nullable_array(source.int8) == items


def test_tagged_fields_are_written_in_order_of_their_tags() -> None:
    section = "0200" + "0107" + "c16100"
    fields = {12481: b"", 0: b"\x07"}
    assert written(lambda w: w.tagged_fields(fields), flexible=True).hex() == section
    assert reader(section, flexible=True).tagged_fields() == fields


def test_a_classic_version_has_no_tagged_fields() -> None:
    assert written(lambda w: w.tagged_fields({})) == b""
    assert Reader(b"\x01").tagged_fields() == {}
    with pytest.raises(ProtocolError, match="no tagged fields"):
        written(lambda w: w.tagged_fields({0: b""}))


@pytest.mark.parametrize("section", ["02000000", "0200000000", "0201000000", "02c16100c16100"])
def test_refuses_tagged_fields_out_of_order(section: str) -> None:
    with pytest.raises(ProtocolError):
        reader(section, flexible=True).tagged_fields()


@pytest.mark.parametrize("text", ["ffffffffff", "ffffffff10", "808080808000", "80", ""])
def test_refuses_a_variable_length_integer_beyond_32_bits(text: str) -> None:
    with pytest.raises(ProtocolError):
        reader(text).uvarint()


@pytest.mark.parametrize("text", ["ffffffffffffffffff02", "80808080808080808080" + "00", "80", ""])
def test_refuses_a_variable_length_integer_beyond_64_bits(text: str) -> None:
    with pytest.raises(ProtocolError):
        reader(text).varlong()


@pytest.mark.parametrize(("kind", "value"), [("uvarint", -1), ("uvarint", 1 << 32), ("varint", 1 << 31), ("varlong", 1 << 63)])
def test_refuses_to_write_a_number_that_the_type_cannot_hold(kind: str, value: int) -> None:
    with pytest.raises(ProtocolError, match="variable-length"):
        written(lambda w: getattr(w, kind)(value))


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("80", "uvarint", "a record is truncated by 1 bytes"),
        ("808080808001", "uvarint", "a record has a variable-length integer of more than 32 bits"),
        ("00", "string", "a record has null in a field that is not nullable"),
        ("02ff", "string", "a record has a string that is not UTF-8"),
        ("7f", "array", "a record has an array of 126 items in 0 bytes"),
        ("0201000100", "tagged_fields", "a record has tag 1 after tag 1"),
        ("00", "expect_end", "1 bytes follow a record"),
    ],
)
def test_errors_name_the_data_and_have_the_readers_class(text: str, kind: str, message: str) -> None:
    source = Reader(bytes.fromhex(text), flexible=True, what="a record", error=RemoteLogMetadataError)
    with pytest.raises(RemoteLogMetadataError, match=f"^{message}$"):
        getattr(source, kind)(*([source.int8] if kind == "array" else []))


@pytest.mark.parametrize("kind", ["string", "bytes_", "nullable_view"])
@pytest.mark.parametrize(
    ("text", "flexible"), [("fffe", False), ("fffffffe", False), ("7fff", False), ("7fffffff", False), ("ffffffff0f", True)]
)
def test_an_implausible_length_is_refused(kind: str, text: str, flexible: bool) -> None:
    with pytest.raises(ProtocolError):
        getattr(reader(text, flexible=flexible), kind)()


@pytest.mark.parametrize(("text", "flexible"), [("7fffffff00", False), ("fffffffe", False), ("ffffffff0f00", True)])
def test_an_implausible_count_is_refused(text: str, flexible: bool) -> None:
    source = reader(text, flexible=flexible)
    with pytest.raises(ProtocolError):
        source.array(source.int8)


@pytest.mark.parametrize(("kind", "text"), [("string", "ffff"), ("bytes_", "ffffffff")])
def test_refuses_null_for_a_non_nullable_value(kind: str, text: str) -> None:
    with pytest.raises(ProtocolError, match="null"):
        getattr(reader(text), kind)()


def test_refuses_null_for_a_non_nullable_array() -> None:
    source = reader("ffffffff")
    with pytest.raises(ProtocolError, match="null"):
        source.array(source.int8)


def test_refuses_a_string_that_is_not_utf8() -> None:
    with pytest.raises(ProtocolError, match="UTF-8"):
        reader("0001ff").string()
    with pytest.raises(ProtocolError, match="UTF-8"):
        written(lambda w: w.string("\ud800"))


def test_trailing_bytes_are_an_error() -> None:
    source = reader("0102")
    source.int8()
    with pytest.raises(ProtocolError, match="1 bytes follow"):
        source.expect_end()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int8", 128), ("int16", 1 << 15), ("int32", 1 << 31), ("int64", 1 << 63), ("uvarint", -1), ("uvarint", 1 << 32)],
)
def test_refuses_to_write_a_number_out_of_range(kind: str, value: int) -> None:
    with pytest.raises(ProtocolError, match=r"exceeds|does not fit"):
        written(lambda w: getattr(w, kind)(value))


def test_a_classic_string_has_at_most_32767_bytes() -> None:
    assert len(written(lambda w: w.string("x" * 0x7FFF))) == 0x7FFF + 2
    with pytest.raises(ProtocolError, match="exceeds its length field"):
        written(lambda w: w.string("x" * 0x8000))
    assert len(written(lambda w: w.string("x" * 0x8000), flexible=True)) == 0x8000 + 3


def test_a_view_is_not_a_copy() -> None:
    data = bytearray(struct.pack(">i", 2) + b"ab")
    view = Reader(data).nullable_view()
    data[4] = ord("z")
    assert view == b"zb"


def test_the_rest_is_all_unread_bytes() -> None:
    source = Reader(b"\x01\x02\x03")
    source.int8()
    assert source.rest() == b"\x02\x03"
    assert source.remaining == 0


def test_repr_shows_tags_without_their_values() -> None:
    assert tag_numbers({5: b"secret", 1: b""}) == "<tags [1, 5]>"


def test_the_zero_uuid_is_all_zeros() -> None:
    assert ZERO_UUID.bytes == bytes(16)


@settings(deadline=None)
@given(value=st.integers(-(1 << 31), (1 << 31) - 1))
def test_every_32_bit_number_survives_as_a_varint(value: int) -> None:
    assert Reader(written(lambda w: w.varint(value))).varint() == value


@settings(deadline=None)
@given(data=st.binary(max_size=40), flexible=st.booleans())
def test_any_bytes_give_values_or_a_protocol_error(data: bytes, flexible: bool) -> None:
    source = Reader(data, flexible=flexible)
    try:
        source.nullable_array(source.nullable_string)
        source.nullable_array(source.tagged_section)
        source.nullable_bytes()
        source.varint()
        source.uuid()
    except ProtocolError:
        pass
