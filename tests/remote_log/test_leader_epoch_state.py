"""The scenarios of Kafka's RemoteLogLeaderEpochStateTest, and cases beyond them."""

from __future__ import annotations

import pytest

from kafka_remote_client.model import UNKNOWN_OFFSET
from kafka_remote_client.remote_log.leader_epoch_state import RemoteLogLeaderEpochState

A, B, C, D = (bytes([n]) * 16 for n in range(1, 5))


@pytest.fixture
def state():
    return RemoteLogLeaderEpochState()


def finish(state, segment_id, start, end):
    state.copy_finished(start, segment_id, end, end)


def referenced(state):
    _, starts, ids, _ = state.contents()
    return list(zip(starts, ids, strict=True))


def test_a_new_state_is_empty(state):
    assert (referenced(state), state.highest_offset) == ([], UNKNOWN_OFFSET)
    assert state.floor(10) is None
    assert state.ceiling(0) is None


def test_a_finished_copy_is_referenced_and_raises_the_highest_offset(state):
    finish(state, A, 10, 100)
    assert referenced(state) == [(10, A)]
    assert state.highest_offset == 100


def test_segments_that_follow_each_other_are_kept_in_order_of_start(state):
    finish(state, B, 101, 200)
    finish(state, A, 10, 100)
    finish(state, C, 201, 300)
    assert referenced(state) == [(10, A), (101, B), (201, C)]
    assert [state.floor(offset) for offset in (9, 10, 100, 101, 999)] == [None, A, A, B, C]
    assert [state.ceiling(offset) for offset in (0, 10, 11, 201, 202)] == [A, A, B, C, None]


def test_a_longer_segment_finished_later_evicts_what_it_covers(state):
    finish(state, A, 10, 90)
    finish(state, B, 5, 100)
    assert referenced(state) == [(5, B)]
    assert state.floor(95) == B


def test_a_longer_segment_evicts_several(state):
    finish(state, A, 10, 20)
    finish(state, B, 21, 30)
    finish(state, C, 31, 40)
    finish(state, D, 15, 40)
    assert referenced(state) == [(10, A), (15, D)]


def test_a_segment_with_the_same_start_and_a_higher_end_wins(state):
    finish(state, A, 10, 100)
    finish(state, B, 10, 150)
    assert referenced(state) == [(10, B)]


def test_an_identical_segment_finished_later_wins(state):
    finish(state, A, 10, 100)
    finish(state, B, 10, 100)
    assert referenced(state) == [(10, B)]


def test_a_shorter_segment_finished_later_hides_without_evicting(state):
    finish(state, A, 10, 100)
    finish(state, B, 20, 60)
    assert referenced(state) == [(10, A), (20, B)]
    assert state.highest_offset == 100


def test_a_shorter_segment_with_the_same_start_overwrites_the_key(state):
    finish(state, A, 10, 100)
    finish(state, B, 10, 60)
    assert referenced(state) == [(10, B)]
    assert state.highest_offset == 100


def test_a_delete_unreferences_at_once_and_leaves_the_highest_offset(state):
    finish(state, A, 10, 100)
    state.delete_started(10, A)
    assert (referenced(state), state.highest_offset) == ([], 100)


def test_a_delete_leaves_the_segment_that_took_the_place(state):
    finish(state, A, 10, 100)
    finish(state, B, 10, 150)
    state.delete_started(10, A)
    assert referenced(state) == [(10, B)]
    assert state.floor(50) == B


def test_the_newest_of_equal_ends_is_the_one_that_starts_first(state):
    finish(state, A, 10, 100)
    finish(state, B, 20, 100)
    assert state.newest() == A
    finish(state, C, 30, 60)
    assert state.newest() == A
    state.delete_started(10, A)
    assert state.newest() == B


def test_a_delete_of_a_start_that_is_not_referenced_changes_nothing(state):
    finish(state, A, 10, 100)
    state.delete_started(5, B)
    state.delete_started(11, B)
    assert referenced(state) == [(10, A)]
