from __future__ import annotations

from typing import Any, cast
from uuid import UUID

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, OFFSET_STORED, TopicPartition

from kafka_remote_client.breaker import StoreHealth
from kafka_remote_client.consumer.damage import Damage
from kafka_remote_client.consumer.partition_flow import PartitionFlow, topic_partition
from kafka_remote_client.consumer.route_state import IllegalRouteError, Route, RouteEvent
from kafka_remote_client.consumer.tier_log import Tier, TierLogs
from kafka_remote_client.errors import CorruptRecordError
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import PartitionOffsets
from kafka_remote_client.records import RecordBlock, read_batches
from kafka_remote_client.wire import ZERO_UUID
from tests.support.batches import Rec, batch


def test_a_leader_epoch_goes_with_an_offset_only() -> None:
    assert topic_partition("t", 1, 5, 3).leader_epoch == 3
    assert topic_partition("t", 1, 5, -1).leader_epoch is None
    assert topic_partition("t", 1, OFFSET_INVALID, 3).leader_epoch is None


def test_what_lies_in_the_tier_is_parked_at_the_high_watermark() -> None:
    flow = PartitionFlow("t", 0, 5)
    assert flow.inner_start.offset == 5
    flow.learn(PartitionOffsets(0, 10, 9, 20))
    assert (flow.below_local, flow.inner_start.offset, flow.moved) == (True, 20, True)


@pytest.mark.parametrize(
    "bounds", [PartitionOffsets(), PartitionOffsets(earliest_local=10), PartitionOffsets(high_watermark=9)]
)
def test_nothing_is_below_a_local_log_that_is_not_known(bounds: PartitionOffsets) -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.learn(bounds)
    assert not flow.below_local


def test_position_follows_what_was_handed_out_and_not_what_was_gathered() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.gathered_to(8, 2)
    assert flow.handed.offset == OFFSET_INVALID
    flow.handed_out()
    flow.gathered_to(12, 3)
    assert (flow.handed.offset, flow.handed.leader_epoch) == (8, 2)


@pytest.mark.parametrize("topic_of_leader", [UUID(int=0), UUID(int=7), UUID(int=8)], ids=["not-known", "same", "other"])
def test_the_broker_continues_in_another_topic_without_an_epoch(topic_of_leader: UUID) -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.ended(ReadEnd("diverging-epoch", 30, 4, topic_id=UUID(int=7), topic_id_of_leader=topic_of_leader))
    other = topic_of_leader == UUID(int=8)
    assert (flow.here.offset, flow.here.leader_epoch) == (30, None if other else 4)
    assert flow.doubted is not other, "librdkafka cannot take the log for one that was cut if it gets no epoch"


def test_a_log_that_ends_before_the_hand_over_is_doubted_once() -> None:
    flow, end = PartitionFlow("t", 0, 5), ReadEnd("local", 30, 4)
    for looks in (True, False, True):
        flow.ended(end)
        assert flow.doubted is looks
        if flow.doubted:
            assert flow.goes_back_to(29)
            assert not flow.doubted
    assert not flow.goes_back_to(30)


def test_damage_is_no_reason_for_doubt() -> None:
    """librdkafka begins again at the log's start after a damaged batch."""
    flow = PartitionFlow("t", 0, 5)
    flow.ended(ReadEnd("corrupt", 30, 4, CorruptRecordError("damaged")))
    assert (flow.damage is None, flow.doubted) == (False, False)


def test_a_seek_ends_the_doubt_and_forgets_the_topic() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.route = Route.BROKER
    flow.ended(ReadEnd("local", 30, 4))
    flow.topic_id, flow.looked_again = UUID(int=7), True
    flow.sought(PartitionFlow("t", 0, 20))
    assert (flow.topic_id, flow.doubted, flow.looked_again) == (UUID(int=0), False, False)


def test_what_is_taken_back_comes_again() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.route = Route.REMOTE
    flow.gathered_to(8, 2)
    flow.handed_out()
    flow.gathered_to(12, 3)
    flow.take_back(9)
    assert (flow.next_offset, flow.leader_epoch, flow.moved) == (9, 2, True)
    flow.handed_out()
    assert flow.position == 8
    flow.route = Route.BROKER
    flow.take_back(9)
    assert (flow.position, flow.position_epoch, flow.next_offset) == (8, 2, 9), "what was not handed out moves no position"


def test_the_pause_after_failures_doubles_up_to_half_a_minute() -> None:
    flow = PartitionFlow("t", 0, 5)
    assert [flow.backoff_seconds(1.0) for _ in range(7)] == [1, 2, 4, 8, 15, 15, 15]
    assert flow.backoff_seconds(600.0) == 600
    assert "t-0" in repr(flow)
    assert flow.take(5, RecordBlock.messages) is None


