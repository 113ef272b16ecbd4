from __future__ import annotations

import struct
from typing import Any

import pytest

from kafka_remote_client.errors import CorruptRecordError, UnsupportedFormatError
from kafka_remote_client.model import AbortedTransaction, IsolationLevel
from kafka_remote_client.records import CompletedFetch, RecordBlock, completed_fetch
from kafka_remote_client.records.columns import COLUMN_BYTES
from tests.support.batches import Rec, abort_marker, batch, commit_marker, metadata

pytestmark = pytest.mark.usefixtures("kernel")

UNCOMMITTED, COMMITTED = IsolationLevel


def fetch(
    offset: int = 0,
    level: IsolationLevel = UNCOMMITTED,
    aborted: list[tuple[int, int]] | None = None,
    *,
    segment: Any = None,
    **options: Any,
) -> CompletedFetch:
    entries = None if aborted is None else [AbortedTransaction(producer, first) for producer, first in aborted]
    options.setdefault("at_segment_start", True)
    return CompletedFetch(segment or metadata(), offset, level, entries, **options)


def offsets(block: RecordBlock) -> list[int]:
    return [block.offset(i) for i in range(len(block))]


def run(base: int, count: int = 3, **more: Any) -> bytes:
    return batch(base, [Rec(i, value=b"v%d" % i) for i in range(count)], **more)


def test_feed_gives_whole_batches_and_leaves_the_tail() -> None:
    data = run(0) + run(3)
    completed = fetch()
    block, used = completed.feed(data + run(6)[:-1])
    assert (offsets(block), used, block.next_offset) == ([0, 1, 2, 3, 4, 5], len(data), 6)
    assert completed.next_fetch_offset == 6
    assert completed.needed == len(run(6))
    block, used = completed.feed(run(6))
    assert (offsets(block), used) == ([6, 7, 8], len(run(6)))
    assert completed.needed == 0


def test_feed_of_less_than_a_batch_consumes_nothing() -> None:
    completed = fetch()
    for cut in (0, 1, 16, 17, 40):
        block, used = completed.feed(run(0)[:cut])
        assert (len(block), used, completed.next_fetch_offset) == (0, 0, 0)


def test_records_below_the_fetch_offset_are_skipped_in_the_first_batch() -> None:
    completed = fetch(4)
    block, used = completed.feed(run(0) + run(3) + run(6))
    assert offsets(block) == [4, 5, 6, 7, 8]
    assert used == len(run(0)) * 3


def test_batches_before_the_fetch_offset_alone_do_not_move_the_position() -> None:
    completed = fetch(100)
    block, _ = completed.feed(run(0) + run(3))
    assert (len(block), block.next_offset, completed.next_fetch_offset, completed.last_leader_epoch) == (0, 100, 100, -1)


def test_skipped_batches_are_checked_and_chained_too() -> None:
    completed = fetch(4)
    with pytest.raises(CorruptRecordError, match="does not follow"):
        completed.feed(run(1) + run(4))
    completed = fetch(4)
    completed.feed(run(0))
    with pytest.raises(CorruptRecordError, match="does not follow"):
        completed.feed(run(4))


@pytest.mark.parametrize(("base", "gap"), [(2, False), (4, True), (0, False)])
def test_only_a_batch_after_the_expected_offset_may_follow_a_gap(base: int, gap: bool) -> None:
    completed = fetch()
    completed.feed(run(0))
    with pytest.raises(CorruptRecordError, match="does not follow") as caught:
        completed.feed(run(base))
    assert caught.value.gap is gap


def test_a_first_batch_that_does_not_fit_the_second_may_follow_a_gap() -> None:
    """Nothing says which of them is wrong."""
    with pytest.raises(CorruptRecordError, match="does not follow") as caught:
        fetch(4).feed(run(1) + run(3))
    assert caught.value.gap


def test_other_damage_is_no_gap() -> None:
    with pytest.raises(CorruptRecordError, match="checksum") as caught:
        fetch().feed(run(0)[:-1] + b"\xff")
    assert not caught.value.gap


