from __future__ import annotations

from itertools import pairwise

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import ByteRange
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.window import plan_window, range_size, sketch_window, tile
from tests.support.golden_metadata import golden_cache, golden_store
from tests.support.tier import LAYOUT, Tier, batch, legacy_entry, offset_entries

BATCHES = [batch(n * 10, 10, payload=20) for n in range(10)]
SIZE = len(BATCHES[0])


@pytest.fixture
def tier():
    return Tier()


def window_of(tier, segment, offset, *, max_bytes=1, range_bytes=10**6, bound=None, log_start=0, read_end=None):
    return plan_window(
        RemoteIndexCache(tier.store, LAYOUT),
        segment,
        offset,
        bound=segment.end_offset + 1 if bound is None else bound,
        max_bytes=max_bytes,
        range_bytes=range_bytes,
        log_start=log_start,
        read_end=read_end,
    )


def test_all_batches_of_these_tests_have_one_size():
    assert {len(raw) for raw in BATCHES} == {SIZE}


@pytest.mark.parametrize(
    ("offset", "max_bytes", "first", "last", "next_offset"),
    [
        (0, 1, 0, 2, 20),
        (15, 1, 0, 2, 20),
        (20, 1, 2, 5, 50),
        (29, 1, 2, 5, 50),
        (49, 1, 2, 5, 50),
        (50, 1, 5, 8, 80),
        (0, 2 * SIZE, 0, 2, 20),
        (0, 2 * SIZE + 1, 0, 5, 50),
        (25, 3 * SIZE + 1, 2, 8, 80),
        (85, 1, 8, 10, 100),
        (0, 10**6, 0, 10, 100),
    ],
)
def test_a_window_spans_from_entry_to_entry(tier, offset, max_bytes, first, last, next_offset):
    segment = tier.add(BATCHES, number=1, indexed=[2, 5, 8])
    window = window_of(tier, segment, offset, max_bytes=max_bytes)
    assert window.ranges == (ByteRange(first * SIZE, last * SIZE),)
    assert window.next_offset == next_offset


def test_without_entries_the_window_is_the_segment(tier):
    segment = tier.add(BATCHES, number=1)
    window = window_of(tier, segment, 55)
    assert (window.ranges, window.next_offset) == ((ByteRange(0, 10 * SIZE),), 100)


def test_the_last_next_offset_is_the_metadatas_even_over_a_gap(tier):
    segment = tier.add(BATCHES, number=1, indexed=[8], end=149)
    assert window_of(tier, segment, 120).next_offset == 150


def test_an_append_of_several_batches_counts_as_one(tier):
    # One entry for an append of batches 2, 3 and 4: its offset is the last of all three.
    segment = tier.add(BATCHES, number=1)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((49, 2 * SIZE), (79, 5 * SIZE)))
    window = window_of(tier, segment, 35)
    assert (window.ranges[0], window.next_offset) == (ByteRange(2 * SIZE, 5 * SIZE), 50)
    assert window_of(tier, segment, 19).ranges[0] == ByteRange(0, 2 * SIZE)


def test_consecutive_windows_read_nothing_twice(tier):
    segment = tier.add(BATCHES, number=1, indexed=list(range(1, 10)))
    offset, spans = 0, []
    while offset <= segment.end_offset:
        window = window_of(tier, segment, offset, max_bytes=3 * SIZE, range_bytes=SIZE)
        spans.append((window.ranges[0].start, window.ranges[-1].end))
        offset = window.next_offset
    assert [a for a, _ in spans] == [0, *(b for _, b in spans[:-1])]
    assert spans[-1][1] == 10 * SIZE


@pytest.mark.parametrize(
    ("bound", "end", "next_offset"),
    [(100, 10, 100), (50, 5, 50), (40, 4, 40), (30, 3, 30), (20, 2, 20)],
)
def test_no_offset_at_or_after_the_bound_is_in_the_window(tier, bound, end, next_offset):
    segment = tier.add(BATCHES, number=1, indexed=[5])
    window = window_of(tier, segment, 0, max_bytes=10**6, bound=bound)
    assert (window.ranges[-1].end, window.next_offset) == (end * SIZE, next_offset)


def test_a_bound_in_a_gap_ends_the_window_after_the_last_batch(tier):
    segment = tier.add(BATCHES, number=1, end=149)
    window = window_of(tier, segment, 0, max_bytes=10**6, bound=120)
    assert (window.ranges[-1].end, window.next_offset) == (10 * SIZE, 120)


