"""The progress of one grant on a real segment."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from uuid import UUID

import attrs
import pytest

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.fetch import grant_read
from kafka_remote_client.fetch.grant_read import GrantRead, RangeRead, RangeStatus, completed_fetch
from kafka_remote_client.fetch.memory import Lease
from kafka_remote_client.model import ByteRange, GrantedRange, IsolationLevel, SegmentLocation
from kafka_remote_client.records import CompletedFetch
from tests.support.golden_tier import golden_path
from tests.support.locations import location, segment

DATA = min(golden_path("remote", "kafka-tiered-storage").glob("epochs-0-*/*.log")).read_bytes()


def grant(*cuts: int) -> GrantRead:
    bounds = [0, *cuts, len(DATA)]
    ranges = tuple(GrantedRange(ByteRange(start, end)) for start, end in pairwise(bounds))
    where = location(metadata=segment(end_offset=10_000, segment_size_in_bytes=len(DATA)), fetch_offset=0, ranges=ranges)
    assert isinstance(where, SegmentLocation)
    completed = CompletedFetch(where.metadata, 0, IsolationLevel.READ_UNCOMMITTED, None, at_segment_start=True)
    return GrantRead(where, completed)


def land(read: RangeRead, size: int | None = None) -> None:
    wanted = read.granted.range
    read.lease = Lease(wanted.size, lambda _: None, bytearray(DATA[wanted.start : wanted.end]))
    read.filled = wanted.size if size is None else size
    read.status = RangeStatus.LANDED if size is None else RangeStatus.FAILED


def decode(progress: GrantRead, read: RangeRead, *, borrow: bool = False) -> list[int]:
    return [row[0] for block in progress.decode(read, borrow=borrow) for row in block.rows()]


@pytest.mark.parametrize("cuts", [(), (5000, 9000), (61,), (1, 2, 3), (12_345, 12_346)])
def test_ranges_may_end_anywhere_in_a_batch(cuts: tuple[int, ...]) -> None:
    whole, cut = grant(), grant(*cuts)
    land(whole.ranges[0])
    expected = decode(whole, whole.ranges[0])
    assert whole.head is None
    got: list[int] = []
    for read in cut.ranges:
        assert cut.head is read
        land(read)
        got += decode(cut, read)
    assert cut.head is None
    assert got == expected


@pytest.mark.parametrize("size", [0, 10, 4000, 8000])
def test_a_failed_range_keeps_its_bytes_and_the_rest_is_read_again(size: int) -> None:
    whole, broken = grant(), grant(9000)
    land(whole.ranges[0])
    expected = decode(whole, whole.ranges[0])
    first, second = broken.ranges
    land(first, size)
    got = decode(broken, first)
    assert broken.head is first
    land(first)
    got += decode(broken, first, borrow=True)
    land(second)
    got += decode(broken, second)
    assert got == expected


def batch_starts() -> list[int]:
    starts, at = [], 0
    while at < len(DATA):
        starts.append(at)
        at += 12 + int.from_bytes(DATA[at + 8 : at + 12], "big")
    return starts


@pytest.mark.parametrize("into", [1, 11, 12, 30, 100])
def test_only_a_batch_cut_by_a_range_is_copied(into: int) -> None:
    start = batch_starts()[1]
    progress = grant(start + into)
    for read in progress.ranges:
        land(read)
    decode(progress, progress.ranges[0])
    lease = progress.ranges[1].lease
    assert lease is not None
    assert lease.buffer is not None
    blocks = list(progress.decode(progress.ranges[1], borrow=True))
    assert [len(block) > 0 for block in blocks] == [True, True]
    with pytest.raises(BufferError):
        lease.buffer.clear()  # the second block is in it


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3, 2**31 - 1])
def test_a_cut_batch_with_an_impossible_size_is_read_again(size: int) -> None:
    broken = grant(batch_starts()[1] + 4)
    first, second = broken.ranges
    land(first)
    got = decode(broken, first)
    land(second)
    assert second.lease is not None
    assert second.lease.buffer is not None
    second.lease.buffer[4:8] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError):
        decode(broken, second)
    assert broken.head is second
    land(second)
    got += decode(broken, second)
    whole = grant()
    land(whole.ranges[0])
    assert got == decode(whole, whole.ranges[0])


def inner_grant(*ends: int, next_offset: int, first_offset: int | None = None, is_whole: bool = True) -> GrantRead:
    """A grant from the second batch on, whose ranges end there; the fetch offset is the batch's second one."""
    start = batch_starts()[1]
    ranges = tuple(GrantedRange(ByteRange(*bounds), first_offset=first_offset) for bounds in pairwise([start, *ends]))
    metadata = segment(end_offset=10_000, segment_size_in_bytes=len(DATA))
    offset = base_offset(1) + 1
    where = location(metadata=metadata, fetch_offset=offset, ranges=ranges, next_offset=next_offset)
    settings = RemoteFetchConfig()
    return GrantRead(where, completed_fetch(where, IsolationLevel.READ_UNCOMMITTED, next_offset, settings, is_whole=is_whole))


