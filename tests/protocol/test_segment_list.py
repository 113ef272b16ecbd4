"""Lists of segments on the wire: bytes, pages, and what is refused on both sides."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentPage, TaggedDialect
from kafka_remote_client.protocol.segment_list import ENTRY_BYTES, SegmentEntry, decode_entries, encode_entries

ID = UUID("0f0e0d0c-0b0a-0908-0706-050403020100")
ENTRY = SegmentEntry(ID.bytes, 900, 2899, 950, 2000, 2, 1_700_000_000_000, 6 << 30)
NEXT = ENTRY._replace(segment_id=UUID(int=1).bytes, start_offset=1990, first_offset=2000, next_offset=2900, max_timestamp_ms=-1)
REQUEST = LocationRequest((), batched=True, list_start=900)
dialect = TaggedDialect()


def test_golden_bytes_of_a_list() -> None:
    assert encode_entries([ENTRY]).hex() == (
        "0f0e0d0c0b0a090807060504030201000000000000000384 0000000000000b53 00000000000003b6 00000000000007d0".replace(" ", "")
        + "00000002 0000018bcfe56800 0000000180000000".replace(" ", "")
    )
    assert len(encode_entries([ENTRY])) == ENTRY_BYTES == 68
    assert ENTRY.id == ID


def test_golden_bytes_of_a_page_and_its_request() -> None:
    root, partition = dialect.request_tags(REQUEST)
    assert (root, partition) == ({}, {12481: b"\1", 12491: b"\xff" * 8, 12498: bytes.fromhex("0000000000000384")})
    tags = dialect.page_tags(SegmentPage((ENTRY,), 2000))
    assert tags == {12499: encode_entries([ENTRY]), 12500: bytes.fromhex("00000000000007d0")}
    assert set(dialect.page_tags(SegmentPage(()))) == {12499}


def test_requests_and_pages_are_read_as_they_are_written() -> None:
    assert dialect.read_request(*dialect.request_tags(REQUEST)) == REQUEST
    assert not set(dialect.strip_request(dialect.request_tags(REQUEST)[1]))
    for page in (SegmentPage(()), SegmentPage((ENTRY, NEXT)), SegmentPage((ENTRY, NEXT), 2900)):
        assert dialect.read_page(dialect.page_tags(page), 950) == page
    assert dialect.read_page({12482: b""}, 0) is None


@pytest.mark.parametrize("tags", [{12498: b"\xff" * 8, 12491: b"\xff" * 8}, {12498: bytes(8)}, {12498: bytes(7)}])
def test_a_wrong_request_for_a_list_is_refused(tags: dict[int, bytes]) -> None:
    with pytest.raises(ProtocolError):
        dialect.read_request({}, {12481: b"\1", **tags})


@pytest.mark.parametrize(
    "changes",
    [
        {"start_offset": -1, "first_offset": -1},
        {"start_offset": 951},
        {"next_offset": 950},
        {"next_offset": 2901},
        {"leader_epoch": -1},
        {"max_timestamp_ms": -2},
        {"size_in_bytes": 0},
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="contradicts itself"):
        encode_entries([ENTRY._replace(**changes)])
    entry = ENTRY._replace(**changes)
    with pytest.raises(ProtocolError, match="contradicts itself"):
        decode_entries(struct.pack(">16sqqqqiqq", *entry))


def test_a_partial_entry_or_a_wrong_order_is_refused() -> None:
    with pytest.raises(ProtocolError, match="partial entry"):
        decode_entries(encode_entries([ENTRY])[:-1])
    with pytest.raises(ProtocolError, match="not in order"):
        decode_entries(encode_entries([NEXT]) + encode_entries([ENTRY]))
    with pytest.raises(ProtocolError, match="not in order"):
        encode_entries([ENTRY, NEXT._replace(first_offset=1999)])


@pytest.mark.parametrize("page", [SegmentPage((), 5), SegmentPage((ENTRY,), 2001), SegmentPage((ENTRY,), 950)])
def test_a_page_that_gets_no_nearer_to_the_end_is_refused(page: SegmentPage) -> None:
    with pytest.raises(ProtocolError, match="continues at"):
        dialect.page_tags(page)
    tags = {12499: encode_entries(page.entries), 12500: (page.next_start or 0).to_bytes(8, "big")}
    with pytest.raises(ProtocolError, match="continues at"):
        dialect.read_page(tags, 0)


def test_a_page_below_the_requested_offset_is_refused() -> None:
    with pytest.raises(ProtocolError, match="begins at 950"):
        dialect.read_page(dialect.page_tags(SegmentPage((ENTRY,))), 951)