@pytest.mark.parametrize("partitions", [1, 3, 20])
@pytest.mark.parametrize("healed_at", range(1, 200, 7))
def test_a_store_that_is_well_again_is_read_within_thirty_seconds(healed_at: float, partitions: int) -> None:
    """Runs with default breaker and back-off on a manual clock: all partitions return, whenever the store recovers."""
    health = StoreHealth(failures=5, reset_seconds=10.0)
    flows = [PartitionFlow("t", number, 0) for number in range(partitions)]
    turns = [(number * 0.3, number) for number in range(partitions)]
    read_again: dict[int, float] = {}
    while len(read_again) < partitions:
        turns.sort()
        now, number = turns.pop(0)
        if health.allows(now):
            if now >= healed_at:
                health.succeeded()
                read_again[number] = now
                continue
            health.failed(now)
        turns.append((now + flows[number].backoff_seconds(1.0), number))
    assert max(read_again.values()) <= healed_at + 30


@pytest.mark.parametrize(("next_offset", "first"), [(120, 120), (9, None), (151, None), (OFFSET_END, None)])
def test_no_tier_is_noted_before_the_first_record_of_a_broker_start(next_offset: int, first: int | None) -> None:
    tiers = TierLogs()
    flow = PartitionFlow("orders", 0, next_offset, tiers=tiers)
    flow.learn(PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150))
    flow.change_route(RouteEvent.BROKER_CHOSEN)
    assert tiers.unplaced == (set() if first is not None else {flow.key})
    tiers.place(flow.key, 140)
    assert tiers.tier(flow.key, 140, 141) is Tier.BROKER
    assert tiers.tier(flow.key, 139, 141) is (None if first is None else Tier.BROKER)


class _OneBlock:
    """A reader that has one block."""

    has_ready = True
    offsets, topic_id = PartitionOffsets(), ZERO_UUID

    def __init__(self, block: RecordBlock) -> None:
        self.block = block

    def take(self) -> RecordBlock:
        return self.block

    def release(self) -> None:
        """Does nothing: the block stays."""

    def stop(self) -> None:
        """Does nothing."""


def test_a_slice_leaves_the_epoch_of_its_last_record() -> None:
    old, new = ([Rec(number, value=b"v") for number in range(2)] for _ in range(2))
    both = read_batches(batch(0, old, epoch=4) + batch(2, new, epoch=5))
    assert (len(both), both.leader_epoch(1), both.leader_epoch(2)) == (4, 4, 5)
    for sizes, epochs in (((4,), [5]), ((2, 2), [4, 5]), ((1, 2, 1), [4, 5, 5])):
        flow = PartitionFlow("t", 0, 0)
        flow.reader = cast("Any", _OneBlock(both))
        left = []
        for size in sizes:
            flow.take(size, RecordBlock.messages)
            left.append(flow.leader_epoch)
        assert left == epochs
        flow.handed_out()
        assert (flow.handed.offset, flow.handed.leader_epoch) == (4, 5)


def test_a_seek_forgets_the_damage_and_the_halt() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.change_route(RouteEvent.BROKER_CHOSEN)
    flow.damage, flow.halted, flow.moved = Damage(5, None), True, True
    flow.sought(PartitionFlow("t", 0, 50))
    assert (flow.damage, flow.halted, flow.moved, flow.next_offset) == (None, False, False, 50)


def test_a_flow_keeps_the_bounds_that_its_reader_learnt_last() -> None:
    flow = PartitionFlow("t", 0, 0)
    flow.learn(PartitionOffsets(0, 10, 9, 20))
    reader = _OneBlock(read_batches(batch(0, [Rec(0, value=b"v")])))
    reader.offsets, reader.topic_id = PartitionOffsets(0, 15, 14, 25), UUID(int=7)
    flow.reader = cast("Any", reader)
    flow.detach()
    assert (flow.reader, flow.bounds, flow.offsets) == (None, reader.offsets, reader.offsets)
    assert flow.topic_id == UUID(int=7)


def test_a_position_follows_the_inner_consumer_forward_only() -> None:
    flow = PartitionFlow("t", 0, 5)
    assert not flow.inner_stands_at(topic_partition("t", 0, OFFSET_INVALID, -1))
    assert flow.inner_stands_at(topic_partition("t", 0, 8, 2))
    assert (flow.handed.offset, flow.handed.leader_epoch) == (8, 2)
    assert not flow.inner_stands_at(topic_partition("t", 0, 7, 2))


def test_an_inner_position_that_a_log_left_behind_moves_nothing() -> None:
    """The log starts again: records from its start are delivered while librdkafka still reports the higher position."""
    flow = PartitionFlow("t", 0, 5)
    assert flow.inner_stands_at(topic_partition("t", 0, 1_000, 0))
    flow.position = 3
    assert not flow.inner_stands_at(topic_partition("t", 0, 1_000, 0))
    assert flow.position == 3
    flow.change_route(RouteEvent.BROKER_CHOSEN)
    assert flow.inner_stands_at(topic_partition("t", 0, 1_000, 0))


