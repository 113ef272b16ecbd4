"""The metadata that a range needs to be read: golden bytes, and any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import ForbiddenLocationError, InvalidStorageResponseError
from kafka_remote_client.location_metadata import LocationMetadata

_KEY = bytes(range(32))
GOLDEN = {
    "00": LocationMetadata(),
    "0100 09 68747470733a2f2f68": LocationMetadata(url="https://h"),
    "0101 06 01 02 61 03 6262": LocationMetadata(signed_headers=(("a", "bb"),)),
    "02 02 03 6b2f78 03 01 65": LocationMetadata(object_key="k/x", etag="e"),
    f"02 04 03 000102 05 20 {_KEY.hex()}": LocationMetadata(chunk_table=b"\x00\x01\x02", data_key=_KEY),
    f"04 00 01 75 02 01 6b 04 00 05 20 {_KEY.hex()}": LocationMetadata(url="u", object_key="k", chunk_table=b"", data_key=_KEY),
}


@pytest.mark.parametrize(("text", "value"), list(GOLDEN.items()))
def test_golden_bytes_are_written_and_read(text: str, value: LocationMetadata) -> None:
    raw = bytes.fromhex(text)
    assert value.encode().hex() == raw.hex()
    assert LocationMetadata.decode(raw) == value


@pytest.mark.parametrize("nothing", [None, b""])
def test_no_bytes_are_an_empty_location(nothing: bytes | None) -> None:
    assert LocationMetadata.decode(nothing) == LocationMetadata()


def test_unknown_tags_are_skipped() -> None:
    raw = bytes.fromhex("03 02 01 6b 05 01 ff 64 02 abcd")
    assert LocationMetadata.decode(raw) == LocationMetadata(object_key="k", data_key=b"\xff")


@pytest.mark.parametrize(
    "text",
    [
        "01",  # a field is missing
        "0102",  # a field without a size
        "01020561",  # a truncated field
        "0202016b02016b",  # a repeated tag
        "0203016b02016b",  # tags out of order
        "0102016b00",  # a byte after the end
        "01 02 01 ff",  # not UTF-8
        "01 02 ffffffffff",  # a size without end
        "01 01 03 01 02 61",  # a header without a value
        "01 01 04 01 02 61 00",  # a header whose value is null
        "01 01 05 01 02 61 01 00",  # a byte after the headers
        "01 01 04 01 02 61 05",  # a truncated header value
    ],
)
def test_bytes_that_do_not_parse_are_an_invalid_answer(text: str) -> None:
    with pytest.raises(InvalidStorageResponseError):
        LocationMetadata.decode(bytes.fromhex(text))


@pytest.mark.parametrize("header", [("", "x"), ("a b", "x"), ("a:", "x"), ("a", "x\r\nb: y"), ("a", "\0"), ("ä", "x")])
def test_a_header_with_a_line_break_is_forbidden(header: tuple[str, str]) -> None:
    with pytest.raises(ForbiddenLocationError):
        LocationMetadata.decode(LocationMetadata(signed_headers=(header,)).encode())


def test_repr_shows_no_secret() -> None:
    shown = repr(
        LocationMetadata(
            url="https://secret",
            signed_headers=(("x-secret", "secret"),),
            object_key="a/b.log",
            chunk_table=b"secret",
            data_key=b"secret",
        )
    )
    assert "secret" not in shown
    assert "a/b.log" in shown
    assert "<6 bytes>" in shown
    assert repr(LocationMetadata()) == (
        "LocationMetadata(url=None, signed_headers=(), object_key=None, etag=None, chunk_table=None, data_key=None)"
    )


@given(
    st.builds(
        LocationMetadata,
        url=st.none() | st.text(),
        signed_headers=st.lists(
            st.tuples(st.text("abcXYZ-_09", min_size=1), st.text(st.characters(exclude_characters="\r\n\0", codec="utf-8")))
        ).map(tuple),
        object_key=st.none() | st.text(),
        etag=st.none() | st.text(),
        chunk_table=st.none() | st.binary(max_size=300),
        data_key=st.none() | st.binary(),
    )
)
def test_written_metadata_are_read_back(value: LocationMetadata) -> None:
    assert LocationMetadata.decode(value.encode()) == value


@given(st.binary(max_size=80))
def test_any_bytes_give_a_location_or_a_typed_error(data: bytes) -> None:
    try:
        LocationMetadata.decode(data)
    except (InvalidStorageResponseError, ForbiddenLocationError):
        return
