"""The scenarios of Kafka's OffsetIndexTest that concern reading, and the golden indexes."""

from __future__ import annotations

import re

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.offset_index import OffsetIndex, OffsetPosition
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