def test_chain_continues_across_feeds() -> None:
    completed = fetch()
    completed.feed(run(0))
    with pytest.raises(CorruptRecordError, match="does not follow"):
        completed.feed(run(4))
    block, _ = completed.feed(run(3))  # the same bytes again, undamaged
    assert offsets(block) == [3, 4, 5]


def test_the_first_batch_of_a_segment_begins_at_its_start() -> None:
    segment = metadata(10, 100, ((0, 10),))
    with pytest.raises(CorruptRecordError, match="does not follow"):
        fetch(10, segment=segment).feed(run(11))
    block, _ = fetch(5, segment=segment).feed(run(10))  # the requested offset is in a hole before the segment
    assert offsets(block) == [10, 11, 12]


def test_a_segment_of_a_compacted_topic_may_begin_after_its_base_offset() -> None:
    segment = metadata(10, 100, ((0, 10),))
    block, _ = fetch(10, segment=segment, allow_offset_gaps=True).feed(run(15) + run(30))
    assert offsets(block) == [15, 16, 17, 30, 31, 32]


def test_first_batch_inside_a_segment_has_to_cover_the_fetch_offset() -> None:
    for gaps in (False, True):
        with pytest.raises(CorruptRecordError, match="does not follow"):
            fetch(5, at_segment_start=False, allow_offset_gaps=gaps).feed(run(6))
    block, _ = fetch(5, at_segment_start=False).feed(run(3))
    assert offsets(block) == [5]
    completed = fetch(5, at_segment_start=False)
    completed.feed(run(0))  # is before the fetch offset and covers nothing after it
    assert offsets(completed.feed(run(3))[0]) == [5]
    compacted = fetch(5, at_segment_start=False, allow_offset_gaps=True)
    compacted.feed(run(4))
    assert offsets(compacted.feed(run(12))[0]) == [12, 13, 14], "only the first batch has to"


def test_the_second_batch_reveals_a_flipped_base_offset_of_the_first() -> None:
    first = bytearray(run(4))
    first[7] ^= 1
    with pytest.raises(CorruptRecordError, match="position 0 with base offset 5"):
        fetch(5, at_segment_start=False).feed(bytes(first) + run(7))


def misplaced(by: int, **more: Any) -> bytes:
    """The batch of the offsets 4 to 6 at other offsets. Its checksum does not cover them."""
    return run(4 + by, **more)


WINDOW = len(run(4))


@pytest.mark.parametrize("by", [-1, -2, 1])
@pytest.mark.parametrize("rest", [17, 40], ids=["its prefix", "a part of it"])
def test_the_front_of_the_second_batch_reveals_a_flipped_base_offset(by: int, rest: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"offset {4 + by}: it ends at {6 + by}, and offset 7 follows") as caught:
        fetch(5, at_segment_start=False).feed(misplaced(by) + run(7)[:rest])
    assert caught.value.gap is (by < 0)
    block, used = fetch(5, at_segment_start=False).feed(run(4) + run(7)[:rest])
    assert (offsets(block), used) == ([5, 6], WINDOW)


def test_less_than_a_prefix_and_an_older_format_confirm_nothing() -> None:
    for rest in (run(7)[:16], run(7)[:16] + b"\1"):
        block, _ = fetch(5, at_segment_start=False).feed(misplaced(1) + rest)
        assert offsets(block) == [5, 6, 7]


@pytest.mark.parametrize("by", [-1, -2])
def test_the_end_of_a_grant_reveals_a_smaller_base_offset(by: int) -> None:
    bounds = completed_fetch.GrantBounds(0, WINDOW, 7)
    with pytest.raises(CorruptRecordError, match="offset 7 follows it") as caught:
        fetch(5, at_segment_start=False, bounds=bounds).feed(misplaced(by))
    assert caught.value.gap
    assert offsets(fetch(5, at_segment_start=False, bounds=bounds).feed(run(4))[0]) == [5, 6]


def test_a_last_batch_may_reach_past_the_end_of_its_grant() -> None:
    """The list of aborted transactions may end inside of the batch."""
    bounds = completed_fetch.GrantBounds(0, WINDOW, 6)
    assert offsets(fetch(5, at_segment_start=False, bounds=bounds).feed(run(4))[0]) == [5, 6]


