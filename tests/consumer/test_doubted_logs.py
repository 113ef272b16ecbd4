"""A log that ends before the place of a hand-over: it was cut, or it is another topic's. The leader's answer decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, Message

from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.fetch.read_end import ReadEnd
from kafka_remote_client.model import PartitionOffsets
from tests.consumer.routing_rig import BOUNDS, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()


def handed_over(rig: Rig) -> PartitionFlow:
    """A partition that was read up to the local log, at 100 in epoch 4."""
    rig.engine.items = [ReadEnd("local", 100, 4, offsets=BOUNDS)]
    flow = rig.adopted(20)
    reader: Any = flow.reader
    reader.topic_id = UUID(int=7)
    assert rig.routing.take(10) is None
    assert (flow.route, flow.doubted, rig.flows.routes.redirected) == (Route.BROKER, True, True)
    rig.engine.items = []
    return flow


def arrived(offset: int, code: int | None = None) -> Message:
    return Message(topic="t", partition=0, offset=offset, value=b"", error=None if code is None else KafkaError(code))


@pytest.mark.parametrize("code", [None, KafkaError._PARTITION_EOF], ids=["record", "end"])
def test_a_log_that_ends_before_the_hand_over_is_asked_for_its_topic(rig: Rig, code: int | None) -> None:
    flow = handed_over(rig)
    assert rig.routing.deliverable(flow, arrived(99, code)) is None
    assert (flow.route, len(rig.engine.read_requests)) == (Route.REMOTE, 2)
    request = rig.engine.read_requests[1]
    assert (request.start_offset, request.leader_epoch, request.topic_id) == (100, 4, UUID(int=7))
    assert rig.routing.deliverable(flow, arrived(100)) is None, "librdkafka fetched it before it was paused"


@pytest.mark.parametrize(("topic_of_leader", "epoch"), [(UUID(int=7), 4), (UUID(int=8), None)], ids=["cut", "created-again"])
def test_the_leaders_answer_decides_after_the_log_went_back(rig: Rig, topic_of_leader: UUID, epoch: int | None) -> None:
    flow = handed_over(rig)
    end = ReadEnd("diverging-epoch", 100, 4, offsets=BOUNDS, topic_id=UUID(int=7), topic_id_of_leader=topic_of_leader)
    rig.engine.items = [end]
    assert rig.routing.deliverable(flow, arrived(50)) is None
    assert rig.routing.take(10) is None
    assert (flow.route, flow.here.offset, flow.here.leader_epoch, flow.doubted) == (Route.BROKER, 100, epoch, False)
    message = arrived(50)
    assert rig.routing.deliverable(flow, message) is message, "what librdkafka does now is what the plain consumer does"


def test_without_direct_fetch_no_leader_is_asked_and_no_record_dropped(rig: Rig) -> None:
    flow = handed_over(rig)
    rig.routing.on = False
    messages = [arrived(50), arrived(51)]
    assert [rig.routing.deliverable(flow, message) for message in messages] == messages
    assert (flow.route, flow.moved, flow.doubted, len(rig.engine.read_requests)) == (Route.BROKER, False, False, 1)
    assert not rig.flows.routes.redirected


@pytest.mark.parametrize("offset", [100, 101])
def test_a_record_at_the_hand_over_ends_the_doubt(rig: Rig, offset: int) -> None:
    flow = handed_over(rig)
    error, record = arrived(0, KafkaError.TOPIC_AUTHORIZATION_FAILED), arrived(offset)
    assert rig.routing.deliverable(flow, error) is error
    assert flow.doubted
    assert rig.routing.deliverable(flow, record) is record
    assert not rig.flows.routes.redirected


@pytest.mark.parametrize(("end", "route"), [(99, Route.REMOTE), (100, Route.BROKER), (-1, Route.BROKER)])
def test_bounds_before_the_hand_over_show_another_log_too(rig: Rig, end: int, route: Route) -> None:
    flow = handed_over(rig)
    rig.engine.watched = PartitionOffsets(0, 0, -1, end)
    rig.clock.now += RemoteFetchConfig().recheck_interval_ms / 1000
    rig.routing.recheck()
    assert (flow.route, len(rig.engine.read_requests)) == (route, 2 if route is Route.REMOTE else 1)
    assert rig.flows.routes.redirected is (end != 100), "only without a doubt do batches of the broker go through as they are"


def asked_inside(rig: Rig, flow: PartitionFlow) -> list[Message]:
    rig.inner_position = 130
    rig.clock.now += 60
    rig.routing.recheck()
    return []


def handed_to_the_application(rig: Rig, flow: PartitionFlow) -> list[Message]:
    flow.handed_out_to(arrived(129))
    return []


def gathered(rig: Rig, flow: PartitionFlow) -> list[Message]:
    return [arrived(129)]


@pytest.mark.parametrize("read", [asked_inside, handed_to_the_application, gathered])
def test_a_place_that_librdkafka_has_left_for_a_cut_is_not_read_again(
    rig: Rig, read: Callable[[Rig, PartitionFlow], list[Message]]
) -> None:
    """Until the next record librdkafka has no position (``rd_kafka_toppar_seek``), and where it continues is not known."""
    flow = rig.adopted(120)
    waiting = read(rig, flow)
    rig.inner_position = OFFSET_INVALID
    rig.engine.watched = PartitionOffsets(log_start=10, earliest_local=140, latest_tiered=139, high_watermark=150)
    for _ in range(3):
        rig.clock.now += RemoteFetchConfig().recheck_interval_ms / 1000
        rig.routing.recheck(waiting)
        assert (flow.route, rig.engine.read_requests) == (Route.BROKER, [])
    rig.inner_position = 110
    for _ in range(2):
        rig.clock.now += RemoteFetchConfig().recheck_interval_ms / 1000
        rig.routing.recheck(waiting)
    assert [request.start_offset for request in rig.engine.read_requests] == [110]


def test_a_start_where_nothing_came_yet_is_read_from_the_tier(rig: Rig) -> None:
    flow = rig.adopted(120)
    rig.engine.watched = PartitionOffsets(log_start=10, earliest_local=140, latest_tiered=139, high_watermark=150)
    rig.clock.now += RemoteFetchConfig().recheck_interval_ms / 1000
    rig.routing.recheck([arrived(120, KafkaError.TOPIC_AUTHORIZATION_FAILED)])
    assert (flow.route, [request.start_offset for request in rig.engine.read_requests]) == (Route.REMOTE, [120])
