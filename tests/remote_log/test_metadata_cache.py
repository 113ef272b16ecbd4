"""The scenarios of Kafka's RemoteLogMetadataCacheTest and RemoteLogSegmentLifecycleTest, and the golden events."""

from __future__ import annotations

import itertools
import threading

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import UNKNOWN_OFFSET, EpochEntry, RemoteLogSegmentState
from kafka_remote_client.remote_log import metadata_cache
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import COMPACTED_TRANSITIONS, TRANSITIONS, RemoteLogMetadataCache
from kafka_remote_client.remote_log.tiered_log import TieredLog
from tests.support.golden_metadata import golden_metadata, golden_offsets, live_partitions
from tests.support.steps import steps_of
from tests.support.tier import TIP, finish, metadata, update

COPYING, COPIED, DELETING, DELETED = RemoteLogSegmentState


@pytest.fixture
def cache():
    return RemoteLogMetadataCache(TIP)


def put_into(cache, state, segment):
    """Moves a segment to a state through the steps of the table."""
    cache.add_copy_in_progress_segment(segment)
    for step in {COPYING: [], COPIED: [COPIED], DELETING: [COPIED, DELETING], DELETED: [DELETING, DELETED]}[state]:
        assert cache.update_remote_log_segment_metadata(update(segment, step))


@pytest.mark.parametrize("state", [COPIED, DELETING, DELETED])
def test_a_segment_can_only_be_added_as_copy_started(cache, state):
    with pytest.raises(RemoteLogMetadataError, match=state.name):
        cache.add_copy_in_progress_segment(metadata(0, 9, state=state))


def test_an_update_to_copy_started_is_an_error(cache):
    segment = metadata(0, 9)
    cache.add_copy_in_progress_segment(segment)
    with pytest.raises(RemoteLogMetadataError, match="COPY_SEGMENT_STARTED"):
        cache.update_remote_log_segment_metadata(update(segment, COPYING))


def test_an_update_of_an_unknown_segment_is_dropped(cache):
    assert cache.update_remote_log_segment_metadata(update(metadata(0, 9), COPIED)) is False
    assert cache.version == 0


@pytest.mark.parametrize(("state", "target"), [*itertools.product(RemoteLogSegmentState, [COPIED, DELETING, DELETED])])
def test_every_step_is_applied_or_dropped_as_the_table_says(cache, state, target):
    segment = metadata(0, 9)
    put_into(cache, state, segment)
    before = cache.version
    # A deleted segment is removed, so no step can follow.
    allowed = state is not DELETED and target in TRANSITIONS[state]
    assert cache.update_remote_log_segment_metadata(update(segment, target)) is allowed
    assert cache.version == before + allowed


@pytest.mark.parametrize(("state", "target"), [*itertools.product(RemoteLogSegmentState, [COPIED, DELETING, DELETED])])
def test_an_update_with_a_key_may_skip_states_but_not_go_back(cache, state, target):
    segment = metadata(0, 9)
    put_into(cache, state, segment)
    allowed = state is not DELETED and target in COMPACTED_TRANSITIONS[state]
    assert allowed is (state is not DELETED and state <= target)
    assert cache.update_remote_log_segment_metadata(update(segment, target), keyed=True) is allowed
    readable = target is COPIED if allowed else state is COPIED
    assert (cache.remote_log_segment_metadata(0, 5) is not None) is readable
    gone = DELETED in (state, target) if allowed else state is DELETED
    assert (cache.list_all_remote_log_segments() == []) is gone


@pytest.mark.parametrize("state", RemoteLogSegmentState)
def test_a_whole_record_with_a_key_may_have_any_state(cache, state):
    segment = metadata(0, 9, state=state)
    assert cache.add_copy_in_progress_segment(segment, keyed=True)
    assert cache.remote_log_segment_metadata(0, 5) == (segment if state is COPIED else None)
    assert cache.list_all_remote_log_segments() == ([] if state is DELETED else [segment])
    assert not cache.add_copy_in_progress_segment(metadata(0, 9), keyed=True) or state in (COPYING, DELETED)


def test_a_whole_record_may_finish_a_copy_that_is_known(cache):
    segment = metadata(0, 9)
    cache.add_copy_in_progress_segment(segment)
    finished = attrs.evolve(segment, state=COPIED, custom_metadata=b"x")
    assert cache.add_copy_in_progress_segment(finished, keyed=True)
    assert cache.remote_log_segment_metadata(0, 5) == finished


def test_a_tombstone_of_a_segment_removes_it(cache):
    segment = finish(cache, metadata(0, 9))
    before = cache.version
    assert cache.remove_segment(segment.remote_log_segment_id.id)
    assert cache.version == before + 1
    assert cache.list_all_remote_log_segments() == []
    assert cache.leader_epochs() == []
    before = cache.version
    assert not cache.remove_segment(segment.remote_log_segment_id.id)
    assert cache.version == before