def test_the_end_of_a_grant_is_that_of_its_last_byte() -> None:
    bounds = completed_fetch.GrantBounds(0, 2 * WINDOW, 10)
    completed = fetch(5, at_segment_start=False, bounds=bounds)
    assert offsets(completed.feed(run(4))[0]) == [5, 6]
    assert offsets(completed.feed(run(7))[0]) == [7, 8, 9]


def test_the_first_offset_of_a_grant_reveals_a_smaller_base_offset() -> None:
    bounds = completed_fetch.GrantBounds(4)
    for gaps in (False, True):
        with pytest.raises(CorruptRecordError, match="base offset 3: no batch of the grant begins below offset 4") as caught:
            fetch(5, at_segment_start=False, bounds=bounds, allow_offset_gaps=gaps).feed(misplaced(-1))
        assert not caught.value.gap
    assert offsets(fetch(5, at_segment_start=False, bounds=bounds).feed(run(4))[0]) == [5, 6]


def test_after_compaction_only_an_overlap_is_certain() -> None:
    compacted = {"at_segment_start": False, "allow_offset_gaps": True}
    with pytest.raises(CorruptRecordError, match="offset 7 follows it") as caught:
        fetch(5, **compacted).feed(misplaced(1) + run(7)[:20])
    assert not caught.value.gap
    bounds = completed_fetch.GrantBounds(0, WINDOW, 7)
    for more, data in (({}, run(7)[:20]), ({"bounds": bounds}, b"")):
        assert offsets(fetch(5, **compacted, **more).feed(misplaced(-1) + data)[0]) == [5]


def test_only_the_first_batch_has_to_be_confirmed() -> None:
    completed = fetch(5, at_segment_start=False, bounds=completed_fetch.GrantBounds(4, 3 * WINDOW, 12))
    assert offsets(completed.feed(run(4) + run(7))[0]) == [5, 6, 7, 8, 9]
    assert offsets(completed.feed(run(10, 2))[0]) == [10, 11]


