"""The tasks of a leader do what RemoteLogManager does, step by step, and a crash at any step leaves what a broker leaves."""

from __future__ import annotations

from uuid import UUID

import attrs
import pytest

from kafka_remote_client.model import EpochEntry
from kafka_remote_client.tiered_cluster.partition import (
    Crash,
    Done,
    Elect,
    Failed,
    RunCopy,
    RunExpiration,
    Task,
    Throttled,
    step,
)
from kafka_remote_client.tiered_cluster.segment_files import FileKind, segment_files
from tests.tiered_cluster.logs import data, filled
from tests.tiered_cluster.world import World

COPIED = ["COPY_SEGMENT_STARTED 1", "copy 1 [0, 19]", "COPY_SEGMENT_FINISHED 1"]
COPIED_2 = ["COPY_SEGMENT_STARTED 2", "copy 2 [20, 39]", "COPY_SEGMENT_FINISHED 2"]
DELETED = ["DELETE_SEGMENT_STARTED 1", "remove 1 [0, 19]", "DELETE_SEGMENT_FINISHED 1"]
ELECTED = Elect(broker_id=2, epoch=1)


def test_copies_sealed_segments_in_order() -> None:
    world = World(filled(5))
    assert world.copy() == [*COPIED, *COPIED_2]
    assert world.log.highest_remote_offset == 39
    assert world.copy() == []
    for number in (1, 2):
        files = {kind: world.objects[UUID(int=number), kind] for kind in FileKind if (UUID(int=number), kind) in world.objects}
        assert files == segment_files(world.log, number - 1)


def test_a_run_copies_no_more_than_it_has_ids() -> None:
    world = World(filled(5))
    assert world.do(RunCopy(10_000, (UUID(int=1),))) == COPIED


def test_the_metadata_says_what_was_copied() -> None:
    log = filled(1).elected(3).appended([data(timestamp=2000), data(timestamp=3000)], 0).replicated()
    world = World(log)
    world.custom_metadata = b"where"
    world.copy()
    (segment,) = world.partition.remote.segments.values()
    assert (segment.start_offset, segment.end_offset, segment.segment_size_in_bytes) == (0, 19, log.segments[0].size)
    assert segment.segment_leader_epochs == (EpochEntry(0, 0), EpochEntry(3, 10))
    assert (segment.max_timestamp_ms, segment.broker_id, segment.custom_metadata) == (2000, 1, b"where")
    assert segment.txn_index_empty
    assert segment.event_timestamp_ms == 10_002


@pytest.mark.parametrize("commands", [0, 1, 2, 3])
def test_the_next_leader_copies_again_what_was_not_finished(commands: int) -> None:
    world = World(filled(3))
    ids = (UUID(int=1),)
    assert world.do(RunCopy(10_000, ids), commands) == COPIED[:commands]
    assert world.do(Crash()) == []
    assert world.do(ELECTED) == []
    again = [line.replace(" 1", " 2", 1) for line in COPIED] if 1 <= commands < 3 else COPIED if commands == 0 else []
    assert world.copy() == again
    assert world.log.highest_remote_offset == 19
    assert (UUID(int=1), FileKind.LOG) in world.objects or commands < 2


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_copy_that_may_succeed_later_is_left_as_it_is(failing: int) -> None:
    world = World(filled(3))
    world.fails = {failing: True}
    world.copy()
    assert world.log.highest_remote_offset == -1
    again = "1" if failing == 0 else "2"
    assert world.copy() == [line.replace(" 1", f" {again}", 1) for line in COPIED]


def test_a_copy_that_cannot_succeed_is_deleted() -> None:
    world = World(filled(5))
    world.fails = {1: False}
    assert world.copy() == [*COPIED[:2], *DELETED]
    assert (world.objects, dict(world.partition.remote.segments)) == ({}, {})
    assert world.copy()[0] == "COPY_SEGMENT_STARTED 2"


def test_too_much_custom_metadata_ends_copying_until_an_election() -> None:
    world = World(filled(5), custom_metadata_bytes=4)
    world.custom_metadata = b"5 byt"
    assert world.copy() == [*COPIED[:2], *DELETED]
    assert (world.copy(), world.objects) == ([], {})
    world.custom_metadata = b"four"
    world.do(ELECTED)
    assert world.copy()[2] == "COPY_SEGMENT_FINISHED 2"


def test_a_deleted_segment_ends_the_copy_run() -> None:
    world = World(filled(7))
    world.do(RunCopy(10_000, (UUID(int=1), UUID(int=2))), 0)
    world.change(world.log.with_log_start(25))
    assert world.do(Done(Task.COPY, 10_001)) == []
    assert world.partition.runs == {}
    world = World(filled(7))
    waiting = world.send(RunCopy(10_000, (UUID(int=1), UUID(int=2))))
    for _ in range(2):
        waiting = world.carry_out(*waiting)
    world.change(world.log.with_log_start(45))
    assert world.carry_out(*waiting) == ()


