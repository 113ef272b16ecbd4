"""Segments are chosen for a copy as RemoteLogManager chooses them."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.tiered_cluster.batches import Marker
from kafka_remote_client.tiered_cluster.copy_task import candidates, highest_remote_offset, started_copy
from tests.tiered_cluster.logs import BATCH_BYTES, data, filled, marker, new_log
from tests.tiered_cluster.test_metadata_records import TIP
from tests.tiered_cluster.test_remote_segments import after, finished


def test_sealed_segments_below_the_last_stable_offset_are_copied() -> None:
    log = new_log().appended([data() for _ in range(7)], 0)
    assert candidates(log, -1, 0) == ()
    assert candidates(log.replicated(39), -1, 0) == (0,)
    assert candidates(log.replicated(40), -1, 0) == (0, 20)
    assert candidates(log.replicated(), -1, 0) == (0, 20, 40)


def test_an_open_transaction_keeps_its_segment() -> None:
    log = new_log().appended([data(), data(), data(), data(producer=7), data(), data()], 0).replicated()
    assert candidates(log, -1, 0) == (0,)
    ended = log.appended([marker(Marker.ABORT, 7)], 0).replicated()
    assert candidates(ended, -1, 0) == (0, 20, 40)


@pytest.mark.parametrize(("copied", "bases"), [(-1, (0, 20)), (18, (0, 20)), (19, (20,)), (39, ()), (50, ())])
def test_what_is_in_the_tier_is_not_copied(copied: int, bases: tuple[int, ...]) -> None:
    assert candidates(filled(5), copied, 0) == bases


def test_deleted_records_are_not_copied() -> None:
    log = filled(5)
    assert candidates(attrs.evolve(log, log_start=20), -1, 0) == (20,)


@pytest.mark.parametrize(
    ("now", "lag_ms", "lag_bytes", "bases"),
    [
        (1101, 100, -1, (0,)),  # the segments' latest records have the times 1001 and 1003
        (1100, 100, -1, ()),
        (1103, 100, -1, (0, 20)),
        (1000, 100, -1, (0, 20)),  # records of the future
        (1103, -1, -1, ()),
        (1100, 100, 3 * BATCH_BYTES, (0,)),
        (1100, 100, 1 * BATCH_BYTES, (0, 20)),
        (1100, 100, 4 * BATCH_BYTES, ()),
        (1100, 0, 9 * BATCH_BYTES, (0, 20)),
        (1100, 9999, 0, (0, 20)),
    ],
)
def test_a_copy_waits_for_either_lag(now: int, lag_ms: int, lag_bytes: int, bases: tuple[int, ...]) -> None:
    log = filled(5, remote_copy_lag_ms=lag_ms, remote_copy_lag_bytes=lag_bytes)
    assert candidates(log, -1, now) == bases


def test_nothing_is_copied_when_that_is_disabled() -> None:
    assert candidates(filled(5, remote_log_copy_disable=True), -1, 0) == ()


def test_a_copy_has_its_segments_epochs() -> None:
    log = filled(1).elected(3).appended([data(), data()], 0).elected(5).replicated()
    segment = started_copy(TIP, log, 0, UUID(int=4), 2, 77)
    assert segment.segment_leader_epochs == (EpochEntry(0, 0), EpochEntry(3, 10))
    assert (segment.end_offset, segment.broker_id, segment.event_timestamp_ms) == (19, 2, 77)


def test_a_copy_says_whether_it_has_aborted_transactions() -> None:
    log = new_log().appended([data(producer=7), marker(Marker.ABORT, 7), data(), data()], 0).replicated()
    assert not started_copy(TIP, log, 0, UUID(int=1), 1, 0).txn_index_empty
    assert started_copy(TIP, filled(3), 0, UUID(int=1), 1, 0).txn_index_empty


def test_the_newest_epoch_in_the_tier_tells_its_end() -> None:
    log = filled(2).elected(3).appended([data()], 0).elected(5).appended([data()], 0)
    assert highest_remote_offset(log, after()) == -1
    assert highest_remote_offset(log, after(*finished(1, 0, 9))) == 9
    assert highest_remote_offset(log, after(*finished(1, 0, 9), *finished(2, 10, 25, (0, 10), (3, 20)))) == 25


def test_what_another_leader_copied_beyond_an_epoch_does_not_count() -> None:
    log = filled(2).elected(3).appended([data()], 0)
    assert highest_remote_offset(log, after(*finished(1, 0, 24))) == 19