def test_good_batches_before_a_bad_one_are_delivered_first() -> None:
    bad = bytearray(run(3))
    bad[-1] ^= 1
    completed = fetch()
    data = run(0) + bytes(bad) + run(6)
    block, used = completed.feed(data)
    assert (offsets(block), used) == ([0, 1, 2], len(run(0)))
    with pytest.raises(CorruptRecordError, match="checksum"):
        completed.feed(data[used:])
    block, _ = completed.feed(run(3) + run(6))
    assert offsets(block) == [3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("codec", [0, 3])
def test_good_batches_before_damaged_records_are_delivered_first(codec: int) -> None:
    bad = batch(3, b"\x10" + b"x" * 20, count=2, last_delta=2, codec=codec)
    completed = fetch()
    data = run(0, codec=codec) + bad + run(6)
    block, used = completed.feed(data)
    assert (offsets(block), used) == ([0, 1, 2], len(run(0, codec=codec)))
    with pytest.raises(CorruptRecordError):
        completed.feed(data[used:])
    assert completed.next_fetch_offset == 3


def test_good_batches_before_a_damaged_marker_are_delivered_first() -> None:
    completed = fetch(0, COMMITTED, [])
    bad = batch(3, [Rec(key=b"\0")], attributes=0x30, producer=1)
    block, _used = completed.feed(run(0) + bad)
    assert offsets(block) == [0, 1, 2]
    with pytest.raises(CorruptRecordError, match="base offset 3: its control record"):
        completed.feed(bad)


def test_filter_state_is_kept_across_feeds_and_retries() -> None:
    completed = fetch(0, COMMITTED, [(7, 0)])
    assert len(completed.feed(run(0, producer=7, attributes=0x10))[0]) == 0
    bad = bytearray(run(3, producer=7, attributes=0x10))
    bad[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        completed.feed(bytes(bad))
    assert len(completed.feed(run(3, producer=7, attributes=0x10))[0]) == 0
    block, _ = completed.feed(abort_marker(6, 7) + run(7, producer=7, attributes=0x10) + commit_marker(10, 7))
    assert (offsets(block), block.next_offset) == ([7, 8, 9], 11)


def test_unfiltered_batches_between_filtered_ones_are_returned() -> None:
    completed = fetch(0, COMMITTED, [(7, 3)])
    data = (
        run(0)
        + run(3, producer=7, attributes=0x10)
        + run(6)
        + run(9, producer=8, attributes=0x10)
        + abort_marker(12, 7)
        + run(13)
    )
    assert offsets(completed.feed(data)[0]) == [0, 1, 2, 6, 7, 8, 9, 10, 11, 13, 14, 15]


def test_records_from_the_end_offset_on_are_not_returned() -> None:
    for end in range(1, 9):
        completed = fetch(end_offset=end)
        data = run(0) + run(3, epoch=0) + run(6)
        block, used = completed.feed(data)
        assert offsets(block) == list(range(end))
        assert (used, completed.next_fetch_offset) == (len(data), end)


def test_batches_from_the_end_offset_on_do_not_touch_the_filter() -> None:
    completed = fetch(0, COMMITTED, [], end_offset=3)
    broken = batch(3, [Rec(key=b"\0")], attributes=0x30, producer=1)
    block, used = completed.feed(run(0) + broken)
    assert (offsets(block), used) == ([0, 1, 2], len(run(0) + broken))
    assert completed.next_fetch_offset == 3


def test_the_leader_epoch_is_that_of_the_last_delivered_batch() -> None:
    segment = metadata(0, 100, ((0, 0), (4, 3), (9, 6)))
    completed = fetch(segment=segment, end_offset=5)
    block, _ = completed.feed(run(0, epoch=0) + run(3, epoch=4) + run(6, epoch=9))
    assert (completed.last_leader_epoch, block.last_leader_epoch) == (4, 4)
    assert [block.leader_epoch(i) for i in range(5)] == [0, 0, 0, 4, 4]


def test_wrong_lineage_or_another_segments_bytes_are_damage() -> None:
    segment = metadata(0, 5, ((3, 0),))
    for data in (run(0, epoch=2), run(4, epoch=3), run(1000, epoch=3), bytes(200)):
        with pytest.raises(CorruptRecordError):
            fetch(segment=segment).feed(data)


def test_batch_larger_than_its_segment_is_damage() -> None:
    data = run(0)
    with pytest.raises(CorruptRecordError, match="larger than the whole segment"):
        fetch(segment=metadata(size=len(data) - 1)).feed(data)
    assert fetch(segment=metadata(size=len(data))).feed(data)[1] == len(data)


def test_empty_batch_moves_the_position() -> None:
    block, _ = fetch().feed(batch(0, [], last_delta=9) + run(10))
    assert offsets(block) == [10, 11, 12]
    completed = fetch()
    assert completed.feed(batch(0, [], last_delta=9))[0].next_offset == 10


def test_read_committed_needs_a_list() -> None:
    with pytest.raises(ValueError, match="aborted transactions"):
        fetch(0, COMMITTED, None)


@pytest.mark.parametrize("cap", [0, -1, 2**30 + 1])
def test_the_decompression_cap_has_bounds(cap: int) -> None:
    with pytest.raises(ValueError, match="max_decompressed_bytes"):
        fetch(max_decompressed_bytes=cap)


def test_a_block_ends_early_after_many_decompressed_bytes() -> None:
    one = batch(0, [Rec(value=bytes(1000))], codec=3)
    data = b"".join(batch(i, [Rec(value=bytes(1000))], codec=3) for i in range(10))
    completed = fetch(max_decompressed_bytes=1500)
    seen, used = [], 1
    while used:
        block, used = completed.feed(data)
        assert used in (0, 2 * len(one))
        seen += offsets(block)
        data = data[used:]
    assert seen == list(range(10))
    with pytest.raises(UnsupportedFormatError, match="max_decompressed_bytes"):
        completed.feed(batch(10, [Rec(value=bytes(2000))], codec=3))


@pytest.mark.parametrize("codec", [0, 3])
def test_block_ends_early_when_its_columns_grow(codec: int) -> None:
    """An empty record takes seven bytes in a segment and seven times as many in columns."""
    cap, per_batch = 2 * 50 * COLUMN_BYTES, 50
    data = b"".join(batch(i * 50, [Rec(j, None, None) for j in range(per_batch)], codec=codec) for i in range(9))
    completed = fetch(max_decompressed_bytes=cap)
    blocks, used = [], 1
    while used:
        block, used = completed.feed(data)
        blocks.append(block)
        data = data[used:]
    assert [offset for block in blocks for offset in offsets(block)] == list(range(450))
    assert [len(block) for block in blocks] == [100, 100, 100, 100, 50, 0]


@pytest.mark.parametrize("codec", [0, 3])
def test_one_batch_may_not_need_more_than_the_cap_in_columns(codec: int) -> None:
    data = batch(0, [Rec(i, None, None) for i in range(50)], codec=codec)
    assert len(fetch(max_decompressed_bytes=50 * COLUMN_BYTES).feed(data)[0]) == 50
    with pytest.raises(UnsupportedFormatError, match="max_decompressed_bytes"):
        fetch(max_decompressed_bytes=50 * COLUMN_BYTES - 1).feed(data)


def test_a_record_count_too_large_for_its_bytes_is_damage() -> None:
    with pytest.raises(CorruptRecordError, match="record count"):
        fetch(max_decompressed_bytes=1000).feed(batch(0, [Rec()], count=2**31 - 1))


def test_compressed_and_plain_batches_share_a_block() -> None:
    data = run(0) + run(3, codec=4) + run(6) + run(9, codec=1)
    block, _ = fetch().feed(data)
    assert [(row[0], row[5]) for row in block.rows()] == [(i, b"v%d" % (i % 3)) for i in range(12)]


@pytest.mark.parametrize("kind", [bytearray, lambda data: memoryview(bytearray(data))])
def test_mutable_memory_is_copied(kind: Any) -> None:
    data = kind(run(0))
    block, _ = fetch().feed(data)
    data[:] = bytes(len(data))
    assert [row[5] for row in block.rows()] == [b"v0", b"v1", b"v2"]


def test_borrowed_memory_is_not_copied() -> None:
    data = bytearray(run(0))
    block, _ = fetch().feed(data, borrow=True)
    data[data.index(b"v1")] = ord("w")
    assert block.value(1) == b"w1"
    with pytest.raises(BufferError):
        data.clear()


@pytest.mark.parametrize("records", [1, 3])
def test_objects_made_of_a_borrowed_block_outlive_its_memory(records: int) -> None:
    data = bytearray(batch(0, [Rec(i, b"key", b"value", [(b"name", b"text")]) for i in range(records)]))
    block, _ = fetch().feed(data, borrow=True)
    columns, messages = block.to_arrow("t", 0), block.messages("t", 0)
    for at in range(len(data)):
        data[at] = 0
    header = [{"key": "name", "value": b"text"}]
    assert columns.select(["key", "value", "headers"]).to_pylist() == [
        {"key": b"key", "value": b"value", "headers": header} for _ in range(records)
    ]
    assert [(message.key(), message.value(), message.headers()) for message in messages] == [
        (b"key", b"value", [("name", b"text")])
    ] * records


def test_feed_reads_no_more_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    completed = fetch()
    monkeypatch.setattr(completed_fetch, "MAX_FEED", len(run(0)) + 20)
    block, used = completed.feed(run(0) + run(3))
    assert (offsets(block), used) == ([0, 1, 2], len(run(0)))


def test_magic_3_is_an_unsupported_format_after_the_good_batches() -> None:
    strange = bytearray(run(3))
    strange[16] = 3
    completed = fetch()
    block, _used = completed.feed(run(0) + bytes(strange))
    assert offsets(block) == [0, 1, 2]
    with pytest.raises(UnsupportedFormatError):
        completed.feed(bytes(strange))


def test_negative_length_in_the_middle_of_a_range() -> None:
    bad = run(3)[:8] + struct.pack(">i", -100) + run(3)[12:]
    completed = fetch()
    assert offsets(completed.feed(run(0) + bad)[0]) == [0, 1, 2]
    with pytest.raises(CorruptRecordError, match="size field"):
        completed.feed(bad)
