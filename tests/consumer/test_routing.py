"""The hand-over between routes, with an inner consumer and an engine that record their calls."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    OFFSET_STORED,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route, RouteEvent
from kafka_remote_client.errors import (
    CorruptRecordError,
    LocationError,
    RemoteStorageTimeoutError,
    RemoteStorageUnavailableError,
)
from kafka_remote_client.fetch.preference import SLOWER_THAN_BROKER
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import IsolationLevel, PartitionOffsets
from kafka_remote_client.records import RecordBlock, read_batches
from tests.consumer.routing_rig import BOUNDS, Rig
from tests.support.batches import Rec, batch
from tests.support.locations import segment


@pytest.fixture
def rig() -> Rig:
    return Rig()


def block(offset: int, count: int = 3) -> RecordBlock:
    return read_batches(batch(offset, [Rec(n, value=b"v%d" % n) for n in range(count)], epoch=4))


def test_what_lies_in_the_tier_is_paused_and_read_from_the_exact_offset(rig: Rig) -> None:
    flow = rig.adopted(20)
    assert flow.route is Route.REMOTE
    assert rig.calls == [("pause", OFFSET_INVALID)]
    (request,) = rig.engine.read_requests
    assert (request.topic, request.partition, request.start_offset) == ("t", 0, 20)
    assert request.isolation_level is IsolationLevel.READ_COMMITTED
    assert request.stop_at_local
    assert request.borrow, "records are not copied again"
    assert request.offsets == BOUNDS, "what was learnt a moment ago is not asked again"


@pytest.mark.parametrize("offset", [100, 149, 1000, OFFSET_END, OFFSET_INVALID])
def test_what_is_local_stays_with_the_inner_consumer(rig: Rig, offset: int) -> None:
    flow = rig.adopted(offset)
    held = offset >= 0
    assert (flow.route, rig.engine.read_requests) == (Route.BROKER, [])
    assert rig.calls == ([("seek", offset), ("resume", offset), ("seek", offset)] if held else [])
    assert flow.inner_start.offset == offset


def taken_again(rig: Rig, offset: int, *, refused: bool = False) -> PartitionFlow:
    """Assigns a partition again that was read directly."""
    rig.adopted(20)
    rig.flows.remove([("t", 0)])
    rig.calls.clear()

    def assign(starts: list[TopicPartition]) -> None:
        rig.calls.append(("assign", starts[0].offset))
        if refused:
            raise KafkaException(KafkaError(KafkaError._CONFLICT))

    flow = PartitionFlow("t", 0, offset)
    flow.offsets = BOUNDS
    rig.routing.begin([flow], assigned=False)
    rig.assign(assign, flow)
    rig.routing.adopt(flow)
    return flow


@pytest.mark.parametrize("offset", [OFFSET_END, OFFSET_INVALID])
def test_what_is_to_be_looked_up_is_resumed_before_it_is_assigned(rig: Rig, offset: int) -> None:
    """librdkafka repeats an interrupted look-up half a second later, whatever the position of the partition is by then."""
    flow = taken_again(rig, offset)
    assert rig.calls == [("resume", OFFSET_INVALID), ("assign", offset)]
    assert (flow.route, rig.flows.parked) == (Route.BROKER, set())


def test_a_number_is_resumed_after_it_was_assigned(rig: Rig) -> None:
    """Before the assignment, librdkafka would fetch at the old offset; the seek wakes its thread."""
    taken_again(rig, 120)
    assert rig.calls == [("assign", 120), ("seek", 120), ("resume", 120), ("seek", 120)]


def test_what_the_application_has_paused_is_looked_up_while_it_is_paused(rig: Rig) -> None:
    rig.flows.add(PartitionFlow("t", 0, 0))
    rig.flows.set_paused(("t", 0), True)
    taken_again(rig, OFFSET_END)
    assert rig.calls == [("assign", OFFSET_END)]


def test_a_refused_assignment_leaves_what_is_read_directly_paused_inside(rig: Rig) -> None:
    with pytest.raises(KafkaException):
        taken_again(rig, OFFSET_END, refused=True)
    assert rig.calls == [("resume", OFFSET_INVALID), ("assign", OFFSET_END), ("pause", OFFSET_INVALID)]
    assert rig.flows.parked == {("t", 0)}


@pytest.mark.parametrize("offset", [20, OFFSET_BEGINNING])
def test_a_topic_that_is_not_on_the_list_stays_with_the_inner_consumer(offset: int) -> None:
    rig = Rig(topics="orders,^other")
    flow = rig.adopted(offset)
    assert (flow.route, flow.next_offset, rig.calls, rig.engine.read_requests) == (Route.BROKER, offset, [], [])
    rig.inner_position, rig.engine.watched = 20, BOUNDS
    for _ in range(3):
        rig.clock.now += 100
        rig.routing.recheck()
    assert (flow.route, rig.engine.read_requests, rig.fallbacks) == (Route.BROKER, [], {})


def test_a_topic_that_is_not_on_the_list_hides_none_behind_it() -> None:
    rig = Rig(topics="t")
    flows = [PartitionFlow("other", 0, 20), PartitionFlow("t", 0, 20)]
    rig.routing.begin(flows, assigned=False)
    rig.assign(lambda starts: None, *flows)
    for flow in flows:
        rig.routing.adopt(flow)
    rig.routing.decide()
    assert [flow.route for flow in flows] == [Route.BROKER, Route.REMOTE]


def test_a_topic_on_the_list_is_read_directly() -> None:
    assert Rig(topics="orders,^[st]").adopted(20).route is Route.REMOTE


def test_the_beginning_is_the_logs_start(rig: Rig) -> None:
    assert rig.adopted(OFFSET_BEGINNING).next_offset == 10


@pytest.mark.parametrize(
    ("offset", "route", "asked"), [(20, Route.REMOTE, []), (OFFSET_BEGINNING, Route.AWAITS_BOUNDS, [("t", 0)])]
)
def test_known_bounds_decide_except_about_the_beginning(
    rig: Rig, offset: int, route: Route, asked: list[tuple[str, int]]
) -> None:
    rig.engine.answers["t", 0] = None
    flow = PartitionFlow("t", 0, offset)
    flow.offsets = BOUNDS
    rig.take_up(flow)
    assert (flow.route, rig.engine.requested) == (route, asked)


def test_a_partition_whose_bounds_are_unknown_begins_with_the_broker(rig: Rig) -> None:
    rig.engine.answers["t", 0] = LocationError("nobody answers")
    flow = rig.adopted(OFFSET_BEGINNING)
    assert (flow.route, flow.next_offset) == (Route.BROKER, OFFSET_BEGINNING)
    assert rig.metrics.snapshot()["remote-fetch-errors-total"] == {"location-unavailable": 1}


def test_the_broker_continues_at_the_exact_next_offset_with_its_epoch(rig: Rig) -> None:
    rig.engine.items = [block(20), ReadEnd("local", 100, 7, offsets=BOUNDS)]
    flow = rig.adopted(20)
    messages = rig.routing.take(2)
    assert messages is not None
    assert [message.offset() for message in messages] == [20, 21]
    assert rig.flows.advanced == {flow}
    reader: Any = flow.reader
    assert reader.released == 0
    rest = rig.routing.take(10)
    assert rest is not None
    assert [message.offset() for message in rest] == [22]
    assert reader.released == 1, "the memory of a block that is used up is free"
    assert rig.routing.take(10) is None
    assert (flow.route, flow.moved, flow.here.offset, flow.here.leader_epoch) == (Route.BROKER, False, 100, 7)
    assert rig.calls[1:] == [("seek", 100), ("resume", 100), ("seek", 100)]
    assert rig.metrics.snapshot()["remote-fetch-handovers-total"] == 1
    assert rig.fallbacks == {}


def test_a_failure_is_a_fallback_and_tried_again_later_each_time(rig: Rig) -> None:
    error = RemoteStorageTimeoutError("slow")
    rig.engine.items = [ReadEnd("timeout", 30, 4, error, BOUNDS)]
    rig.engine.watched = BOUNDS
    flow = rig.adopted(20)
    for pause in (1, 2, 4):
        assert rig.routing.take(10) is None
        assert flow.route is Route.BROKER
        rig.clock.now += pause - 0.5
        rig.routing.recheck()
        assert flow.route is Route.BROKER, "not before its pause is over"
        rig.clock.now += 0.6
        rig.routing.recheck()
        assert flow.route is Route.REMOTE
    assert rig.fallbacks == {"timeout": 3}
    assert rig.engine.read_requests[-1].start_offset == 30
    rig.engine.items = [ReadEnd("timeout", 100, 4, error, BOUNDS)]
    rig.adopted(20)
    assert rig.routing.take(10) is None
    assert rig.metrics.snapshot()["remote-fetch-handovers-total"] == 0, "nor is it one at the local log's start"


def test_a_suspended_store_is_tried_again_when_its_breaker_admits_a_range(rig: Rig) -> None:
    """A read before that would be refused, count as another fallback, and double the pause."""
    rig.engine.items = [ReadEnd("unavailable", 30, 4, RemoteStorageUnavailableError("down"), BOUNDS)]
    rig.engine.watched = BOUNDS
    flow = rig.adopted(20)
    assert rig.routing.take(10) is None
    rig.engine.suspended_at, left = rig.clock.now + 8.0, []
    while flow.route is Route.BROKER:
        rig.clock.now += 0.25
        rig.routing.recheck()
        left.append(rig.engine.suspended_at - rig.clock.now)
    assert left[-1] == 0.0
    assert (rig.fallbacks, flow.failures) == ({"unavailable": 1}, 1)


def test_partition_behind_the_local_log_goes_to_the_tier_at_its_position(rig: Rig) -> None:
    flow = rig.adopted(120)
    rig.inner_position = 130
    rig.clock.now += 60
    rig.routing.recheck()
    assert rig.engine.read_requests == [], "asked in the background"
    rig.engine.watched = PartitionOffsets(log_start=10, earliest_local=140, latest_tiered=139, high_watermark=150)
    rig.clock.now += 1
    rig.routing.recheck()
    assert rig.engine.read_requests[0].start_offset == 130
    assert (flow.route, flow.reached, flow.moved) == (Route.REMOTE, 130, True)


def test_an_offset_that_the_log_has_lost_stays_with_the_broker(rig: Rig) -> None:
    """A further read would make librdkafka report it again, with the policy ``error``."""
    flow = rig.adopted(20)
    rig.engine.watched = gone = PartitionOffsets(log_start=60, earliest_local=100, latest_tiered=99, high_watermark=150)
    rig.routing._end(flow, ReadEnd("out-of-range", 20, 4, None, gone, out_of_range=True))
    rechecked(rig, 60)
    assert (flow.route, len(rig.engine.read_requests)) == (Route.BROKER, 1)


def test_a_failed_watch_is_repeated_at_the_back_off_interval(rig: Rig) -> None:
    flow = rig.adopted(120)
    rig.inner_position = 130
    rig.engine.watched = LocationError("gone")
    rig.clock.now += 60
    rig.routing.recheck()
    assert flow.offsets == BOUNDS, "what is known stays known"
    assert rig.metrics.snapshot()["remote-fetch-errors-total"] == {"location-unavailable": 1}
    rig.engine.watched = PartitionOffsets(log_start=10, earliest_local=140, latest_tiered=139, high_watermark=150)
    rig.clock.now += RemoteFetchConfig().fallback_backoff_ms / 1000 - 0.5
    rig.routing.recheck()
    assert flow.route is Route.BROKER
    rig.clock.now += 0.6
    rig.routing.recheck()
    assert flow.route is Route.REMOTE


def test_failed_watch_is_counted_and_warned_once_per_cause_and_host(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.adopted(120)
    rig.inner_position = 130
    for host in (hosts := ("shim:1", "shim:1", "shim:2")):
        rig.engine.watched = LocationError(f"{host} is gone").with_context(host=host)
        rig.clock.now += 20
        rig.routing.recheck()
    assert (rig.metrics.snapshot()["remote-fetch-errors-total"], rig.fallbacks) == ({"location-unavailable": 3}, {})
    named = [f"t-0: {host} is gone; the broker continues at offset 130 (location-unavailable)" in caplog.text for host in hosts]
    assert (caplog.text.count("WARNING"), named) == (2, [True] * 3)


def test_a_partition_that_keeps_up_is_left_alone(rig: Rig) -> None:
    flow = rig.adopted(OFFSET_INVALID)
    rig.engine.watched = BOUNDS
    rig.clock.now += 60
    rig.routing.recheck()
    rig.inner_position = 150
    rig.clock.now += 60
    rig.routing.recheck()
    assert (flow.route, rig.engine.read_requests, flow.reached) == (Route.BROKER, [], 150)


def test_a_paused_partition_is_not_read(rig: Rig) -> None:
    rig.adopted(20)
    rig.flows.set_paused(("t", 0), True)
    rig.flows.remove([("t", 0)])
    flow = rig.adopted(20)
    assert (flow.route, flow.reader, rig.flows.routes.any_not_by_broker) == (Route.REMOTE, None, False)


def test_what_was_paused_inside_runs_when_it_is_assigned_again_as_local(rig: Rig) -> None:
    rig.adopted(20)
    rig.flows.remove([("t", 0)])
    rig.adopted(120)
    assert [name for name, _ in rig.calls] == ["seek", "resume", "seek"]
    rig.flows.remove([("t", 0)])
    rig.adopted(20)
    rig.flows.set_paused(("t", 0), True)
    rig.flows.remove([("t", 0)])
    rig.adopted(120)
    assert rig.calls == [], "the application paused it"


def test_a_hand_over_that_is_too_early_is_tried_again(rig: Rig) -> None:
    rig.refuse = [KafkaError._STATE]
    rig.engine.items = [ReadEnd("local", 100, offsets=BOUNDS)]
    flow = rig.adopted(20)
    assert rig.routing.take(1) is None
    assert (flow.route, flow.moved, rig.calls[-1][0]) == (Route.BROKER, True, "pause")
    rig.clock.now += 1
    rig.routing.recheck()
    assert (flow.moved, rig.calls[-1]) == (False, ("seek", 100))


def test_another_error_of_a_hand_over_surfaces(rig: Rig) -> None:
    rig.refuse = [KafkaError._FATAL]
    rig.engine.items = [ReadEnd("local", 100, offsets=BOUNDS)]
    rig.adopted(20)
    with pytest.raises(KafkaException):
        rig.routing.take(1)


def test_dropping_a_flow_stops_its_reader(rig: Rig) -> None:
    flow = rig.adopted(20)
    reader: Any = flow.reader
    rig.flows.remove([flow.key])
    assert reader.stopped


def test_no_partition_waits_behind_one_that_has_nothing(rig: Rig) -> None:
    first = rig.adopted(20)
    rig.engine.items = [block(30)]
    rig.take_up(PartitionFlow("t", 1, 30))
    messages = rig.routing.take(10)
    assert messages is not None
    assert {message.partition() for message in messages} == {1}
    assert first.route is Route.REMOTE


def left_for_the_broker(rig: Rig, pace: int) -> PartitionFlow:
    """A partition whose store delivered ``pace`` bytes per second, which is too slow: a trial of the broker starts."""
    flow = rig.adopted(20)
    for _ in range(4):
        rig.engine.preference.landed(flow.key, segment(), pace, 1.0, in_flight=1, now=rig.clock.now)
    assert rig.engine.preference.leaves(flow.key, rig.clock.now)
    flow.reader.items.append(ReadEnd(SLOWER_THAN_BROKER, 30, 4, offsets=BOUNDS))
    rig.flows.announce(flow)
    assert rig.routing.take(10) is None
    return flow


def test_slower_store_is_left_for_a_trial_and_then_for_a_while(rig: Rig) -> None:
    flow = left_for_the_broker(rig, 100)
    assert (flow.route, flow.next_offset, flow.failures) == (Route.BROKER, 30, 0)
    assert rig.fallbacks == {"slower-than-broker": 1}
    rig.engine.watched, looks = BOUNDS, []
    for offset in (50, 70, 90):  # 5 bytes each: 50 bytes a second from the trial's 2 s, when the store gave 100
        rig.inner_position = offset
        rig.clock.now += 1.0
        rig.routing.recheck()
        looks.append((flow.route, len(rig.engine.read_requests)))
    assert looks == [(Route.BROKER, 1), (Route.REMOTE, 2), (Route.REMOTE, 2)]
    assert rig.engine.read_requests[-1].start_offset == 70


def test_a_broker_that_is_faster_keeps_the_partition_for_its_stay(rig: Rig) -> None:
    flow = left_for_the_broker(rig, 10)
    rig.engine.watched, rig.inner_position = BOUNDS, 50
    for _ in range(11):
        rig.clock.now += 1.0
        rig.routing.recheck()
    assert flow.route is Route.BROKER
    rig.inner_position = 90
    rig.clock.now += 1.0
    rig.routing.recheck()
    assert (flow.route, rig.engine.read_requests[-1].start_offset) == (Route.REMOTE, 90)


@pytest.mark.parametrize("code", [KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, None])
def test_inner_records_and_ends_do_not_count_during_a_direct_read(rig: Rig, code: int | None) -> None:
    """The partition was assigned at the high watermark, and records can have arrived before the pause took effect."""
    flow = rig.adopted(20)
    message = Message(topic="t", partition=0, offset=150, value=b"", error=None if code is None else KafkaError(code))
    assert rig.routing.deliverable(flow, message) is None
    rig.routing.go_broker(flow, RouteEvent.READ_ENDED)
    assert rig.routing.deliverable(flow, message) is message


def test_other_errors_of_the_inner_consumer_are_always_told(rig: Rig) -> None:
    error = Message(topic="t", partition=0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    flow = rig.adopted(20)
    assert rig.routing.deliverable(flow, error) is error


@pytest.mark.parametrize(("offset", "place"), [(20, 20), (OFFSET_BEGINNING, 0)])
def test_nothing_is_fetched_or_read_before_the_bounds_are_known(rig: Rig, offset: int, place: int) -> None:
    rig.engine.answers["t", 0] = None
    flow = PartitionFlow("t", 0, offset)
    rig.routing.begin([flow], assigned=False)
    rig.assign(lambda starts: rig.calls.extend(("assign", tp.offset) for tp in starts), flow)
    rig.routing.adopt(flow)
    rig.routing.decide()
    assert rig.calls == [("pause", OFFSET_INVALID), ("assign", place)]
    assert (flow.route, rig.engine.read_requests, rig.flows.parked) == (Route.AWAITS_BOUNDS, [], {flow.key})
    assert (rig.flows.routes.any_not_by_broker, rig.flows.routes.by_broker) == (True, [])
    assert rig.routing.deliverable(flow, Message(topic="t", partition=0, offset=20, value=b"")) is None
    rig.engine.answers["t", 0] = BOUNDS
    rig.routing.decide()
    assert (flow.route, len(rig.engine.read_requests)) == (Route.REMOTE, 1)


def test_partition_with_known_bounds_does_not_wait_for_the_others(rig: Rig) -> None:
    """The first partition waits for its committed offset, the second one for its bounds."""
    flows = [PartitionFlow("t", number, OFFSET_STORED if number == 0 else 20) for number in range(3)]
    rig.engine.answers["t", 1] = None
    rig.take_up(*flows, assigned=True)
    assert [flow.route for flow in flows] == [Route.AWAITS_COMMITTED, Route.AWAITS_BOUNDS, Route.REMOTE]


def test_without_bounds_the_broker_delivers_after_the_location_timeout(rig: Rig) -> None:
    rig.engine.answers["t", 0] = None
    flow = rig.adopted(20)
    rig.clock.now += rig.location_timeout - 0.1
    rig.routing.decide()
    assert flow.route is Route.AWAITS_BOUNDS
    rig.clock.now += 0.2
    rig.routing.decide()
    assert (flow.route, flow.moved) == (Route.BROKER, False)
    assert rig.calls == [("seek", 20), ("resume", 20), ("seek", 20)]


@pytest.mark.parametrize(("peer", "text"), [("shim:9192", "shim:9192 timed out"), (None, "the location source timed out")])
def test_warning_names_the_peer_without_bounds(rig: Rig, caplog: pytest.LogCaptureFixture, peer: str | None, text: str) -> None:
    rig.routing._config = attrs.evolve(rig.routing._config, bootstrap_servers=peer)
    rig.engine.answers["t", 0] = None
    rig.adopted(20)
    rig.clock.now += rig.location_timeout
    rig.routing.decide()
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"direct fetch disabled for t-0: {text}" in line


def test_the_beginning_without_bounds_is_looked_up_by_librdkafka(rig: Rig) -> None:
    rig.engine.answers["t", 0] = LocationError("nobody answers")
    rig.adopted(OFFSET_BEGINNING)
    assert rig.calls == [("seek", OFFSET_BEGINNING), ("resume", OFFSET_BEGINNING)]


def test_routing_does_not_wait_for_bounds_that_just_failed(rig: Rig) -> None:
    rig.engine.answers["t", 0] = LocationError("nobody answers")
    flow = rig.adopted(20)
    target = PartitionFlow("t", 0, 30)
    target.unknown_until = flow.unknown_until
    rig.routing.begin([target], assigned=False)
    assert target.route is Route.STARTING
    rig.clock.now += 60
    rig.routing.begin([target], assigned=False)
    assert target.route is Route.AWAITS_BOUNDS


def rechecked(rig: Rig, seconds: float) -> None:
    """Advances the clock tick by tick by that time, as poll() and consume() do."""
    for _ in range(round(seconds * 10)):
        rig.clock.now += 0.1
        rig.routing.recheck()


def test_partition_whose_start_was_lost_is_assigned_again(rig: Rig) -> None:
    flow = rig.adopted(20)
    flow.stores(TopicPartition("t", 0, 20))
    rig.refuse = [KafkaError._STATE] * 100
    rig.routing.go_broker(flow, RouteEvent.READ_ENDED)
    rechecked(rig, 0.8)
    assert "incremental_assign" not in {call for call, _ in rig.calls}, "a start may take a moment"
    assert flow.moved
    rechecked(rig, 0.5)
    assert rig.calls[-4:] == [
        ("resume", OFFSET_INVALID),
        ("incremental_unassign", OFFSET_INVALID),
        ("incremental_assign", 20),
        ("store_offsets", 20),
    ]
    assert not flow.moved
    assert flow.key not in rig.flows.parked


def test_partition_that_cannot_be_assigned_again_is_tried_once_a_second(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    flow = rig.adopted(20)
    rig.refuse, rig.refuses_to_assign = [KafkaError._STATE] * 1000, True
    rig.routing.go_broker(flow, RouteEvent.READ_ENDED)
    rechecked(rig, 3.5)
    assert [call for call, _ in rig.calls].count("incremental_unassign") == 3
    assert flow.moved
    assert caplog.text.count("assigning t-0 again failed") == 3
    rig.refuses_to_assign = False
    rechecked(rig, 1.2)
    assert not flow.moved


def test_a_partition_that_is_paused_or_switched_off_goes_to_the_broker(rig: Rig) -> None:
    rig.engine.answers["t", 0] = None
    flow = rig.adopted(20)
    rig.flows.set_paused(flow.key, True)
    rig.routing.on = False
    rig.routing.decide()
    assert (flow.route, flow.moved, rig.calls) == (Route.BROKER, True, [])
    rig.engine.requested.clear()
    assert (rig.adopted(20).route, rig.engine.requested) == (Route.BROKER, [])


def test_a_committed_offset_is_looked_for_in_the_tier_once_it_is_known(rig: Rig) -> None:
    flow = PartitionFlow("t", 0, OFFSET_STORED)
    rig.take_up(flow, assigned=True)
    assert (flow.route, rig.engine.requested) == (Route.AWAITS_COMMITTED, [])
    rig.committed = TopicPartition("t", 0, 20, leader_epoch=3)
    rig.engine.answers["t", 0] = None
    rig.routing.decide()
    assert (flow.route, flow.here.offset, flow.leader_epoch, flow.floor) == (Route.AWAITS_BOUNDS, 20, 3, 20)
    rig.engine.answers["t", 0] = BOUNDS
    rig.routing.decide()
    assert (flow.route, rig.engine.read_requests[0].start_offset) == (Route.REMOTE, 20)


@pytest.mark.parametrize(("committed", "start"), [(0, 0), (3, 3), (OFFSET_INVALID, OFFSET_BEGINNING)])
def test_a_commit_at_offset_0_is_a_commit(committed: int, start: int) -> None:
    """The policy "earliest" applies only to partitions without a committed offset."""
    rig = Rig(**{"auto.offset.reset": "earliest"})
    rig.engine.answers["t", 0] = None
    flow = rig.from_committed(committed)
    assert (flow.route, flow.next_offset) == (Route.AWAITS_BOUNDS, start)


def test_a_partition_without_a_committed_offset_is_the_brokers(rig: Rig) -> None:
    flow = rig.from_committed(OFFSET_INVALID)
    assert (flow.route, rig.calls) == (Route.BROKER, [("seek", rig.end), ("resume", rig.end), ("seek", rig.end)])


@pytest.mark.parametrize(("end", "wakes"), [(0, False), (1, False), (2, True)])
def test_offset_0_is_fetched_at_once(rig: Rig, end: int, wakes: bool) -> None:
    """A seek to offset 0 or a resume does not wake librdkafka's thread; at the log's end a fetch waits for a record."""
    rig.engine.answers["t", 0] = PartitionOffsets(log_start=0, earliest_local=0, latest_tiered=-1, high_watermark=end)
    rig.adopted(OFFSET_BEGINNING)
    assert rig.calls == [("seek", 0), ("resume", 0), *([("seek", 1)] if wakes else []), ("seek", 0)]


def test_a_refused_assignment_resumes_what_was_held_for_it(rig: Rig) -> None:
    def refuse(_: list[TopicPartition]) -> None:
        raise KafkaException(KafkaError(KafkaError._CONFLICT))

    flow = PartitionFlow("t", 0, 20)
    rig.routing.begin([flow], assigned=False)
    with pytest.raises(KafkaException):
        rig.assign(refuse, flow)
    assert rig.calls == [("pause", OFFSET_INVALID), ("resume", OFFSET_INVALID)]


def test_nothing_of_the_inner_consumer_counts_until_it_was_moved(rig: Rig) -> None:
    """Its seek was refused, so its position is still the high watermark, and it can return records from there."""
    rig.refuse = [KafkaError._STATE]
    rig.engine.items = [ReadEnd("local", 100, offsets=BOUNDS)]
    flow = rig.adopted(20)
    rig.routing.take(1)
    assert (flow.route, flow.moved) == (Route.BROKER, True)
    early = Message(topic="t", partition=0, offset=150, value=b"")
    assert rig.routing.deliverable(flow, early) is None
    rig.clock.now += 1
    rig.routing.recheck()
    due = Message(topic="t", partition=0, offset=100, value=b"")
    assert rig.routing.deliverable(flow, due) is due


def test_a_completed_read_resets_the_back_off(rig: Rig) -> None:
    failed = ReadEnd("timeout", 30, 4, RemoteStorageTimeoutError("slow"), BOUNDS)
    flow = rig.adopted(20)
    rig.engine.watched = BOUNDS
    pauses = []
    for end in (failed, failed, ReadEnd("local", 100, 4, offsets=BOUNDS), failed):
        flow.reader.items.append(end)
        rig.flows.announce(flow)
        rig.routing.take(10)
        if end is failed:
            pauses.append(flow.recheck_at - rig.clock.now)
        else:
            rig.engine.watched = PartitionOffsets(log_start=10, earliest_local=120, latest_tiered=119, high_watermark=150)
            rig.inner_position = 110
        rig.clock.now = flow.recheck_at + 1
        rig.routing.recheck()
        assert flow.route is Route.REMOTE
    assert pauses == [1, 2, 1]


def test_turning_direct_fetch_on_does_not_end_a_halt(rig: Rig) -> None:
    rig.engine.items = [ReadEnd("corrupt", 30, 4, CorruptRecordError("damaged"), BOUNDS)]
    flow = rig.adopted(20)
    rig.routing.take(1)
    bad = Message(topic="t", partition=0, offset=30, error=KafkaError(KafkaError._BAD_MSG))
    assert rig.routing.deliverable(flow, bad) is not None
    assert flow.halted
    rig.routing.switched(lambda _: None)
    rig.clock.now += 600
    rig.routing.recheck()
    assert (flow.halted, flow.route, rig.routing.deliverable(flow, bad)) == (True, Route.BROKER, None)


def test_records_from_before_the_damage_are_dropped_and_it_is_sought_again(rig: Rig) -> None:
    """After a damaged batch librdkafka reports an offset out of range and restarts at the log's start, also after a seek."""
    rig.engine.items = [ReadEnd("corrupt", 30, 4, CorruptRecordError("damaged"), BOUNDS)]
    flow = rig.adopted(20)
    rig.routing.take(1)
    rig.calls.clear()
    for offset in (10, 11):
        assert rig.routing.deliverable(flow, Message(topic="t", partition=0, offset=offset, value=b"")) is None
    assert (flow.next_offset, flow.damage is None) == (30, False)
    assert rig.calls == [("pause", OFFSET_INVALID)]
    rig.clock.now += 1
    rig.routing.recheck()
    assert ("seek", 30) in rig.calls
    good = Message(topic="t", partition=0, offset=30, value=b"")
    assert rig.routing.deliverable(flow, good) is good
    assert flow.damage is None