def test_a_position_that_the_broker_passed_is_not_set_back() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.gathered_to(8, 0)
    assert flow.handed_out()
    flow.position = 20
    assert not flow.handed_out()
    assert flow.position == 20
    assert not flow.pass_over()


def test_the_beginning_stays_logical_while_the_log_s_start_is_unknown() -> None:
    flow = PartitionFlow("t", 0, OFFSET_BEGINNING)
    flow.learn(PartitionOffsets(earliest_local=10, high_watermark=20))
    assert flow.next_offset == OFFSET_BEGINNING
    flow.learn(PartitionOffsets(log_start=3, earliest_local=10, high_watermark=20))
    assert flow.next_offset == 3


def test_the_first_local_offset_is_the_broker_s() -> None:
    flow = PartitionFlow("t", 0, 10)
    flow.learn(PartitionOffsets(0, 10, 9, 20))
    assert not flow.below_local


def test_no_tier_delivered_what_a_seek_left_out() -> None:
    tiers, bounds = TierLogs(), PartitionOffsets(log_start=10, earliest_local=100, latest_tiered=99, high_watermark=150)
    flow, target = (PartitionFlow("t", 0, offset, tiers=tiers) for offset in (20, 60))
    for one in (flow, target):
        one.learn(bounds)
    flow.change_route(RouteEvent.TIER_CHOSEN)
    flow.sought(target)
    flow.change_route(RouteEvent.TIER_CHOSEN)
    assert [tiers.tier(flow.key, offset, 70) for offset in (40, 65)] == [None, Tier.REMOTE]


def test_an_event_without_a_place_in_the_route_names_the_partition() -> None:
    flow = PartitionFlow("t", 3, 5)
    with pytest.raises(IllegalRouteError, match=r"^t-3: the event READ_ENDED is illegal in the route STARTING$"):
        flow.change_route(RouteEvent.READ_ENDED)
    assert flow.route is Route.STARTING


def test_a_seek_awaits_what_its_target_awaits() -> None:
    flow, target = (PartitionFlow("t", 0, offset) for offset in (5, 50))
    flow.change_route(RouteEvent.BROKER_CHOSEN)
    target.change_route(RouteEvent.BOUNDS_ASKED)
    flow.sought(target)
    assert flow.route is Route.AWAITS_BOUNDS
    flow.sought(PartitionFlow("t", 0, 60))
    assert flow.route is Route.STARTING


@pytest.mark.parametrize(("epoch", "is_stored"), [(3, True), (2, False)])
def test_offset_zero_of_a_newer_log_is_stored_below_the_floor(epoch: int, is_stored: bool) -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.floor, flow.floor_epoch = 5, 2
    stored = flow.stores(topic_partition("t", 0, 0, epoch))
    assert stored.offset == (0 if is_stored else OFFSET_INVALID)


def test_the_inner_consumer_at_the_position_moves_nothing() -> None:
    flow = PartitionFlow("t", 0, 5)
    flow.position, flow.position_epoch = 9, 4
    assert not flow.inner_stands_at(topic_partition("t", 0, 9, -1))
    assert (flow.position, flow.position_epoch) == (9, 4)
    assert flow.inner_stands_at(topic_partition("t", 0, 10, 5))
    assert flow.position == 10


@pytest.mark.parametrize(
    ("offset", "was_empty", "first"),
    [
        (20, False, True),
        (OFFSET_BEGINNING, False, True),
        (OFFSET_END, False, True),
        (OFFSET_END, True, False),
        (OFFSET_INVALID, False, False),
    ],
)
def test_what_may_be_out_of_range_meanwhile_is_sought_before_the_resume(offset: int, was_empty: bool, first: bool) -> None:
    flow = PartitionFlow("t", 0, offset)
    flow.was_empty = was_empty
    assert flow.is_sought_first is first


@pytest.mark.parametrize(
    ("committed", "reset", "end", "begins"),
    [
        (7, OFFSET_END, None, 7),
        (0, OFFSET_BEGINNING, None, 0),
        (OFFSET_INVALID, OFFSET_BEGINNING, None, OFFSET_BEGINNING),
        (OFFSET_INVALID, OFFSET_END, None, OFFSET_END),
        (OFFSET_INVALID, OFFSET_END, 0, OFFSET_END),
        (OFFSET_INVALID, OFFSET_END, 9, 9),
        (OFFSET_INVALID, OFFSET_INVALID, None, OFFSET_INVALID),
    ],
)
def test_begins_at_its_committed_offset_or_by_the_policy(committed: int, reset: int, end: int | None, begins: int) -> None:
    flow = PartitionFlow("t", 0, OFFSET_STORED)
    flow.begins_at(TopicPartition("t", 0, committed), reset, end)
    assert (flow.next_offset, flow.nothing_committed) == (begins, begins == OFFSET_INVALID)
    assert flow.was_empty == (end == 0)
