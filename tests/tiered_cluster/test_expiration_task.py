"""Segments of the tier expire as RemoteLogManager lets them, along the leader's lineage."""

from __future__ import annotations

import attrs
import pytest

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.tiered_cluster.epochs import with_records
from kafka_remote_client.tiered_cluster.expiration_task import expired, is_of_lineage
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from tests.tiered_cluster.logs import data, filled
from tests.tiered_cluster.test_epochs import THREE, lineage
from tests.tiered_cluster.test_remote_segments import DELETING, after, begun, finished, moved


def found(
    log: PartitionLog, remote: RemoteSegments, now_ms: int = 0, **more: RemoteLogSegmentMetadata
) -> tuple[list[int], int]:
    """The numbers of the segments that expire, and the log start."""
    result = expired(log, remote, now_ms, **more)
    return [segment.remote_log_segment_id.id.int for segment in result.segments], result.log_start


def timed(*times: int) -> RemoteSegments:
    """Segments of ten records and 100 bytes each, with these latest times."""
    events = []
    for number, time in enumerate(times):
        start, end = finished(number + 1, 10 * number, 10 * number + 9)
        events += [attrs.evolve(start, max_timestamp_ms=time), end]
    return after(*events)


def tiered(batches: int, **settings: object) -> PartitionLog:
    return attrs.evolve(filled(batches, **settings), highest_remote_offset=10 * batches)


def test_without_limits_nothing_expires() -> None:
    assert found(tiered(5), timed(1, 2, 3), 10**12) == ([], 0)


@pytest.mark.parametrize(("now", "numbers", "start"), [(101, [], 0), (102, [1], 10), (104, [1, 2, 3], 30), (99, [], 0)])
def test_segments_expire_by_their_latest_time(now: int, numbers: list[int], start: int) -> None:
    assert found(tiered(5, retention_ms=100), timed(1, 2, 3), now) == (numbers, start)


def test_a_younger_segment_keeps_those_after_it() -> None:
    assert found(tiered(5, retention_ms=100), timed(50, 1, 1), 102) == ([], 0)


@pytest.mark.parametrize(("limit", "numbers"), [(300, []), (299, []), (200, [1]), (101, [1]), (100, [1, 2]), (0, [1, 2, 3])])
def test_segments_expire_while_enough_bytes_stay(limit: int, numbers: list[int]) -> None:
    assert found(tiered(5, retention_bytes=limit), timed(1, 2, 3)) == (numbers, 10 * len(numbers))


def test_bytes_that_only_the_broker_has_count() -> None:
    log = attrs.evolve(filled(5), highest_remote_offset=29)
    limit = log.only_local_size() + 200
    assert found(attrs.evolve(log, config=attrs.evolve(log.config, retention_bytes=limit)), timed(1, 2, 3)) == ([1], 10)


def test_what_expires_by_time_counts_for_the_size() -> None:
    assert found(tiered(5, retention_ms=100, retention_bytes=200), timed(1, 50, 50), 102) == ([1], 10)


def test_segments_below_the_log_start_expire() -> None:
    log = tiered(5).with_log_start(25)
    assert found(log, timed(1, 2, 3)) == ([1, 2], 25)


def test_a_segment_of_a_later_epoch_waits_for_the_lineage() -> None:
    log = attrs.evolve(tiered(5), log_start=30, lineage=lineage((0, 0), (2, 10)))
    assert found(log, after(*finished(1, 0, 19, (0, 0), (2, 10)))) == ([], 30)


def test_a_deletion_that_did_not_end_is_tried_again() -> None:
    remote = timed(1, 2, 3).applied(moved(2, DELETING))
    assert found(tiered(5), remote) == ([], 0)  # the first segment stays, which ends the search
    assert found(tiered(5), remote.applied(moved(1, DELETING))) == ([1, 2], 0)


def test_the_segment_that_is_being_copied_ends_the_search() -> None:
    copying = begun(3, 20, 29)
    remote = timed(1, 1).applied(copying)
    assert found(tiered(5, retention_ms=0), remote, 10**6, copying=copying) == ([1, 2], 20)
    assert found(tiered(5, retention_ms=0), remote, 10**6) == ([1, 2, 3], 30)


def test_a_segment_in_two_epochs_expires_once() -> None:
    log = attrs.evolve(tiered(5, retention_ms=0), lineage=lineage((0, 0), (2, 10)))
    assert found(log, after(*finished(1, 0, 19, (0, 0), (2, 10))), 10**6) == ([1], 20)


def test_a_segment_of_another_lineage_stays_and_is_passed_over() -> None:
    log = attrs.evolve(tiered(5, retention_ms=0), lineage=lineage((0, 0), (3, 10)))
    remote = after(*finished(1, 0, 19), *finished(2, 10, 19, (3, 10)))  # epoch 0 ended at offset 10
    assert found(log, remote, 10**6) == ([2], 20)
    sized = attrs.evolve(log, config=attrs.evolve(log.config, retention_ms=-1, retention_bytes=100))
    assert found(sized, remote) == ([], 0)  # its bytes do not count


def test_segments_of_epochs_before_the_first_are_unreferenced() -> None:
    log = attrs.evolve(filled(2).elected(4).appended([data()], 0), lineage=lineage((4, 20)))
    assert found(log, after(*finished(1, 0, 9), *finished(2, 10, 29, (3, 10), (4, 20)))) == ([1], 0)


def test_a_log_without_epochs_expires_nothing() -> None:
    assert found(attrs.evolve(tiered(5, retention_ms=0), lineage=()), timed(1), 10**6) == ([], 0)


@pytest.mark.parametrize(
    ("start", "end", "entries", "valid"),
    [
        (0, 9, [(0, 0)], True),
        (5, 9, [(0, 5)], True),
        (0, 10, [(0, 0)], False),  # epoch 0 ended at 9
        (0, 39, [(0, 0), (2, 10), (5, 30)], True),
        (12, 39, [(2, 12), (5, 30)], True),
        (9, 39, [(2, 9), (5, 30)], False),  # epoch 2 begins at 10
        (0, 39, [(0, 0), (5, 30)], False),  # epoch 2 is missing
        (0, 39, [(0, 0), (2, 11), (5, 30)], False),
        (0, 39, [(0, 0), (2, 10), (3, 20), (5, 30)], False),  # no epoch 3
        (0, 39, [(0, 0), (6, 30)], False),
        (30, 49, [(5, 30)], True),
        (30, 50, [(5, 30)], False),  # the log ends at 50
    ],
)
def test_a_segment_is_of_the_lineage_if_its_epochs_are(
    start: int, end: int, entries: list[tuple[int, int]], valid: bool
) -> None:
    assert is_of_lineage(begun(1, start, end, *entries), 50, with_records(THREE)) is valid


def test_epochs_before_the_lineage_are_not_looked_at() -> None:
    cut = with_records(lineage((2, 15), (5, 30)))
    assert is_of_lineage(begun(1, 0, 39, (1, 0), (2, 10), (5, 30)), 50, cut)
    assert not is_of_lineage(begun(1, 0, 9, (1, 0)), 50, cut)
