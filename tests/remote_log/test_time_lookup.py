from __future__ import annotations

import pytest

from kafka_remote_client.errors import CorruptIndexError, CorruptRecordError
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.time_lookup import TimestampAndOffset
from tests.support.golden_metadata import golden_metadata, golden_offsets, golden_store, live_partitions
from tests.support.tier import LAYOUT, Tier, batch


@pytest.fixture
def tier():
    return Tier()


def look(tier, timestamp, start_offset=0):
    found = RemoteSegmentResolver(tier.store, LAYOUT).offset_for_time(tier.cache, timestamp, start_offset=start_offset)
    return None if found is None else (found.offset, found.timestamp, found.leader_epoch)


def test_the_first_record_at_or_after_the_timestamp_is_found(tier):
    tier.add([batch(0, 3, timestamps=[10, 30, 20]), batch(3, 2, timestamps=[5, 40], epoch=0)], number=1, indexed=[1])
    assert look(tier, 0) == (0, 10, 0)
    assert look(tier, 11) == (1, 30, 0)
    assert look(tier, 31) == (4, 40, 0)
    assert look(tier, 41) is None


def test_records_below_the_start_do_not_count(tier):
    tier.add([batch(0, 3, timestamps=[10, 30, 20]), batch(3, 2, timestamps=[5, 40])], number=1)
    assert look(tier, 11, start_offset=2) == (2, 20, 0)
    assert look(tier, 25, start_offset=2) == (4, 40, 0)
    assert look(tier, 0, start_offset=5) is None


def test_segments_that_end_before_the_timestamp_are_not_read(tier):
    tier.add([batch(0, 3, timestamps=[10, 30, 20])], number=1, max_timestamp_ms=30)
    tier.add([batch(3, 2, timestamps=[5, 40])], number=2, max_timestamp_ms=40)
    assert look(tier, 31) == (4, 40, 0)
    assert tier.store.reads("00000000000000000000-AAAAAAAAAAAAAAAAAAAAAQ.timeindex") == 0


def test_a_segment_whose_highest_timestamp_is_unknown_is_read(tier):
    tier.add([batch(0, 3, timestamps=[10, 30, 20])], number=1, max_timestamp_ms=-1)
    assert look(tier, 15) == (1, 30, 0)
    assert look(tier, 31) is None


def test_a_too_high_maximum_in_the_metadata_leads_to_the_next_segment(tier):
    # The metadata has a maximum of 90, the log only 30.
    tier.add([batch(0, 2, timestamps=[10, 30])], number=1, max_timestamp_ms=90)
    tier.add([batch(2, 1, timestamps=[95])], number=2, max_timestamp_ms=95)
    assert look(tier, 50) == (2, 95, 0)


def test_log_append_time_is_the_time_of_every_record(tier):
    tier.add([batch(0, 3, timestamps=[1, 2, 3], log_append_time=500)], number=1, max_timestamp_ms=500)
    assert look(tier, 400) == (0, 500, 0)


def test_a_control_record_counts(tier):
    tier.add(
        [batch(0, 2, timestamps=[10, 11], producer_id=7), batch(2, timestamps=[50], producer_id=7, marker="commit")],
        number=1,
        max_timestamp_ms=50,
    )
    assert look(tier, 12) == (2, 50, 0)


def test_a_batch_whose_match_is_below_the_start_is_skipped(tier):
    # The only record at or after the timestamp is below the start.
    tier.add([batch(0, 2, timestamps=[90, 10]), batch(2, 1, timestamps=[95])], number=1, max_timestamp_ms=95)
    assert look(tier, 50, start_offset=1) == (2, 95, 0)


def test_truncated_records_are_not_found(tier):
    tier.add([batch(0, 5, timestamps=[1] * 5), batch(5, 5, timestamps=[50] * 5)], number=1, max_timestamp_ms=50)
    tier.add(
        [batch(5, 5, epoch=1, timestamps=[60] * 5)], number=2, epochs=[(1, 5)], lineage=[(0, 0), (1, 5)], max_timestamp_ms=60
    )
    assert look(tier, 40) == (5, 60, 1)


def test_raises_for_a_damaged_batch(tier):
    segment = tier.add([batch(0, 3)], number=1)
    key = LAYOUT.object_key(segment, ObjectKind.LOG)
    tier.store.objects[key] = tier.store.objects[key][:-1] + b"\xff"
    with pytest.raises(CorruptRecordError):
        look(tier, 0)


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_look_ups_equal_the_brokers_if_the_answer_is_tiered(tip):
    known = golden_offsets()[tip.topic, tip.partition]
    resolver, cache = RemoteSegmentResolver(golden_store(), LAYOUT), golden_metadata().cache(tip)
    assert known["by_timestamp"]
    for asked, offset, timestamp, epoch in known["by_timestamp"]:
        found = resolver.offset_for_time(cache, asked, start_offset=known["earliest"]["offset"])
        tiered = 0 <= offset <= known["latest_tiered"]["offset"]
        assert found == (TimestampAndOffset(offset, timestamp, epoch) if tiered else None)


def test_the_maximum_timestamp_itself_is_found(tier):
    tier.add([batch(0, 2, timestamps=[10, 30]), batch(2, 2, timestamps=[35, 40])], number=1, max_timestamp_ms=40)
    tier.add([batch(4, 1, timestamps=[90])], number=2, max_timestamp_ms=90)
    assert look(tier, 30) == (1, 30, 0)
    assert look(tier, 40) == (3, 40, 0)
    assert look(tier, 90) == (4, 90, 0)


def test_a_log_that_ends_inside_the_batch_is_an_error(tier):
    segment = tier.add([batch(0, 3, timestamps=[10, 20, 30], payload=200)], number=1)
    tier.add([batch(3, 2, timestamps=[40, 50])], number=2)
    key = LAYOUT.object_key(segment, ObjectKind.LOG)
    tier.put(segment, ObjectKind.LOG, tier.store.get(key)[:-100])
    with pytest.raises(CorruptIndexError, match="ends inside the batch at 0"):
        look(tier, 15)
