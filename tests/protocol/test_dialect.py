from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import ProtocolError, UnsupportedFormatError
from kafka_remote_client.model import ByteRange, EpochEntry, GrantedRange
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentGrant, TaggedDialect, may_request_location
from kafka_remote_client.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, decode_request, encode_request
from kafka_remote_client.wire import Reader, Writer

DIALECT = TaggedDialect()
OFFERED = ("ApacheKafkaV1",)

GOLDEN_GRANT = {
    12482: "0f0e0d0c0b0a09080706050403020100",
    12483: "04010203",
    12484: "00001000001010000640000000000000000003840000000000000b5300",
    12485: "0e" + b"ApacheKafkaV1".hex(),
    12486: "03000000000000000000000384000000000200000000000007d000",
    12487: "000001a3185c5000",
    12489: "00000000000005dc",
}
GRANT = SegmentGrant(
    segment_id=UUID("0f0e0d0c-0b0a-0908-0706-050403020100"),
    format="ApacheKafkaV1",
    ranges=(GrantedRange(ByteRange(4096, 1052672), b"\x01\x02\x03"),),
    segment_size=0x06400000,
    start_offset=900,
    end_offset=2899,
    leader_epochs=(EpochEntry(0, 900), EpochEntry(2, 2000)),
    next_offset=1500,
    expires_in_ms=0x1A3185C5000,
)
WINDOW = (
    GrantedRange(ByteRange(4096, 8192), b"first"),
    GrantedRange(ByteRange(8192, 9000), b"second"),
    GrantedRange(ByteRange(9000, 1052672), None),
)


def tags(changes: dict[int, str | None] | None = None) -> dict[int, bytes]:
    values = {**GOLDEN_GRANT, **(changes or {})}
    return {tag: bytes.fromhex(text) for tag, text in values.items() if text is not None}


def section(fields: dict[int, bytes] | Any) -> str:
    writer = Writer(flexible=True)
    writer.tagged_fields(fields)
    return writer.getvalue().hex()


def test_golden_bytes_of_a_request() -> None:
    root, partition = DIALECT.request_tags(LocationRequest(OFFERED, max_bytes=1 << 20))
    assert section(root) == "01" + "c0610f020e" + b"ApacheKafkaV1".hex()
    assert section(partition) == "02" + "c1610101" + "ca6108" + "0000000000100000"


def test_golden_bytes_of_a_grant_of_one_range() -> None:
    golden = {tag: bytes.fromhex(text) for tag, text in GOLDEN_GRANT.items()}
    assert DIALECT.grant_tags(GRANT) == golden
    assert DIALECT.read_grant(golden, OFFERED) == GRANT
    head = "07" + "c26110" + GOLDEN_GRANT[12482] + "c36104" + GOLDEN_GRANT[12483] + "c4611d" + GOLDEN_GRANT[12484]
    assert section(golden) == (
        head
        + "c5610e"
        + GOLDEN_GRANT[12485]
        + "c6611b"
        + GOLDEN_GRANT[12486]
        + "c76108"
        + GOLDEN_GRANT[12487]
        + "c96108"
        + GOLDEN_GRANT[12489]
    )


def test_golden_bytes_of_a_grant_of_several_ranges() -> None:
    written = DIALECT.grant_tags(attrs.evolve(GRANT, ranges=WINDOW))
    assert 12483 not in written
    assert written[12488].hex() == (
        "04"
        + ("000010000000200006" + b"first".hex() + "00")
        + ("000020000000232807" + b"second".hex() + "00")
        + ("00002328001010000100")
    )
    assert DIALECT.read_grant(written, OFFERED) == attrs.evolve(GRANT, ranges=WINDOW)


def test_decreasing_range_offsets_are_refused() -> None:
    ranges = [attrs.evolve(granted, first_offset=offset) for granted, offset in zip(WINDOW, (900, 1100, 1000), strict=True)]
    with pytest.raises(ProtocolError, match="range offsets decrease"):
        DIALECT.grant_tags(attrs.evolve(GRANT, ranges=tuple(ranges)))


