from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.remote_log.flexible import FlexibleReader, FlexibleWriter


def written(write) -> bytes:
    writer = FlexibleWriter()
    write(writer)
    return writer.getvalue()


@given(st.integers(0, 2**32 - 1))
def test_uvarint_round_trip(value):
    raw = written(lambda w: w.uvarint(value))
    reader = FlexibleReader(raw)
    assert reader.uvarint() == value
    assert reader.remaining == 0


@given(st.text(), st.one_of(st.none(), st.binary()), st.uuids(), st.integers(-128, 127))
def test_fields_round_trip(text, data, uid, small):
    writer = FlexibleWriter()
    writer.string(text)
    writer.nullable_bytes(data)
    writer.uuid(uid)
    writer.int8(small)
    writer.int32(small * 1000)
    writer.int64(small * 10**12)
    writer.array_length(0)
    writer.tags({5: b"five", 1: b""})
    reader = FlexibleReader(writer.getvalue())
    assert (reader.string(), reader.nullable_bytes(), reader.uuid(), reader.int8()) == (text, data, uid, small)
    assert (reader.int32(), reader.int64(), reader.array_length()) == (small * 1000, small * 10**12, 0)
    assert reader.tags() == {1: b"", 5: b"five"}


@pytest.mark.parametrize(
    ("raw", "method", "says"),
    [
        (b"\x80\x80\x80\x80\x80\x01", "uvarint", "more than 5 bytes"),
        (b"\x80", "uvarint", "1 bytes early"),
        (b"\x00", "string", "null where a string"),
        (b"\x02\xff", "string", "not UTF-8"),
        (b"\x05ab", "nullable_bytes", "2 bytes early"),
        (b"\x00", "array_length", "array of -1"),
        (b"\x7f", "array_length", "array of 126"),
        (b"\x02\x01\x00\x01\x00", "tags", "tag 1 after tag 1"),
        (b"\x01\x00\x09", "tags", "9 bytes early"),
        (b"\x00" * 15, "uuid", "1 bytes early"),
        (b"\x00" * 7, "int64", "1 bytes early"),
    ],
)
def test_raises_for(raw, method, says):
    with pytest.raises(RemoteLogMetadataError, match=says):
        getattr(FlexibleReader(raw), method)()


def test_uuid_is_its_sixteen_bytes():
    assert written(lambda w: w.uuid(UUID(int=1))) == bytes(15) + b"\x01"