def test_a_task_does_one_thing_at_a_time() -> None:
    world = World(filled(5, retention_ms=0))
    world.do(RunCopy(10_000, (UUID(int=1),)), 0)
    assert world.send(RunCopy(10_000, (UUID(int=2),))) == ()
    world = World(filled(5, retention_ms=0))
    world.copy()
    assert len(world.send(RunExpiration(10_000))) == 1
    assert world.send(RunExpiration(10_000)) == ()


@pytest.mark.parametrize("answer", [Done(Task.COPY, 0), Failed(Task.COPY, 0)])
def test_an_answer_needs_a_command(answer: Done | Failed) -> None:
    with pytest.raises(ValueError, match="the copy task has no command under way"):
        step(World(filled(1)).partition, answer)


# Expiration.


def test_the_log_start_moves_before_objects_go() -> None:
    world = World(filled(5, retention_ms=8000))
    world.copy()
    assert world.do(RunExpiration(9002), 0) == []
    assert world.log.log_start == 20
    assert (UUID(int=1), FileKind.LOG) in world.objects


def test_a_deletion_marks_removes_and_ends() -> None:
    world = World(filled(5, retention_ms=8000))
    world.copy()
    assert world.do(RunExpiration(9002)) == DELETED
    assert {key[0].int for key in world.objects} == {2}
    assert world.do(RunExpiration(9002)) == []


@pytest.mark.parametrize("failing", [6, 7, 8])
@pytest.mark.parametrize("retriable", [True, False])
def test_a_stuck_deletion_is_tried_again(failing: int, retriable: bool) -> None:
    world = World(filled(5, retention_ms=8000))
    world.copy()
    world.fails = {failing: retriable}
    world.do(RunExpiration(9002))
    assert world.do(ELECTED) == []
    assert world.do(RunExpiration(9002)) == DELETED
    assert {key[0].int for key in world.objects} == {2}


def test_custom_metadata_is_repeated_in_deletions() -> None:
    world = World(filled(5, retention_ms=8000))
    world.custom_metadata = b"where"
    world.copy()
    world.do(RunExpiration(9002), 1)
    assert world.partition.remote.segments[UUID(int=1)].custom_metadata == b"where"


def test_a_copy_under_way_is_not_deleted() -> None:
    world = World(filled(5, retention_ms=0))
    world.do(RunCopy(10_000, (UUID(int=1),)), 1)
    assert world.do(RunExpiration(10**6)) == []
    world.do(Crash())
    assert world.do(RunExpiration(10**6)) == DELETED


def test_a_log_start_above_the_high_watermark_waits() -> None:
    world = World(filled(5, retention_ms=0))
    world.copy()
    world.do(Elect(2, 1, end_offset=45))
    world.change(world.log.truncated(45))
    world.change(attrs.evolve(world.log, high_watermark=30))
    assert (world.do(RunExpiration(10**6)), world.log.log_start) == ([], 0)
    world.change(world.log.replicated())
    assert world.do(RunExpiration(10**6)) != []


def test_an_unclean_election_copies_its_own_records() -> None:
    world = World(filled(5))
    world.copy()
    world.do(Elect(2, 1, end_offset=30))
    assert world.log.end_offset == 30
    world.change(world.log.appended([data(), data()], 0).replicated())
    assert world.partition.remote.serving(1, 35) is None
    # The new leader's log ended inside the second segment, which it copies again, with two epochs.
    assert world.copy() == [line.replace(" 2", " 3", 1) for line in COPIED_2]
    found = [world.partition.remote.serving(*asked) for asked in ((0, 19), (0, 29), (1, 30), (1, 39))]
    assert [segment and segment.remote_log_segment_id.id.int for segment in found] == [1, 3, 3, 3]


def test_throttled_copy_goes_on_in_the_next_run() -> None:
    world = World(filled(5))
    world.send(RunCopy(10_000, (UUID(int=1), UUID(int=2))))
    world.send(Throttled())
    assert world.partition.runs == {}
    assert world.copy() == [*COPIED, *COPIED_2]
    with pytest.raises(ValueError, match="no command"):
        world.send(Throttled())


def test_quota_stops_no_copy_that_has_begun() -> None:
    world = World(filled(5))
    (begin,) = world.send(RunCopy(10_000, (UUID(int=1),)))
    world.carry_out(begin)
    with pytest.raises(ValueError, match="objects are copied"):
        world.send(Throttled())