def test_range_offsets_are_written_only_if_all_are_known() -> None:
    some = (attrs.evolve(WINDOW[0], first_offset=900), *WINDOW[1:])
    assert 12493 not in DIALECT.grant_tags(attrs.evolve(GRANT, ranges=some))
    all_ = tuple(attrs.evolve(granted, first_offset=900 + n) for n, granted in enumerate(WINDOW))
    written = DIALECT.grant_tags(attrs.evolve(GRANT, ranges=all_))
    assert written[12493].hex() == "04" + "0000000000000384" + "0000000000000385" + "0000000000000386"
    assert DIALECT.read_grant(written, OFFERED) == attrs.evolve(GRANT, ranges=all_)


def test_a_window_may_have_one_range() -> None:
    window = "0200001000001010000401020300"
    assert DIALECT.read_grant(tags({12483: None, 12488: window}), OFFERED) == GRANT


def test_an_answer_without_a_segment_id_has_no_grant() -> None:
    assert DIALECT.read_grant({}, OFFERED) is None
    assert DIALECT.read_grant(tags({12482: None}), OFFERED) is None
    assert DIALECT.read_grant({0: b"\x00"}, OFFERED) is None


def test_absent_optional_fields_have_a_default() -> None:
    grant = DIALECT.read_grant(tags({12483: None, 12487: None}), OFFERED)
    assert grant == attrs.evolve(GRANT, ranges=(GrantedRange(ByteRange(4096, 1052672), None),), expires_in_ms=None)
    assert grant is not None
    assert {12483, 12487}.isdisjoint(DIALECT.grant_tags(grant))


def test_a_range_to_the_segments_end_needs_no_next_offset() -> None:
    to_the_end = "00001000ffffffff0640000000000000000003840000000000000b5300"
    grant = DIALECT.read_grant(tags({12484: to_the_end, 12489: None}), OFFERED)
    assert grant is not None
    assert grant.span == ByteRange(4096, 0x06400000)
    assert grant.next_offset == 2900


def test_a_range_inside_the_segment_needs_a_next_offset() -> None:
    with pytest.raises(ProtocolError, match="has no next offset"):
        DIALECT.read_grant(tags({12489: None}), OFFERED)


@pytest.mark.parametrize("tag", [12484, 12485, 12486])
def test_a_grant_without_a_required_field_is_a_protocol_error(tag: int) -> None:
    with pytest.raises(ProtocolError, match=f"lacks tagged field {tag}"):
        DIALECT.read_grant(tags({tag: None}), OFFERED)


def test_a_format_that_was_not_offered_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError):
        DIALECT.read_grant(tags(), ("AivenChunkedV1",))


