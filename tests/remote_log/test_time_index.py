"""The scenarios of Kafka's TimeIndexTest that concern reading, and the golden indexes."""

from __future__ import annotations

import re

import pytest

from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset, tail_size
from tests.support.golden import golden_local, read_text
from tests.support.golden_metadata import golden_cache, golden_store
from tests.support.tier import LAYOUT, time_entries


def test_an_empty_index_has_no_timestamp():
    empty = TimeIndex(b"", 45)
    assert empty.lookup(100) == empty.last_entry() == TimestampOffset(NO_TIMESTAMP, 45)
    assert (len(empty), list(empty)) == (0, [])


def test_lookup_gives_the_greatest_timestamp_at_or_below():
    index = TimeIndex(time_entries(*((n * 10, n) for n in range(1, 6))), 45)
    expected = {9: (-1, 45), 10: (10, 46), 19: (10, 46), 20: (20, 47), 50: (50, 50), 999: (50, 50)}
    assert {t: (e.timestamp, e.offset) for t in expected for e in [index.lookup(t)]} == expected
    assert index.last_entry() == TimestampOffset(50, 50)
    assert index.nbytes == 60


def test_two_timestamps_may_point_to_one_offset():
    assert len(TimeIndex(time_entries((1, 5), (2, 5)), 0)) == 2


def test_an_unknown_timestamp_may_be_the_first():
    assert list(TimeIndex(time_entries((NO_TIMESTAMP, 0), (0, 0)), 7)) == [TimestampOffset(-1, 7), TimestampOffset(0, 7)]


@pytest.mark.parametrize(("size", "tail"), [(0, 0), (12, 12), (36, 12), (11, None), (13, None)])
def test_the_last_bytes_hold_the_last_entry(size, tail):
    assert tail_size(size) == tail


@pytest.mark.parametrize("entries", [[(5, 1), (5, 2)], [(5, 1), (4, 2)], [(5, 2), (6, 1)], [(5, -1)], [(-2, 0)]])
def test_raises_for_entries_out_of_order(entries):
    with pytest.raises(CorruptIndexError, match="after"):
        TimeIndex(time_entries(*entries), 0)


def test_raises_for_a_length_that_is_no_multiple_of_the_entry():
    with pytest.raises(CorruptIndexError, match="13 bytes"):
        TimeIndex(bytes(13), 0)


def test_golden_indexes_equal_the_output_of_kafkas_own_tool():
    text = read_text(golden_local() / "dump-log-segments" / "txn-0.txt.gz")
    printed = {
        int(start): [(int(a), int(b)) for a, b in re.findall(r"timestamp: (\d+) offset: (\d+)", body)]
        for start, body in re.findall(r"Dumping \S+/(\d+)\.timeindex\n((?:timestamp: .*\n)*)", text)
    }
    for segment in golden_cache("txn").list_all_remote_log_segments():
        index = TimeIndex(golden_store().get(LAYOUT.object_key(segment, ObjectKind.TIME_INDEX)), segment.start_offset)
        assert [(e.timestamp, e.offset) for e in index] == printed[segment.start_offset]
        assert index.last_entry().timestamp == segment.max_timestamp_ms
