import attrs
import pytest

from kafka_remote_client.fetch.cache_entry import (
    BLOCK_BYTES,
    FIXED_BYTES,
    CacheEntryHeader,
    DamagedEntryError,
    block_count,
    cover,
    identity_of,
)
from kafka_remote_client.model import ByteRange, RemoteLogSegmentId, TopicIdPartition
from kafka_remote_client.plugin import LocationMetadata
from tests.support.locations import SEGMENT_ID, TOPIC_ID, segment

IDENTITY = bytes(range(32))
RANGE = ByteRange(1000, 1000 + BLOCK_BYTES + 5)
HEADER = CacheEntryHeader(IDENTITY, RANGE, (0xDEADBEEF, 7))


def decoded(data: bytes, identity: bytes = IDENTITY, wanted: ByteRange = RANGE, extra: int = 0) -> CacheEntryHeader:
    return CacheEntryHeader.decode(data, identity, wanted, len(data) + wanted.size + extra)


def test_a_header_is_read_as_it_was_written() -> None:
    data = HEADER.encode()
    assert len(data) == CacheEntryHeader.size_for(RANGE.size) == FIXED_BYTES + 8
    assert data[:4] == b"KRC1"
    assert decoded(data) == HEADER


def test_any_flipped_bit_and_any_cut_is_damage() -> None:
    data = HEADER.encode()
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(DamagedEntryError):
                decoded(bytes(damaged))
        with pytest.raises(DamagedEntryError):
            decoded(data[:position])


@pytest.mark.parametrize(
    "changes", [{"identity": bytes(32)}, {"wanted": ByteRange(0, RANGE.size)}, {"extra": 1}, {"extra": -1}], ids=str
)
def test_a_valid_header_with_other_bytes_is_damage(changes: dict[str, object]) -> None:
    with pytest.raises(DamagedEntryError):
        decoded(HEADER.encode(), **changes)


def test_the_key_is_segment_object_and_etag_without_the_url() -> None:
    first, location = segment(), LocationMetadata(url="https://host/?signature=1", object_key="key", etag="e")
    identity = identity_of(first, location)
    assert len(identity) == 32
    same = attrs.evolve(location, url="https://other/?signature=2", data_key=b"secret", signed_headers=(("a", "b"),))
    assert identity_of(attrs.evolve(first, start_offset=1), same) == identity
    others = [
        identity_of(first, attrs.evolve(location, object_key="other")),
        identity_of(first, attrs.evolve(location, etag="f")),
        identity_of(first, attrs.evolve(location, object_key="keye", etag=None)),
        identity_of(first, LocationMetadata()),
        identity_of(
            segment(remote_log_segment_id=RemoteLogSegmentId(TopicIdPartition(TOPIC_ID, "orders", 1), SEGMENT_ID)), location
        ),
    ]
    assert len({identity, *others}) == 6


@pytest.mark.parametrize(("size", "count"), [(1, 1), (BLOCK_BYTES, 1), (BLOCK_BYTES + 1, 2)])
def test_the_last_block_may_be_shorter(size: int, count: int) -> None:
    assert block_count(size) == count


@pytest.mark.parametrize(
    ("entries", "chosen"),
    [
        ([(10, 20)], [(10, 20)]),
        ([(0, 30)], [(0, 30)]),
        ([(0, 12), (11, 15), (12, 18), (15, 25)], [(0, 12), (12, 18), (15, 25)]),
        ([(0, 12), (5, 16), (14, 30)], [(5, 16), (14, 30)]),
        ([(10, 15), (16, 20)], None),
        ([(11, 30)], None),
        ([(0, 19)], None),
        ([], None),
    ],
)
def test_few_entries_cover_a_range_and_holes_stay_holes(
    entries: list[tuple[int, int]], chosen: list[tuple[int, int]] | None
) -> None:
    found = cover(ByteRange(10, 20), [ByteRange(*entry) for entry in entries])
    assert found == (None if chosen is None else [ByteRange(*entry) for entry in chosen])