SIZE, OFFSETS = "06400000", "00000000000003840000000000000b53"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({12482: "00" * 16}, "has no segment id"),
        ({12482: "00" * 15}, "truncated"),
        ({12482: "01" * 17}, "bytes follow"),
        ({12483: "0401"}, "truncated"),
        ({12484: "0000100000001000" + SIZE + OFFSETS + "00"}, "empty or negative"),
        ({12484: "0000100000000fff" + SIZE + OFFSETS + "00"}, "empty or negative"),
        ({12484: "fffffff000101000" + SIZE + OFFSETS + "00"}, "empty or negative"),
        ({12484: "0000100006400001" + SIZE + OFFSETS + "00"}, "are outside of"),
        ({12484: "0000100000101000ffffffff" + OFFSETS + "00"}, "are outside of"),
        ({12484: "0000100000101000" + SIZE + "ffffffffffffffff0000000000000b5300"}, "next offset"),
        ({12484: "0000100000101000" + SIZE + "0000000000000384000000000000038300"}, "next offset"),
        ({12485: "00"}, "null"),
        ({12486: "01"}, "no leader epochs"),
        ({12486: "02ffffffff000000000000038400"}, "no leader epochs"),
        ({12486: "03000000010000000000000384000000000100000000000007d000"}, "do not increase"),
        ({12486: "030000000000000000000003840000000001000000000000038400"}, "do not increase"),
        ({12486: "0200000000000000000000038300"}, "outside of its segment"),
        ({12486: "02000000000000000000000b5400"}, "outside of its segment"),
        ({12487: "00"}, "truncated"),
        ({12488: "01"}, "outside them"),
        ({12483: None, 12488: "01"}, "no range"),
        ({12483: None, 12488: "00"}, "null"),
        ({12483: None, 12488: "0200001000000020000100"}, "cover"),
        ({12483: None, 12488: "0200000fff001010000100"}, "cover"),
        ({12483: None, 12488: "030000100000002000010000002001001010000100"}, "do not tile"),
        ({12483: None, 12488: "030000100000002000010000001fff001010000100"}, "do not tile"),
        ({12483: None, 12488: "0200002000000010000100"}, "empty or negative"),
        ({12493: "01"}, "of 1 ranges has 0 range offsets"),
        ({12493: "03" + "00000000000003e8" * 2}, "of 1 ranges has 2 range offsets"),
        ({12493: "020000000000000383"}, "are not in"),
        ({12493: "0200000000000005dc"}, "are not in"),
        ({12493: "02000000000000038400"}, "bytes follow"),
        ({12489: "0000000000000384"}, "next offset"),
        ({12489: "0000000000000b55"}, "next offset"),
        ({12489: "ffffffffffffffff"}, "next offset"),
    ],
)
def test_an_inconsistent_grant_is_a_protocol_error(changes: dict[int, str | None], message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        DIALECT.read_grant(tags(changes), OFFERED)


@pytest.mark.parametrize(
    "changes",
    [
        {"ranges": ()},
        {"ranges": (WINDOW[0], WINDOW[2])},
        {"segment_size": 1052671},
        {"next_offset": 900},
        {"leader_epochs": ()},
        {"segment_id": UUID(int=0)},
        {"segment_size": 1 << 63},
    ],
)
def test_an_invalid_grant_is_not_written(changes: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        DIALECT.grant_tags(attrs.evolve(GRANT, **changes))


@pytest.mark.parametrize("span", ["7fffffff00100000", "0010000000100000", "ffffffff00100000"])
def test_grant_of_several_ranges_with_a_wrong_span_is_refused(span: str) -> None:
    fields = {**DIALECT.grant_tags(attrs.evolve(GRANT, ranges=WINDOW))}
    fields[12484] = bytes.fromhex(span) + fields[12484][8:]
    with pytest.raises(ProtocolError, match=r"the granted ranges cover \[4096, 1052672\), the grant says"):
        DIALECT.read_grant(fields, OFFERED)


def test_nested_tags_of_a_newer_peer_are_skipped() -> None:
    extended = GOLDEN_GRANT[12484][:-2] + "010501ff"
    epochs = "02000000000000000000000384010501ff"
    assert DIALECT.read_grant(tags({12484: extended, 12486: epochs}), OFFERED) == attrs.evolve(
        GRANT, leader_epochs=(EpochEntry(0, 900),)
    )


def test_repr_hides_the_metadata_of_a_grant() -> None:
    secret = attrs.evolve(GRANT, ranges=(GrantedRange(ByteRange(4096, 1052672), b"https://signed"),))
    assert "signed" not in repr(secret)


@pytest.mark.parametrize(
    "request_",
    [
        LocationRequest(OFFERED, requested=True, max_bytes=8 << 20),
        LocationRequest(("AivenChunkedV1", *OFFERED)),
        LocationRequest((), requested=False),
        LocationRequest(OFFERED, batched=True),
        LocationRequest(OFFERED, end_offset=0, batched=True),
        LocationRequest(OFFERED, max_bytes=1, end_offset=(1 << 63) - 1, batched=True, range_bytes=1 << 20),
    ],
)
def test_a_request_survives_encoding_and_decoding(request_: LocationRequest) -> None:
    root, partition = DIALECT.request_tags(request_)
    fetch = FetchRequest((FetchTopic((FetchPartition(0, 5, 0, tags=partition),), "t"),), tags=root)
    received = decode_request(encode_request(fetch, 12), 12)
    assert DIALECT.read_request(received.tags, received.topics[0].partitions[0].tags) == request_


def test_an_unbounded_read_is_written_as_minus_one() -> None:
    _, partition = DIALECT.request_tags(LocationRequest(OFFERED, batched=True))
    assert partition[12491] == b"\xff" * 8


@pytest.mark.parametrize(("tagged", "pending"), [({}, False), ({12492: b"\x00"}, False), ({12492: b"\x01"}, True)])
def test_is_pending_reads_the_pending_tag(tagged: dict[int, bytes], pending: bool) -> None:
    assert DIALECT.is_pending(tagged) is pending
    assert DIALECT.is_pending(DIALECT.pending_tags())


def test_a_pending_answer_that_does_not_parse_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        DIALECT.is_pending({12492: b"\x01\x01"})


def test_an_ordinary_request_has_no_location_request() -> None:
    assert DIALECT.read_request({0: b"\x01"}, {1: b"\x01"}) == LocationRequest((), requested=False)


@pytest.mark.parametrize(
    ("root", "partition"),
    [
        ({12480: b"\x05"}, {}),
        ({}, {12481: b""}),
        ({}, {12481: b"\x01\x00"}),
        ({}, {12490: b"\x00" * 7}),
        ({}, {12490: b"\xff" * 8}),
        ({}, {12494: b"\xff" * 8}),
        ({}, {12491: b"\x00" * 7}),
        ({}, {12491: b"\xff" * 7 + b"\xfe"}),
    ],
)
def test_a_request_that_does_not_parse_is_a_protocol_error(root: dict[int, bytes], partition: dict[int, bytes]) -> None:
    with pytest.raises(ProtocolError):
        DIALECT.read_request(root, partition)


def test_stripping_keeps_other_tags() -> None:
    root, partition = DIALECT.request_tags(LocationRequest(OFFERED, max_bytes=1, end_offset=7, batched=True, range_bytes=9))
    assert len(partition) == 4
    assert DIALECT.strip_request({0: b"a", **root}) == {0: b"a"}
    assert DIALECT.strip_request({1: b"b", **partition}) == {1: b"b"}


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_tagged_fetch_is_recognised_by_its_bytes(kind: type[Any]) -> None:
    root, partition = DIALECT.request_tags(LocationRequest(OFFERED, max_bytes=1))
    asking = FetchRequest((FetchTopic((FetchPartition(0, 5, 0, tags=partition),), "t"),), tags=root)
    silent = FetchRequest((FetchTopic((FetchPartition(0, 5, 0),), "t"),), tags=root)
    for version in DIALECT.fetch_versions:
        assert may_request_location(kind(encode_request(asking, version)))
        assert not may_request_location(kind(encode_request(silent, version)))


@settings(max_examples=200, deadline=None)
@given(
    tag=st.sampled_from(sorted(GOLDEN_GRANT)),
    value=st.binary(max_size=40),
)
def test_any_value_of_a_tag_gives_a_grant_or_a_typed_error(tag: int, value: bytes) -> None:
    try:
        grant = DIALECT.read_grant({**tags(), tag: value}, OFFERED)
    except (ProtocolError, UnsupportedFormatError):
        return
    assert grant is not None
    assert DIALECT.read_grant(DIALECT.grant_tags(grant), OFFERED) == grant


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_grant_survives_encoding_and_decoding(data: st.DataObject) -> None:
    cuts = data.draw(st.lists(st.integers(0, (1 << 31) - 1), min_size=2, max_size=6, unique=True).map(sorted), "cuts")
    metadata = st.none() | st.binary(min_size=1, max_size=9)
    ranges = tuple(GrantedRange(ByteRange(a, b), data.draw(metadata)) for a, b in itertools.pairwise(cuts))
    offsets = data.draw(st.lists(st.integers(0, 1 << 62), min_size=2, max_size=5, unique=True).map(sorted), "offsets")
    epochs = data.draw(
        st.lists(st.integers(0, 1 << 30), min_size=len(offsets) - 1, max_size=len(offsets) - 1, unique=True).map(sorted)
    )
    next_offset = data.draw(st.integers(offsets[0] + 1, offsets[-1] + 1))
    if data.draw(st.booleans(), "range offsets"):
        bounds = st.integers(offsets[0], next_offset - 1)
        firsts = sorted(data.draw(st.lists(bounds, min_size=len(ranges), max_size=len(ranges))))
        ranges = tuple(attrs.evolve(one, first_offset=first) for one, first in zip(ranges, firsts, strict=True))
    grant = SegmentGrant(
        segment_id=data.draw(st.uuids(version=4)),
        format=data.draw(st.sampled_from(OFFERED)),
        ranges=ranges,
        segment_size=data.draw(st.integers(cuts[-1], (1 << 31) - 1)),
        start_offset=offsets[0],
        end_offset=offsets[-1],
        leader_epochs=tuple(EpochEntry(e, o) for e, o in zip(epochs, offsets, strict=False)),
        next_offset=next_offset,
        expires_in_ms=data.draw(st.none() | st.integers(-(1 << 63), (1 << 63) - 1)),
    )
    reader = Reader(bytes.fromhex(section(DIALECT.grant_tags(grant))), flexible=True)
    assert DIALECT.read_grant(reader.tagged_fields(), OFFERED) == grant
