"""The golden bytes in docs/wire-format.md equal those that the code writes."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.model import ByteRange, EpochEntry, GrantedRange
from kafka_remote_client.protocol import api_versions
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentGrant, SegmentPage, TaggedDialect
from kafka_remote_client.protocol.segment_list import SegmentEntry
from kafka_remote_client.wire import TaggedFields, Writer
from tests.docs.documents import blocks

_HEX = re.compile(r"(?:[0-9a-f]{2})+")
_DIALECT = TaggedDialect()
_ROOT, _PARTITION = _DIALECT.request_tags(LocationRequest(("ApacheKafkaV1",), max_bytes=1 << 20))
_, _BOUNDED = _DIALECT.request_tags(LocationRequest((), max_bytes=1 << 20, end_offset=4000, batched=True))
_, _LISTED = _DIALECT.request_tags(LocationRequest((), batched=True, list_start=900))
_ENTRY = SegmentEntry(
    segment_id=UUID("0f0e0d0c-0b0a-0908-0706-050403020100").bytes,
    start_offset=900,
    end_offset=2899,
    first_offset=950,
    next_offset=2000,
    leader_epoch=2,
    max_timestamp_ms=1_700_000_000_000,
    size_in_bytes=6 << 30,
)
_GRANT = SegmentGrant(
    segment_id=UUID("0f0e0d0c-0b0a-0908-0706-050403020100"),
    format="ApacheKafkaV1",
    ranges=(GrantedRange(ByteRange(4096, 1052672), b"\x01\x02\x03"),),
    segment_size=104857600,
    start_offset=900,
    end_offset=2899,
    leader_epochs=(EpochEntry(0, 900), EpochEntry(2, 2000)),
    next_offset=1500,
    expires_in_ms=120_000,
)
_WINDOW = attrs.evolve(
    _GRANT,
    ranges=(GrantedRange(ByteRange(4096, 8192), b"\xaa" * 3), GrantedRange(ByteRange(8192, 1052672), b"\xbb" * 2)),
    leader_epochs=(EpochEntry(0, 900),),
    expires_in_ms=None,
)


def _section(fields: TaggedFields) -> bytes:
    writer = Writer(flexible=True)
    writer.tagged_fields(fields)
    return writer.getvalue()


def _golden(text: str) -> bytes:
    """Returns the hex words at the front of each line, up to the first run of spaces after one."""
    return b"".join(
        bytes.fromhex(word)
        for line in text.splitlines()
        for word in re.split(r"\s{2,}", line.strip())[0].split()
        if _HEX.fullmatch(word)
    )


_IN_THE_DOCUMENT = [block.text for block in blocks("text") if block.document == Path("docs/wire-format.md")]
_WRITTEN = [
    api_versions.encode_response(api_versions.ApiVersionsResponse().announcing(), 3),
    _section(_ROOT),
    _section(_PARTITION),
    _section(_BOUNDED),
    _section(_DIALECT.grant_tags(_GRANT)),
    _section(_DIALECT.grant_tags(_WINDOW)),
    _section(_LISTED) + _section(_DIALECT.page_tags(SegmentPage((_ENTRY,), 2000))),
]


@pytest.mark.parametrize(("text", "written"), list(zip(_IN_THE_DOCUMENT, _WRITTEN, strict=True)))
def test_golden_bytes_equal_the_written_ones(text: str, written: bytes) -> None:
    assert _golden(text).hex() == written.hex()
