"""Grants in segments above 2 GiB (KIP-1333), and that older clients and peers never meet one."""

from __future__ import annotations

import json
import subprocess
import sys
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.errors import ProtocolError
from kafka_remote_client.model import ByteRange, EpochEntry, GrantedRange
from kafka_remote_client.protocol.dialect import LocationRequest, SegmentGrant, TaggedDialect, needs_large_positions
from tests.support import old_client

GIB = 1 << 30
FORMATS = ("ApacheKafkaV1",)
SMALL = SegmentGrant(
    segment_id=UUID(int=5),
    format="ApacheKafkaV1",
    ranges=(GrantedRange(ByteRange(GIB, GIB + 4096), b"first"), GrantedRange(ByteRange(GIB + 4096, GIB + 9000), b"second")),
    segment_size=2 * GIB - 1,
    start_offset=900,
    end_offset=2899,
    leader_epochs=(EpochEntry(0, 900),),
    next_offset=1500,
)
LARGE = attrs.evolve(
    SMALL,
    ranges=(
        GrantedRange(ByteRange(4 * GIB, 5 * GIB), b"first", 900),
        GrantedRange(ByteRange(5 * GIB, 6 * GIB), b"second", 1200),
    ),
    segment_size=6 * GIB,
)
ONE = attrs.evolve(LARGE, ranges=(GrantedRange(ByteRange(1, 4096), b"only"),))
REQUEST = LocationRequest(FORMATS, max_bytes=8 << 20, batched=True, large_positions=True)
dialect = TaggedDialect()


@pytest.mark.parametrize("grant", [SMALL, LARGE, ONE, attrs.evolve(ONE, segment_size=2 * GIB)])
def test_grants_of_all_sizes_are_read_as_they_are_written(grant: SegmentGrant) -> None:
    tags = dialect.grant_tags(grant)
    assert dialect.read_grant(tags, FORMATS) == grant
    large = grant.segment_size > 2 * GIB - 1
    assert grant.is_large is large
    assert {12484, 12488}.isdisjoint(tags) is large
    assert {12496, 12497}.isdisjoint(tags) is not large


def test_golden_bytes_of_a_large_grant() -> None:
    tags = dialect.grant_tags(attrs.evolve(LARGE, leader_epochs=(EpochEntry(0, 900),)))
    assert tags[12496] == bytes.fromhex(
        "0000000100000000 0000000180000000 0000000180000000 0000000000000384 0000000000000b53 00"
    )
    assert tags[12497] == bytes.fromhex("03 0000000100000000 0000000140000000 06 6669727374 00") + bytes.fromhex(
        "0000000140000000 0000000180000000 07 7365636f6e64 00"
    )


@pytest.mark.parametrize("tag", [12484, 12488])
def test_a_grant_with_positions_of_both_sizes_is_refused(tag: int) -> None:
    tags = {**dialect.grant_tags(LARGE), tag: dialect.grant_tags(SMALL)[tag]}
    with pytest.raises(ProtocolError, match="of 32 and of 64 bits"):
        dialect.read_grant(tags, FORMATS)


@pytest.mark.parametrize("changed", [{12496: bytes(41)}, {12497: b"\x01"}, {12497: b"\x02" + bytes(18)}])
def test_a_large_grant_that_contradicts_itself_is_refused(changed: dict[int, bytes]) -> None:
    with pytest.raises(ProtocolError):
        dialect.read_grant({**dialect.grant_tags(LARGE), **changed}, FORMATS)


def test_a_client_says_that_it_understands_large_positions() -> None:
    root, partition = dialect.request_tags(REQUEST)
    assert partition[12495] == b"\1"
    assert dialect.read_request(root, partition) == REQUEST
    assert 12495 not in dialect.strip_request(partition)
    assert 12495 not in dialect.request_tags(attrs.evolve(REQUEST, large_positions=False))[1]


@pytest.mark.parametrize(("size", "large"), [(0, False), (2 * GIB - 1, False), (2 * GIB, True)])
def test_positions_are_large_from_2_gib_on(size: int, large: bool) -> None:
    assert needs_large_positions(size) is large


def _in_the_old_package(code: str, given: object) -> object:
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, json.dumps(given)],
        env=old_client.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


def _hex(tags: object) -> dict[str, str]:
    return {str(tag): bytes(value).hex() for tag, value in dict(tags).items()}


_READ = """
import json, sys
import kafka_remote_client
from kafka_remote_client.protocol.dialect import TaggedDialect
root, partition, grant = ({int(t): bytes.fromhex(v) for t, v in one.items()} for one in json.loads(sys.argv[1]))
asked = TaggedDialect().read_request(root, partition)
granted = TaggedDialect().read_grant(grant, ["ApacheKafkaV1"])
ranges = [[one.range.start, one.range.end] for one in granted.ranges]
print(json.dumps([kafka_remote_client.__file__, asked.max_bytes, ranges, granted.segment_size]))
"""
_WRITE = """
import json, sys
from kafka_remote_client.protocol.dialect import LocationRequest, TaggedDialect
root, partition = TaggedDialect().request_tags(LocationRequest(("ApacheKafkaV1",), max_bytes=4096))
print(json.dumps([{str(t): v.hex() for t, v in one.items()} for one in (root, partition)]))
"""


def test_an_old_package_reads_what_a_new_one_writes() -> None:
    root, partition = dialect.request_tags(REQUEST)
    told = _in_the_old_package(_READ, [_hex(root), _hex(partition), _hex(dialect.grant_tags(SMALL))])
    assert isinstance(told, list)
    assert told[0].startswith(str(old_client.OLD_CLIENT))
    ranges = [[one.range.start, one.range.end] for one in SMALL.ranges]
    assert told[1:] == [8 << 20, ranges, 2 * GIB - 1]


def test_a_new_package_reads_what_an_old_one_writes() -> None:
    told = _in_the_old_package(_WRITE, None)
    assert isinstance(told, list)
    root, partition = ({int(tag): bytes.fromhex(value) for tag, value in one.items()} for one in told)
    assert dialect.read_request(root, partition) == LocationRequest(FORMATS, max_bytes=4096)