def base_offset(number: int) -> int:
    start = batch_starts()[number]
    return int.from_bytes(DATA[start : start + 8], "big")


def decode_all(progress: GrantRead, change: int = 0) -> list[int]:
    """The offsets of a grant; the base offset of its first batch is changed."""
    found: list[int] = []
    for read in progress.ranges:
        land(read)
        assert read.lease is not None
        assert read.lease.buffer is not None
        if read is progress.ranges[0]:
            read.lease.buffer[:8] = (base_offset(1) + change).to_bytes(8, "big")
        found += decode(progress, read)
    return found


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("cut", [20, 200, -1], ids=["in its header", "in its records", "before its last byte"])
def test_a_flipped_base_offset_of_a_batch_that_a_range_cuts_is_noticed(cut: int, change: int) -> None:
    start, following, after = batch_starts()[1:4]
    ends = ((start if cut > 0 else following) + cut, after)
    expected = list(range(base_offset(1) + 1, base_offset(3)))
    assert decode_all(inner_grant(*ends, next_offset=base_offset(3))) == expected
    with pytest.raises(CorruptRecordError, match="follows it"):
        decode_all(inner_grant(*ends, next_offset=base_offset(3)), change)


def test_a_smaller_base_offset_of_the_only_batch_of_a_grant_is_noticed() -> None:
    only = {"next_offset": base_offset(2)}
    assert decode_all(inner_grant(batch_starts()[2], **only)) == list(range(base_offset(1) + 1, base_offset(2)))
    with pytest.raises(CorruptRecordError, match="follows it"):
        decode_all(inner_grant(batch_starts()[2], **only), -1)
    with pytest.raises(CorruptRecordError, match="begins below"):
        decode_all(inner_grant(batch_starts()[2], **only, first_offset=base_offset(1)), -1)


def test_a_batch_may_reach_past_the_end_of_a_grant_that_was_cut() -> None:
    """The end is then a lower bound of the offsets of the first range that was left out."""
    progress = inner_grant(batch_starts()[2], next_offset=base_offset(2) - 1, is_whole=False)
    assert decode_all(progress) == list(range(base_offset(1) + 1, base_offset(2) - 1))


def test_no_bytes_decode_to_no_records() -> None:
    progress = grant(9000)
    progress.ranges[0].status = RangeStatus.FAILED
    assert decode(progress, progress.ranges[0]) == []
    assert progress.head is progress.ranges[0]


def test_a_window_that_ends_inside_a_batch_is_damage() -> None:
    progress = grant()
    read = progress.ranges[0]
    read.granted = GrantedRange(ByteRange(0, len(DATA) - 5))
    land(read)
    with pytest.raises(CorruptRecordError, match="inside a batch"):
        decode(progress, read)


