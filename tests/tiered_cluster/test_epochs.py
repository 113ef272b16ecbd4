"""The lineage changes as Kafka's LeaderEpochFileCache does."""

from __future__ import annotations

import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.tiered_cluster.epochs import (
    Lineage,
    assigned,
    checkpoint,
    entries_in_range,
    epoch_for_offset,
    truncated_from_end,
    truncated_from_start,
    with_records,
)


def lineage(*entries: tuple[int, int]) -> Lineage:
    return tuple(EpochEntry(*entry) for entry in entries)


THREE = lineage((0, 0), (2, 10), (5, 30))


@pytest.mark.parametrize(
    ("epoch", "start", "expected"),
    [
        (6, 40, (*THREE, EpochEntry(6, 40))),
        (5, 35, THREE),  # the same epoch goes on
        (6, 30, lineage((0, 0), (2, 10), (6, 30))),  # epoch 5 wrote nothing
        (6, 10, lineage((0, 0), (6, 10))),
        (4, 40, lineage((0, 0), (2, 10), (4, 40))),
    ],
)
def test_a_new_epoch_removes_those_that_conflict(epoch: int, start: int, expected: Lineage) -> None:
    assert assigned(THREE, epoch, start) == expected


def test_the_first_epoch_is_taken() -> None:
    assert assigned((), 3, 7) == lineage((3, 7))


@pytest.mark.parametrize(("end", "expected"), [(30, THREE[:2]), (31, THREE), (0, ())])
def test_the_end_is_cut(end: int, expected: Lineage) -> None:
    assert truncated_from_end(THREE, end) == expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (0, THREE),
        (9, lineage((0, 9), (2, 10), (5, 30))),
        (10, THREE[1:]),
        (12, lineage((2, 12), (5, 30))),
        (99, lineage((5, 99))),
    ],
)
def test_the_start_is_cut(start: int, expected: Lineage) -> None:
    assert truncated_from_start(THREE, start) == expected


def test_a_start_before_all_epochs_changes_nothing() -> None:
    assert truncated_from_start(THREE[1:], 3) == THREE[1:]


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (9, 0), (10, 2), (29, 2), (30, 5), (999, 5)])
def test_an_offset_has_an_epoch(offset: int, epoch: int) -> None:
    assert epoch_for_offset(THREE, offset) == epoch
    assert epoch_for_offset(THREE[1:], 9) == -1


def test_a_segment_has_the_epochs_of_its_offsets() -> None:
    assert entries_in_range(THREE, 5, 30) == lineage((0, 5), (2, 10))
    assert entries_in_range(THREE, 30, 31) == lineage((5, 30))


def test_epochs_without_records_are_left_out() -> None:
    assert with_records(lineage((0, 0), (1, 5), (2, 5), (4, 9))) == {0: 0, 2: 5, 4: 9}
    assert with_records(()) == {}


def test_the_client_reads_the_checkpoint() -> None:
    assert list(parse_leader_epoch_checkpoint(checkpoint(THREE))) == list(THREE)
    assert checkpoint(()) == b"0\n0\n"