def test_a_batch_on_both_sides_of_the_bound_is_an_error(tier):
    segment = tier.add(BATCHES, number=1)
    with pytest.raises(CorruptIndexError, match="must not exceed 45"):
        window_of(tier, segment, 0, max_bytes=10**6, bound=45)


def test_none_if_the_segment_has_no_batch_below_the_bound(tier):
    segment = tier.add([batch(0, 10), batch(50, 10)], number=1, indexed=[1])
    assert window_of(tier, segment, 50, bound=50) is None


def test_none_for_a_segment_without_bytes(tier):
    segment = tier.add(BATCHES[:1], number=1)
    assert window_of(tier, attrs.evolve(segment, segment_size_in_bytes=0), 0) is None


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ([(49, 5 * SIZE + 7)], "no batch"),
        ([(49, 4 * SIZE - 1)], "no batch"),
        ([(39, 5 * SIZE)], "begins at offset 50"),
        ([(19, SIZE), (60, 2 * SIZE), (69, 3 * SIZE)], "begins at offset 30, and offset 60 before it"),
        ([(1000, 5 * SIZE)], "reaches offset 1000"),
        ([(49, 100 * SIZE)], "reaches offset 49"),
    ],
)
def test_an_index_that_contradicts_the_log_raises(tier, entries, says):
    segment = tier.add(BATCHES, number=1)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries(*entries))
    with pytest.raises(CorruptIndexError, match=says):
        _ = [window_of(tier, segment, offset) for offset in (0, 35, 65, 99)]


def test_an_index_that_points_too_early_only_costs_bytes(tier):
    segment = tier.add(BATCHES, number=1)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((69, 2 * SIZE)))
    window = window_of(tier, segment, 80)
    assert window.ranges[0].start == 2 * SIZE


def test_the_previous_batch_bounds_old_formats(tier):
    entries = [legacy_entry(n, 1) for n in (4, 9, 14, 19)]
    size = len(entries[0])
    segment = tier.add(entries, number=1, indexed=[1, 3], end=19)
    window = window_of(tier, segment, 4)
    assert (window.ranges[0], window.next_offset) == (ByteRange(0, size), 5)
    window = window_of(tier, segment, 5)
    assert (window.ranges[0], window.next_offset) == (ByteRange(0, 3 * size), 15)
    window = window_of(tier, segment, 9)
    assert (window.ranges[0], window.next_offset) == (ByteRange(size, 3 * size), 15)


def test_old_formats_at_the_front_of_the_log_are_bounded_too(tier):
    first, second = legacy_entry(0, 1), legacy_entry(9, 1)
    segment = tier.add([first, second], number=1, indexed=[1], end=9)
    assert window_of(tier, segment, 0).next_offset == 1


@pytest.mark.parametrize(
    ("indexed", "offset", "range_offsets"),
    [
        ([1, 2, 3], 0, (0, 0, 20, 30)),  # the first entry does not show what is before it
        ([1, 2, 3], 25, (20, 30)),
        ([0, 2, 4], 0, (0, 10, 30)),
        ([0, 2, 4], 35, (20, 30)),
        ([], 15, (0,)),
    ],
)
def test_the_index_gives_a_lower_bound_of_each_range(tier, indexed, offset, range_offsets):
    segment = tier.add(BATCHES[:5], number=1, indexed=indexed)
    window = window_of(tier, segment, offset, max_bytes=10**6, range_bytes=1)
    assert window.range_offsets == range_offsets
    assert len(window.ranges) == len(range_offsets)


def test_in_old_formats_the_previous_entry_bounds_the_first_range(tier):
    appends = [b"".join(legacy_entry(base + n, 1) for n in range(10)) for base in (0, 10, 20)]
    segment = tier.add(appends, number=1, end=29)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((19, len(appends[0])), (29, 2 * len(appends[0]))))
    assert window_of(tier, segment, 22, max_bytes=10**6).range_offsets == (0,)
    assert window_of(tier, segment, 29, max_bytes=10**6).range_offsets == (20,)


@pytest.mark.parametrize(
    ("indexed", "offset", "read_end", "next_offset"),
    [
        (range(1, 10), 5, None, 100),
        (range(1, 10), 5, 0, 20),  # batch 1 has the first entry, which does not show what is before it
        (range(1, 10), 5, 20, 20),
        (range(10), 5, 0, 10),
        (range(10), 5, 10, 10),
        (range(10), 5, 11, 20),
        (range(10), 5, 20, 20),
        (range(10), 55, 20, 60),
        (range(10), 5, 100, 100),
        (range(10), 5, 1000, 100),
        ([2, 5, 8], 5, 30, 50),
        ([2, 5, 8], 5, 31, 80),
    ],
)
def test_a_window_ends_at_the_first_entry_past_the_read_end(tier, indexed, offset, read_end, next_offset):
    segment = tier.add(BATCHES, number=1, indexed=indexed)
    window = window_of(tier, segment, offset, max_bytes=10**6, read_end=read_end)
    assert window.next_offset == next_offset
    assert window.ranges[-1].end == next_offset // 10 * SIZE