def test_a_range_is_decoded_after_the_ranges_before_it() -> None:
    progress = grant(5000, 9000)
    first, second, third = progress.ranges
    assert progress.waiting(0.0) is first
    first.status = RangeStatus.FLYING
    assert progress.waiting(0.0) is second
    second.not_before = 7.0
    assert progress.waiting(6.9) is None
    assert progress.waiting(7.0) is second
    assert not progress.all_issued
    second.status = third.status = RangeStatus.LANDED
    assert progress.waiting(9.0) is None
    assert progress.all_issued
    first.status = RangeStatus.FAILED
    assert progress.waiting(9.0) is None


def test_a_range_releases_its_memory_once() -> None:
    released: list[Lease] = []
    read = grant().ranges[0]
    read.lease = Lease(10, released.append)
    read.drop()
    read.drop()
    assert len(released) == 1


def fresh(progress: GrantRead, **changes: Any) -> SegmentLocation:
    """The same grant with new URLs."""
    ranges = tuple(GrantedRange(one.range, b"fresh") for one in progress.location.ranges)
    return attrs.evolve(progress.location, **{"ranges": ranges, **changes})


def urls(progress: GrantRead) -> list[bytes | None]:
    return [read.granted.custom_metadata for read in progress.ranges]


def test_fresh_urls_must_be_of_the_same_segment_and_format() -> None:
    progress = grant(5000, 9000)
    old = urls(progress)
    mine = progress.location.metadata
    for other in (
        fresh(
            progress,
            metadata=attrs.evolve(mine, remote_log_segment_id=attrs.evolve(mine.remote_log_segment_id, id=UUID(int=9))),
        ),
        fresh(progress, metadata=attrs.evolve(mine, segment_size_in_bytes=mine.segment_size_in_bytes + 1)),
        fresh(progress, format="AivenTieredStorageV1"),
    ):
        assert not progress.refresh(other, 0.0)
        assert urls(progress) == old
    assert progress.refresh(fresh(progress), 0.0)
    assert urls(progress) == [b"fresh"] * 3


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_fresh_urls_replace_those_of_all_waiting_ranges_or_none(missing: int) -> None:
    progress = grant(5000, 9000)
    progress.ranges[0].status = RangeStatus.FLYING
    old = urls(progress)
    whole = fresh(progress)
    partial = attrs.evolve(whole, ranges=whole.ranges[:missing] + whole.ranges[missing + 1 :])
    taken = progress.refresh(partial, 0.0)
    assert taken == (missing == 0), "the range in flight needs no other"
    assert urls(progress) == ([old[0], b"fresh", b"fresh"] if taken else old)


def test_host_of_a_range_is_read_once_for_each_url(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[GrantedRange] = []
    monkeypatch.setattr(grant_read, "store_host", lambda granted: f"store-{read.append(granted) or len(read)}")
    first = grant(5000).ranges[0]
    assert [first.host, first.host] == ["store-1"] * 2
    first.granted = attrs.evolve(first.granted, custom_metadata=b"fresh")
    assert [first.host, first.host] == ["store-2"] * 2
    assert read[1] is first.granted


def test_no_range_after_a_failed_one_is_requested() -> None:
    progress = grant(5000, 9000)
    progress.ranges[0].status = RangeStatus.FAILED
    assert progress.waiting(9.0) is None


@pytest.mark.parametrize("is_decoding", [False, True])
def test_carried_bytes_of_the_range_being_decoded_are_kept(is_decoding: bool) -> None:
    """The decoder of that range accounts for them."""
    progress = grant(5000, 9000)
    land(progress.ranges[0])
    decode(progress, progress.ranges[0])
    carried = progress.carried
    assert carried
    assert progress.abandon(progress.head if is_decoding else None) == (0 if is_decoding else carried)


def test_a_retry_counts_only_the_bytes_verified_before() -> None:
    read = RangeRead(GrantedRange(ByteRange(0, 10_000)))
    read.received, read.verified = 4000, 3000
    assert read.over_read() == 1000
    read.received, read.verified = 10_000, 10_000
    assert read.over_read() == 3000
