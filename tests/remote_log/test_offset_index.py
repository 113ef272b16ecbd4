"""The scenarios of Kafka's OffsetIndexTest that concern reading, and the golden indexes."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.offset_index import OffsetIndex, OffsetPosition, tail_size
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_cache, golden_store
from tests.support.tier import LAYOUT, offset_entries

BASE = 45
ENTRIES = ((4, 100), (9, 200), (10, 300), (30, 5000))


@pytest.fixture
def index():
    return OffsetIndex(offset_entries(*ENTRIES), BASE)


def test_an_empty_index_gives_the_start_of_the_segment():
    empty = OffsetIndex(b"", BASE)
    assert empty.lookup(92) == OffsetPosition(BASE, 0)
    assert empty.last_entry() == OffsetPosition(BASE, 0)
    assert (len(empty), list(empty), empty.number_for_offset(99), empty.number_for_position(0)) == (0, [], -1, 0)
    empty.check_against(BASE, 1)


def test_lookup_gives_the_greatest_entry_at_or_below(index):
    expected = {
        45: (45, 0),
        48: (45, 0),
        49: (49, 100),
        53: (49, 100),
        54: (54, 200),
        55: (55, 300),
        74: (55, 300),
        75: (75, 5000),
    }
    assert {o: (e.offset, e.position) for o in expected for e in [index.lookup(o)]} == expected
    assert index.lookup(10**9) == OffsetPosition(75, 5000)
    assert index.lookup(0) == OffsetPosition(BASE, 0)


def test_a_position_has_the_first_entry_at_or_after_it(index):
    numbers = {100: 0, 101: 1, 5000: 3, 5001: 4}
    assert {position: index.number_for_position(position) for position in numbers} == numbers


def test_entries_can_be_read_by_number(index):
    assert [index.entry(n).position for n in range(4)] == [100, 200, 300, 5000]
    assert index.last_entry() == OffsetPosition(75, 5000)
    assert index.nbytes == 32
    with pytest.raises(IndexError):
        index.entry(4)


# The layout follows the page of KIP-1333 (under discussion, November 2026); no broker writes it yet.
def large_entries(*entries):
    return b"".join(struct.pack(">iq", *entry) for entry in entries)


LARGE = ((4, 100), (9, 2 << 30), (10, 5 << 30), (30, (5 << 30) + 4096), (40, (6 << 30) + 1), (50, 7 << 30))


@pytest.mark.parametrize("count", range(1, 7))
def test_entries_of_12_bytes_are_recognized_by_their_content(count):
    index = OffsetIndex(large_entries(*LARGE[:count]), BASE)
    assert [(entry.offset - BASE, entry.position) for entry in index] == list(LARGE[:count])
    assert (len(index), index.nbytes) == (count, 12 * count)
    assert index.last_entry() == index.entry(count - 1)
    assert index.number_for_position(LARGE[count - 1][1]) == count - 1
    index.check_against(BASE + 60, 8 << 30)


@pytest.mark.parametrize("count", range(1, 13))
def test_entries_of_8_bytes_are_recognized_by_their_content(count):
    entries = [(7 * n + 3, 4200 * (n + 1)) for n in range(count)]
    index = OffsetIndex(offset_entries(*entries), BASE)
    assert [(entry.offset - BASE, entry.position) for entry in index] == entries


def test_small_positions_in_12_bytes_are_not_taken_for_8_bytes():
    entries = [(n, 61 * (n + 1)) for n in range(4)]
    assert [entry.position for entry in OffsetIndex(large_entries(*entries), BASE)] == [61, 122, 183, 244]


@given(st.lists(st.tuples(st.integers(1, 1 << 20), st.integers(61, 1 << 33)), min_size=1, max_size=12))
def test_any_index_of_12_byte_entries_is_read(steps):
    entries, offset, position = [], -1, 0
    for records, nbytes in steps:
        offset, position = offset + records, position + nbytes
        entries.append((offset, position))
    assert [(entry.offset - BASE, entry.position) for entry in OffsetIndex(large_entries(*entries), BASE)] == entries


def test_an_index_that_rises_in_both_formats_has_8_bytes_for_an_entry():
    both = offset_entries((1, 5), (6, 7), (8, 9))
    assert [entry.position for entry in OffsetIndex(both, 0)] == [5, 7, 9]


@pytest.mark.parametrize("raw", [large_entries((4, 100), (3, 200), (5, 300)), large_entries((4, -1))])
def test_raises_for_12_byte_entries_out_of_order(raw):
    with pytest.raises(CorruptIndexError, match="after"):
        OffsetIndex(raw, BASE)


@pytest.mark.parametrize(
    ("size", "tail"), [(0, 0), (8, 8), (12, 12), (16, 8), (24, 24), (36, 12), (40, 8), (48, 24), (7, None), (20, None)]
)
def test_the_last_bytes_tell_the_last_entry(size, tail):
    assert tail_size(size) == tail
    for write, nbytes in ((offset_entries, 8), (large_entries, 12)):
        if size and size % nbytes == 0 and tail is not None:
            raw = write(*((10 * n, 100 * (n + 1)) for n in range(size // nbytes)))
            assert OffsetIndex(raw[-tail:], 0).last_entry() == OffsetIndex(raw, 0).last_entry()


@pytest.mark.parametrize("size", [1, 7, 9, 15])
def test_raises_for_a_length_that_is_no_multiple_of_the_entry(size):
    with pytest.raises(CorruptIndexError, match=f"{size} bytes"):
        OffsetIndex(bytes(size), BASE)


@pytest.mark.parametrize(
    "entries",
    [
        [(4, 100), (4, 200)],
        [(4, 100), (3, 200)],
        [(4, 100), (5, 100)],
        [(4, 100), (5, 99)],
        [(-1, 100)],
        [(4, -1)],
        [(4, 100), (0, 0)],
    ],
)
def test_raises_for_entries_out_of_order(entries):
    with pytest.raises(CorruptIndexError, match="after"):
        OffsetIndex(offset_entries(*entries), BASE)


@pytest.mark.parametrize(("end_offset", "size"), [(74, 6000), (75, 5000)])
def test_raises_for_an_index_that_points_beyond_its_segment(index, end_offset, size):
    index.check_against(75, 5001)
    with pytest.raises(CorruptIndexError, match="reaches offset 75 at 5000"):
        index.check_against(end_offset, size)


def test_golden_indexes_read_as_kafkas_own_tool_printed_them():
    text = read_text(golden_local() / "dump-log-segments" / "txn-0.txt.gz")
    printed = {
        int(start): [(int(a), int(b)) for a, b in re.findall(r"offset: (\d+) position: (\d+)", body)]
        for start, body in re.findall(r"Dumping \S+/(\d+)\.index\n((?:offset: .*\n)*)", text)
    }
    store = golden_store()
    for segment in golden_cache("txn").list_all_remote_log_segments():
        index = OffsetIndex(store.get(LAYOUT.object_key(segment, ObjectKind.OFFSET_INDEX)), segment.start_offset)
        index.check_against(segment.end_offset, segment.segment_size_in_bytes)
        # For an empty index the tool prints one entry that does not exist.
        assert [(e.offset, e.position) for e in index] == ([] if not len(index) else printed[segment.start_offset])
    assert len(printed) > 20