@pytest.mark.parametrize("on", [True, False])
def test_records_from_before_the_damage_twice_are_of_another_log(rig: Rig, on: bool) -> None:
    """Its topic was created again. librdkafka refuses each seek to the damage, and begins at the log's start."""
    rig.engine.items = [ReadEnd("corrupt", 30, 4, CorruptRecordError("damaged"), BOUNDS)]
    flow = rig.adopted(20)
    rig.routing.take(1)
    first = Message(topic="t", partition=0, offset=0, value=b"")
    assert rig.routing.deliverable(flow, first) is None
    rig.clock.now += 1
    rig.routing.recheck()
    rig.routing.on = on
    assert rig.routing.deliverable(flow, first) is (None if on else first)
    assert (flow.route, flow.damage) == (Route.REMOTE if on else Route.BROKER, None)
    if on:
        request = rig.engine.read_requests[-1]
        assert (request.start_offset, request.leader_epoch) == (30, 4)


def test_bounds_of_local_partitions_are_asked_once_an_interval(rig: Rig) -> None:
    """One call requests the bounds of all of them, because there can be thousands."""
    for number in range(100):
        rig.take_up(PartitionFlow("t", number, 120))
    rig.positions_asked.clear()
    rig.engine.watched, rig.inner_position = BOUNDS, 130
    requested = []
    for seconds in (60, 1, 1, 60):
        rig.clock.now += seconds
        rig.routing.recheck()
        requested.append(rig.engine.times_watched)
    assert (requested, rig.positions_asked) == ([1, 1, 1, 2], [100, 100])


def test_a_reader_begins_with_the_epoch_of_the_last_record(rig: Rig) -> None:
    rig.engine.items = [ReadEnd("timeout", 30, 4, RemoteStorageTimeoutError("slow"), BOUNDS)]
    flow = rig.adopted(20)
    rig.routing.take(10)
    rig.routing.go_remote(flow)
    request = rig.engine.read_requests[-1]
    assert (request.start_offset, request.leader_epoch) == (30, 4)