@given(
    st.lists(st.integers(1, 500), min_size=0, max_size=60, unique=True),
    st.integers(0, 300),
    st.integers(1, 300),
    st.integers(1, 400),
)
@settings(max_examples=200)
def test_tiles_cover_the_window_and_meet_at_entries(positions, start, length, range_bytes):
    positions = sorted(positions)
    index = OffsetIndex(offset_entries(*((n, p) for n, p in enumerate(positions))), 0)
    stop = start + length
    ranges = tile(index, start, stop, range_bytes)
    assert (ranges[0].start, ranges[-1].end) == (start, stop)
    assert all(a.end == b.start for a, b in pairwise(ranges))
    assert all(r.end in positions for r in ranges[:-1])
    assert all(r.size >= range_bytes for r in ranges[:-1])


@pytest.mark.parametrize(
    ("range_bytes", "stop", "ends"),
    [
        (100, 124, [124]),
        (100, 125, [100, 125]),
        (102, 126, [126]),
        (102, 127, [102, 127]),
    ],
)
def test_an_end_below_a_quarter_of_a_range_is_not_cut_off(range_bytes, stop, ends):
    index = OffsetIndex(offset_entries((1, range_bytes), (2, 2 * range_bytes)), 0)
    assert [one.end for one in tile(index, 0, stop, range_bytes)] == ends


@pytest.mark.parametrize(
    ("indexed", "offset", "options", "batches", "next_offset"),
    [
        ([2, 5, 8], 0, {}, [2], 29),
        ([2, 5, 8], 1, {}, [2, 5], 59),
        ([2, 5, 8], 29, {}, [2, 5, 8], 89),
        ([2, 5, 8], 85, {}, [5, 8], 100),
        ([2, 5, 8], 85, {"bound": 90}, [5, 8], 90),
        ([2, 5, 8], 99, {}, [8], 100),
        ([2, 5, 8], 95, {"log_start": 75}, [5, 8], 100),
        ([2, 5, 8], 95, {"log_start": 55}, [8], 100),
        ([2, 5, 8], 5, {"max_bytes": 10**6, "read_end": 30}, [2, 5], 59),
        ([2, 5, 8], 5, {"max_bytes": 10**6, "read_end": 31}, [2, 8], 89),
        ([], 55, {}, [], 100),
    ],
)
def test_a_sketch_names_the_batches_whose_headers_are_read(tier, indexed, offset, options, batches, next_offset):
    segment = tier.add(BATCHES, number=1, indexed=indexed)
    indexes = RemoteIndexCache(tier.store, LAYOUT)
    given = {"bound": 100, "max_bytes": 1, **options}
    sketch = sketch_window(indexes, segment, offset, **given)
    assert sketch.positions == tuple(number * SIZE for number in batches)
    assert sketch.next_offset == next_offset
    window = plan_window(indexes, segment, offset, range_bytes=10**6, **given)
    read = {number for number in indexed if indexes.kept_batch_header(segment, number * SIZE) is not None}
    assert read <= set(batches)
    assert window.next_offset <= next_offset


@pytest.mark.parametrize(("offset", "batches"), [(45, [2, 5]), (49, [2, 5]), (50, [5, 8]), (55, [5, 8])])
def test_a_sketch_uses_the_headers_that_are_kept(tier, offset, batches):
    segment = tier.add(BATCHES, number=1, indexed=[2, 5, 8])
    indexes = RemoteIndexCache(tier.store, LAYOUT)
    indexes.batch_header(segment, 5 * SIZE)
    sketch = sketch_window(indexes, segment, offset, bound=100, max_bytes=1)
    assert sketch.positions == tuple(number * SIZE for number in batches)


