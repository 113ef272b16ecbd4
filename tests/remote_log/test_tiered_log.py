from __future__ import annotations

from itertools import islice

import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.tiered_log import TieredLog
from tests.support.tier import TIP, finish, metadata


@pytest.fixture
def cache():
    return RemoteLogMetadataCache(TIP)


def log_of(cache, *entries):
    return TieredLog(cache, LeaderEpochLineage([EpochEntry(*e) for e in entries]))


def spans(segments):
    return [(s.metadata.remote_log_segment_id.id.int, s.start, s.end) for s in segments]


def test_an_empty_tier_has_nothing(cache):
    log = log_of(cache, (0, 0))
    assert log.segment_for_offset(0) is None
    assert (log.start_offset(), log.end_offset(), list(log.all_segments())) == (None, None, [])


def test_segments_from_crosses_segments_and_epochs(cache):
    finish(cache, metadata(0, 9, number=1))
    finish(cache, metadata(10, 29, number=2, epochs=[(0, 10), (2, 20)]))
    finish(cache, metadata(30, 39, number=3, epochs=[(2, 30)]))
    log = log_of(cache, (0, 0), (2, 20))
    assert spans(log.segments_from(0)) == [(1, 0, 10), (2, 10, 30), (3, 30, 40)]
    assert spans(log.segments_from(25)) == [(2, 25, 30), (3, 30, 40)]
    assert (log.start_offset(), log.end_offset()) == (0, 40)


def test_segments_from_stops_at_a_gap_and_all_segments_continues(cache):
    finish(cache, metadata(5, 9, number=1))
    finish(cache, metadata(20, 29, number=2, epochs=[(0, 20), (1, 25)]))
    finish(cache, metadata(40, 49, number=3, epochs=[(3, 40)]))
    log = log_of(cache, (0, 0), (1, 25), (2, 30), (3, 35))
    assert spans(log.segments_from(5)) == [(1, 5, 10)]
    assert spans(log.all_segments()) == [(1, 5, 10), (2, 20, 30), (3, 40, 50)]
    assert spans(log.all_segments(27)) == [(2, 27, 30), (3, 40, 50)]
    assert spans(log.all_segments(30)) == [(3, 40, 50)]
    assert spans(log.all_segments(50)) == []
    assert (log.start_offset(), log.end_offset()) == (5, 50)


@pytest.mark.parametrize("epochs", [[(0, 100), (1, 300)], [(0, 0), (1, 100)]], ids=["behind", "before"])
def test_epochs_outside_of_their_segment_hold_no_offset(cache, epochs):
    finish(cache, metadata(100, 199, number=1, epochs=epochs))
    finish(cache, metadata(400, 499, number=2, epochs=[(1, 400)]))
    log = log_of(cache, *epochs)
    assert spans(islice(log.all_segments(), 3)) == [(1, 100, 200), (2, 400, 500)]
    assert log.segment_for_offset(50) is None
    assert log.segment_for_offset(250) is None


def test_truncated_records_are_not_part_of_the_log(cache):
    finish(cache, metadata(0, 99, number=1))
    finish(cache, metadata(60, 89, number=2, epochs=[(1, 60)]))
    log = log_of(cache, (0, 0), (1, 60))
    assert spans(log.segments_from(0)) == [(1, 0, 60), (2, 60, 90)]
    assert log.segment_for_offset(95) is None
    assert log.end_offset() == 90


def test_the_end_is_where_an_epoch_without_segments_begins(cache):
    finish(cache, metadata(0, 99, number=1))
    assert log_of(cache, (0, 0), (1, 60)).end_offset() == 60


def test_an_epoch_tiered_below_its_start_in_the_lineage_does_not_count(cache):
    finish(cache, metadata(0, 9, number=1))
    finish(cache, metadata(10, 19, number=2, epochs=[(1, 10)]))
    assert log_of(cache, (0, 0), (1, 30)).end_offset() == 10


def test_a_truncated_segment_in_the_next_epochs_offsets_is_skipped(cache):
    finish(cache, metadata(0, 9, number=1))
    finish(cache, metadata(50, 59, number=2))
    finish(cache, metadata(70, 79, number=3, epochs=[(1, 70)]))
    assert spans(log_of(cache, (0, 0), (1, 40)).all_segments()) == [(1, 0, 10), (3, 70, 80)]


def test_an_epoch_without_offsets_in_the_segment_is_not_found(cache):
    finish(cache, metadata(0, 19, number=1, epochs=[(0, 0), (1, 10), (2, 10)]))
    assert log_of(cache, (0, 0), (1, 10)).segment_for_offset(10) is None


def test_a_log_may_start_within_its_first_segment_after_delete_records(cache):
    finish(cache, metadata(0, 9, number=1))
    finish(cache, metadata(10, 29, number=2))
    finish(cache, metadata(30, 39, number=3, epochs=[(4, 30)]))
    log = log_of(cache, (0, 17), (4, 30))  # the leader truncates its lineage at the log's start
    assert spans(log.all_segments()) == [(2, 17, 30), (3, 30, 40)]
    assert (log.start_offset(), log.end_offset()) == (17, 40)


def test_an_epoch_of_one_offset_ends_the_tier(cache):
    finish(cache, metadata(0, 9, number=1))
    finish(cache, metadata(10, 10, number=2, epochs=[(1, 10)]))
    log = log_of(cache, (0, 0), (1, 10))
    assert log.end_offset() == 11
    assert spans(log.segments_from(10)) == [(2, 10, 11)]


def test_a_segment_of_one_offset_before_a_gap_is_returned_once(cache):
    finish(cache, metadata(9, 9, number=1))
    finish(cache, metadata(20, 29, number=2))
    segments = log_of(cache, (0, 0)).all_segments(9)
    assert spans(islice(segments, 3)) == [(1, 9, 10), (2, 20, 30)]