def test_a_tombstone_by_end_offset_removes_only_its_epoch(cache):
    old = finish(cache, metadata(0, 9, number=1, broker_leader_epoch=2))
    other = finish(cache, metadata(0, 8, number=2, broker_leader_epoch=2))
    assert not cache.remove_segments(9, 3)
    late = finish(cache, metadata(0, 9, number=3, broker_leader_epoch=3))
    assert cache.remove_segments(9, 2)
    assert cache.list_all_remote_log_segments() == [other, late]
    assert not cache.remove_segments(9, 2)
    assert cache.remove_segments(9, 3)
    assert not cache.remove_segments(4, 3)
    assert cache.list_all_remote_log_segments() == [other]
    assert old.broker_leader_epoch == 2


def test_the_table_has_exactly_kafkas_steps():
    steps = {(a, b) for a, targets in TRANSITIONS.items() for b in targets}
    assert steps == {
        (None, COPYING),
        (COPYING, COPYING),
        (COPYING, COPIED),
        (COPYING, DELETING),
        (COPIED, COPIED),
        (COPIED, DELETING),
        (DELETING, DELETING),
        (DELETING, DELETED),
        (DELETED, DELETED),
    }


@pytest.mark.parametrize("state", [COPYING, COPIED, DELETING])
def test_a_known_segment_can_be_added_again_only_while_it_is_copied(cache, state):
    segment = metadata(0, 9)
    put_into(cache, state, segment)
    assert cache.add_copy_in_progress_segment(segment) is (state is COPYING)


def test_only_a_finished_copy_is_found(cache):
    segment = metadata(0, 9)
    cache.add_copy_in_progress_segment(segment)
    assert cache.remote_log_segment_metadata(0, 5) is None
    cache.update_remote_log_segment_metadata(update(segment, COPIED))
    assert cache.remote_log_segment_metadata(0, 5).remote_log_segment_id == segment.remote_log_segment_id
    cache.update_remote_log_segment_metadata(update(segment, DELETING))
    assert cache.remote_log_segment_metadata(0, 5) is None
    assert cache.list_all_remote_log_segments()[0].state is DELETING
    cache.update_remote_log_segment_metadata(update(segment, DELETED))
    assert cache.list_all_remote_log_segments() == []


def test_update_replaces_only_broker_time_state_and_custom_metadata(cache):
    segment = metadata(0, 9, custom_metadata=b"first")
    cache.add_copy_in_progress_segment(segment)
    cache.update_remote_log_segment_metadata(update(segment, COPIED, b"second"))
    expected = attrs.evolve(segment, broker_id=2, event_timestamp_ms=6000, state=COPIED, custom_metadata=b"second")
    assert cache.remote_log_segment_metadata(0, 0) == expected
    cache.update_remote_log_segment_metadata(update(segment, DELETING))
    assert cache.list_all_remote_log_segments() == [attrs.evolve(expected, state=DELETING, custom_metadata=None)]


def test_segments_over_several_epochs_go_through_their_life_cycle(cache):
    zero = finish(cache, metadata(0, 100, number=10, epochs=[(0, 0), (1, 20), (2, 80)]))
    one = finish(cache, metadata(101, 200, number=11, epochs=[(2, 101)]))
    two = finish(cache, metadata(201, 300, number=12, epochs=[(3, 201)]))
    three = finish(cache, metadata(250, 400, number=13, epochs=[(3, 250), (4, 370)]))

    found = {
        (0, 0): zero,
        (0, 19): zero,
        (0, 20): None,
        (1, 20): zero,
        (1, 79): zero,
        (1, 80): None,
        (2, 80): zero,
        (2, 100): zero,
        (2, 101): one,
        (2, 200): one,
        (2, 201): None,
        (3, 200): None,
        (3, 201): two,
        (3, 249): two,
        (3, 250): three,
        (3, 369): three,
        (3, 370): None,
        (4, 369): None,
        (4, 370): three,
        (4, 400): three,
        (4, 401): None,
        (5, 400): None,
    }
    assert {key: cache.remote_log_segment_metadata(*key) for key in found} == found
    highest = [cache.highest_offset_for_epoch(epoch) for epoch in range(6)]
    assert highest == [19, 79, 200, 369, 400, UNKNOWN_OFFSET]
    assert cache.list_all_remote_log_segments() == [zero, one, two, three]
    assert cache.leader_epochs() == [0, 1, 2, 3, 4]
    assert cache.newest_segment() == three

    cache.update_remote_log_segment_metadata(update(three, DELETING))
    assert cache.remote_log_segment_metadata(4, 380) is None
    assert cache.newest_segment() == two
    assert cache.highest_offset_for_epoch(4) == 400
    assert cache.list_all_remote_log_segments()[-1].remote_log_segment_id == three.remote_log_segment_id
    cache.update_remote_log_segment_metadata(update(three, DELETED))
    assert cache.list_all_remote_log_segments() == [zero, one, two]


def test_a_longer_segment_finished_later_answers_for_both(cache):
    first = finish(cache, metadata(10, 90, number=1))
    second = finish(cache, metadata(5, 100, number=2))
    assert cache.remote_log_segment_metadata(0, 95) == second
    assert cache.remote_log_segment_metadata(0, 50) == second
    assert cache.list_all_remote_log_segments() == [second, first]