@pytest.mark.parametrize("topic", ["codec-lz4-java", "txn", "epochs", "logappend"])
@pytest.mark.parametrize(("max_bytes", "range_bytes"), [(1, 1), (5000, 2000), (10**9, 30_000)])
def test_golden_windows_tile_the_log_on_batch_boundaries(topic, max_bytes, range_bytes):
    indexes = RemoteIndexCache(golden_store(), LAYOUT)
    for segment in golden_cache(topic).list_all_remote_log_segments():
        fronts = list(indexes.log(segment).walk(0))
        boundaries = {f.position for f in fronts} | {segment.segment_size_in_bytes}
        offset, reached = segment.start_offset, 0
        while offset <= segment.end_offset:
            window = plan_window(
                indexes, segment, offset, bound=segment.end_offset + 1, max_bytes=max_bytes, range_bytes=range_bytes
            )
            assert {p for r in window.ranges for p in (r.start, r.end)} <= boundaries
            assert window.ranges[0].start <= reached
            inside = [f for f in fronts if f.position < window.ranges[-1].end]
            assert inside[-1].last_offset + 1 == window.next_offset > offset
            firsts = [next(f.base_offset for f in fronts if f.position >= one.start) for one in window.ranges]
            assert all(told <= first for told, first in zip(window.range_offsets, firsts, strict=True))
            assert list(window.range_offsets) == sorted(window.range_offsets)
            offset, reached = window.next_offset, window.ranges[-1].end


@pytest.mark.parametrize("topic", ["codec-lz4-java", "txn", "epochs", "logappend"])
def test_golden_windows_have_the_requested_size_and_not_much_more(topic):
    indexes = RemoteIndexCache(golden_store(), LAYOUT)
    for segment in golden_cache(topic).list_all_remote_log_segments():
        entries = indexes.offset_index(segment)
        span = segment.end_offset + 1 - segment.start_offset
        for read_end in range(segment.start_offset + 1, segment.end_offset + 2, max(1, span // 50)):
            bounds = {"bound": segment.end_offset + 1, "max_bytes": 10**9, "range_bytes": 10**9}
            window = plan_window(indexes, segment, segment.start_offset, read_end=read_end, **bounds)
            assert window.next_offset >= read_end
            behind = [e for e in entries if e.position < window.ranges[-1].end and e.offset >= read_end]
            assert len(behind) <= 1


@pytest.mark.parametrize(
    ("max_bytes", "wanted", "most", "expected"),
    [
        (64 << 20, 0, 8 << 20, 8 << 20),
        (32 << 20, 0, 8 << 20, 4 << 20),
        (1, 0, 8 << 20, 64 << 10),
        (512 << 20, 0, 8 << 20, 8 << 20),
        (1 << 20, 0, 3000, 3000),
        (512 << 20, 2 << 20, 8 << 20, 2 << 20),
        (512 << 20, 9 << 20, 8 << 20, 8 << 20),
        (512 << 20, 1, 8 << 20, 64 << 10),
    ],
)
def test_a_range_has_the_requested_size_or_an_eighth_of_its_window(max_bytes, wanted, most, expected):
    assert range_size(max_bytes, wanted, most) == expected


def test_a_log_start_within_an_append_of_several_batches(tier):
    # Batches 1 and 2 are one append: the entry has the position of the first batch and the last offset.
    segment = tier.add(BATCHES[:5], number=1)
    tier.put(segment, ObjectKind.OFFSET_INDEX, offset_entries((29, SIZE), (49, 4 * SIZE)))
    assert window_of(tier, segment, 35, log_start=25).ranges[0].start == 2 * SIZE
    assert window_of(tier, segment, 45, log_start=25).ranges[0].start == 4 * SIZE


@pytest.mark.parametrize(
    ("offset", "log_start", "first"),
    [
        (45, 0, 2),
        (45, 20, 2),
        (45, 31, 3),
        (45, 40, 4),
        (45, 45, 4),
        (85, 45, 8),
        (19, 15, 1),
        (99, 99, 9),
    ],
)
def test_batches_before_the_one_with_the_log_start_are_not_granted(tier, offset, log_start, first):
    segment = tier.add(BATCHES, number=1, indexed=[2, 5, 8])
    window = window_of(tier, segment, offset, max_bytes=10**6, range_bytes=1, log_start=log_start)
    assert window.ranges[0].start == first * SIZE
    assert window.ranges[-1].end == 10 * SIZE


def test_the_batch_with_the_log_start_is_searched_once(tier):
    segment = tier.add(BATCHES, number=1, indexed=[8])
    indexes = RemoteIndexCache(tier.store, LAYOUT)

    def plan(offset):
        return plan_window(indexes, segment, offset, bound=100, max_bytes=1, range_bytes=1, log_start=55)

    assert plan(55).ranges[0].start == plan(70).ranges[0].start == 5 * SIZE
    reads = tier.store.reads(".log")
    plan(60)
    assert tier.store.reads(".log") == reads


def test_a_log_start_in_the_gap_at_a_segments_end_gives_none(tier):
    segment = tier.add(BATCHES, number=1, end=120)
    assert window_of(tier, segment, 110, log_start=105) is None