def test_no_segment_is_newest_before_a_copy_is_finished(cache):
    assert cache.newest_segment() is None
    cache.add_copy_in_progress_segment(metadata(0, 9))
    assert cache.newest_segment() is None
    assert cache.leader_epochs() == []


def test_the_next_segment_of_an_epoch_is_the_nearest_at_or_after_an_offset(cache):
    finish(cache, metadata(0, 9, number=1))
    later = finish(cache, metadata(50, 99, number=2))
    assert cache.next_remote_log_segment_metadata(0, 1) == later
    assert cache.next_remote_log_segment_metadata(0, 50) == later
    assert cache.next_remote_log_segment_metadata(0, 51) is None
    assert cache.next_remote_log_segment_metadata(7, 0) is None


def test_a_segment_under_an_epoch_that_it_lacks_is_an_assertion_error():
    with pytest.raises(AssertionError, match="epoch 9"):
        metadata_cache._end_of_epoch(metadata(0, 9), 9)


def test_lookups_during_updates_find_a_segment_or_none(cache):
    segments = [metadata(n * 10, n * 10 + 9, number=n + 1) for n in range(200)]
    stop = threading.Event()
    seen = []

    def look():
        while not stop.is_set():
            seen.append(cache.remote_log_segment_metadata(0, 995))

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for segment in segments:
            finish(cache, segment)
        for segment in segments:
            cache.update_remote_log_segment_metadata(update(segment, DELETING))
    finally:
        stop.set()
        reader.join()
    assert {None if m is None else m.start_offset for m in seen} <= {None, 990}


@pytest.mark.parametrize("tip", live_partitions(), ids=str)
def test_golden_events_end_at_the_tier_that_the_broker_reports(tip):
    cache = golden_metadata().cache(tip)
    offsets = golden_offsets()[tip.topic, tip.partition]
    assert {m.state for m in cache.list_all_remote_log_segments()} == {COPIED}
    assert cache.newest_segment().end_offset == offsets["latest_tiered"]["offset"]
    assert cache.leader_epochs()[-1] == offsets["latest_tiered"]["leader_epoch"]


def test_golden_events_of_the_deleted_topic_leave_nothing_readable():
    deleted = [tip for tip in golden_metadata().partitions("deleted") if tip not in live_partitions()]
    assert len(deleted) == 1
    assert golden_metadata().cache(deleted[0]).list_all_remote_log_segments() == []


def filled(segments: int, epochs: int) -> RemoteLogMetadataCache:
    cache = RemoteLogMetadataCache(TIP)
    per_epoch = segments // epochs
    for n in range(segments):
        finish(cache, metadata(n * 10, n * 10 + 9, number=n + 1, epochs=[(n // per_epoch, n * 10)]))
    return cache


@pytest.mark.parametrize("epochs", [lambda n: 1, lambda n: n // 10])
def test_look_ups_take_as_many_steps_in_10000_segments_as_in_100(epochs):
    steps = {}
    for segments in (100, 10_000):
        cache = filled(segments, epochs(segments))
        last = epochs(segments) - 1
        log = TieredLog(cache, LeaderEpochLineage([EpochEntry(n, n * 10 * (segments // (last + 1))) for n in range(last + 1)]))
        cache.newest_segment()  # the first call puts the segments of the epoch in the order of their ends
        middle = segments * 5
        epoch = log.lineage.epoch_for_offset(middle)
        steps[segments] = {
            "newest": steps_of(cache.newest_segment),
            "of an offset": steps_of(lambda c=cache, e=epoch, o=middle: c.remote_log_segment_metadata(e, o)),
            "next": steps_of(lambda c=cache, e=epoch, o=middle: c.next_remote_log_segment_metadata(e, o)),
            "chain": steps_of(lambda t=log, o=middle: next(t.segments_from(o))),
            "start": steps_of(log.start_offset),
            "end": steps_of(log.end_offset),
            "after a gap": steps_of(lambda t=log, o=middle: t._next_start(o)),
        }
    assert steps[10_000] == steps[100]


@given(
    st.lists(
        st.tuples(st.sampled_from([COPIED, DELETING, DELETED]), st.integers(0, 30), st.integers(0, 15), st.integers(0, 3)),
        max_size=30,
    )
)
def test_the_newest_segment_and_epochs_equal_those_of_a_search(events):
    cache = RemoteLogMetadataCache(TIP)
    for number, (state, start, length, epoch) in enumerate(events, 1):
        epochs = [(epoch, start), (epoch + 1, start + length)] if length else [(epoch, start)]
        put_into(cache, state, metadata(start, start + length + 3, number=number, epochs=epochs))
        readable = {e: [cache._unpacked(i) for i in s.contents()[2]] for e, s in cache._epochs.items() if s.contents()[2]}
        assert cache.leader_epochs() == sorted(readable)
        newest = max(readable[max(readable)], key=lambda m: m.end_offset) if readable else None
        assert cache.newest_segment() == newest
