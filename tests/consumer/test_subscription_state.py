from __future__ import annotations

from typing import TYPE_CHECKING, cast

from confluent_kafka import Message, TopicPartition

from kafka_remote_client.consumer.partition_flow import PartitionFlow
from kafka_remote_client.consumer.route_state import Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState

if TYPE_CHECKING:
    from kafka_remote_client.fetch.remote_reader import RemoteReader


def state(*routes: Route) -> tuple[SubscriptionState, list[PartitionFlow]]:
    flows = SubscriptionState()
    made = [PartitionFlow("t", number, 0) for number in range(len(routes))]
    for flow, route in zip(made, routes, strict=True):
        flow.route = route
        flows.add(flow)
    return flows, made


def test_knows_its_flows() -> None:
    flows, made = state(Route.BROKER, Route.BROKER)
    assert (len(flows), list(flows), flows.get("t", 1), flows.get("t", 2)) == (2, made, made[1], None)
    assert flows.remove([("t", 0), ("t", 9)]) == [made[0]]
    assert list(flows) == [made[1]]


def test_routes_are_distinguished() -> None:
    flows, made = state(Route.BROKER, Route.REMOTE, Route.BROKER)
    assert flows.routes.any_not_by_broker
    assert flows.routes.redirected
    assert [tp.partition for tp in flows.routes.by_broker] == [0, 2]
    made[1].route = Route.BROKER
    made[2].moved = True
    flows.reroute()
    assert not flows.routes.any_not_by_broker
    assert flows.routes.redirected, "the inner consumer stands elsewhere"
    assert [tp.partition for tp in flows.routes.by_broker] == [0, 1]


def test_delivered_partitions_are_those_of_a_small_batch() -> None:
    flows, _ = state(Route.BROKER, Route.BROKER, Route.REMOTE, Route.BROKER)
    of_second = [Message(topic="t", partition=1, offset=0)]
    assert [tp.partition for tp in flows.delivered_in(of_second)] == [1]
    assert [tp.partition for tp in flows.delivered_in([Message(topic="t", partition=2, offset=0)])] == []
    assert [tp.partition for tp in flows.delivered_in([Message(topic="gone", partition=0, offset=0)])] == []
    assert flows.delivered_in(of_second * 3) is flows.routes.by_broker, "there are fewer partitions than messages"


class Reader:
    """A reader with the attributes that a flow checks for data."""

    def __init__(self) -> None:
        self.has_ready = True


def read(flows: SubscriptionState, made: list[PartitionFlow]) -> list[Reader]:
    """Gives each flow a reader that has data."""
    readers = [Reader() for _ in made]
    for flow, reader in zip(made, readers, strict=True):
        flow.reader = cast("RemoteReader", reader)
        flows.announce(flow)
    return readers


def turns(flows: SubscriptionState, count: int) -> list[int]:
    taken = [flows.next_ready() for _ in range(count)]
    return [flow.partition for flow in taken if flow is not None]


def test_turns_go_round_among_those_that_have_something() -> None:
    flows, made = state(*[Route.REMOTE] * 4)
    assert flows.next_ready() is None
    readers = read(flows, made[:3])
    assert turns(flows, 4) == [0, 1, 2, 0]
    readers[1].has_ready = False
    assert turns(flows, 3) == [2, 0, 2]
    for _ in range(2):  # a second word adds no second turn
        readers[1].has_ready = True
        flows.announce(made[1])
    assert turns(flows, 6) == [0, 2, 1, 0, 2, 1]
    for reader in readers:
        reader.has_ready = False
    assert flows.next_ready() is None
    read(flows, made[3:])
    assert turns(flows, 2) == [3, 3]


def test_routes_that_change_in_between_leave_the_turns_alone() -> None:
    flows, made = state(*[Route.REMOTE] * 3)
    readers = read(flows, made)
    assert turns(flows, 1) == [0]
    made[1].route, made[1].reader = Route.BROKER, None
    flows.reroute()
    assert turns(flows, 3) == [2, 0, 2]
    made[1].reader = cast("RemoteReader", readers[1])
    flows.announce(made[1])
    assert turns(flows, 3) == [0, 2, 1]


def test_paused_flows_are_not_read() -> None:
    flows, made = state(Route.REMOTE, Route.BROKER)
    assert flows.set_paused(("t", 0), True) is made[0]
    assert not flows.routes.any_not_by_broker
    flows.set_paused(("t", 0), False)
    assert flows.routes.any_not_by_broker


def test_pause_outlives_an_assignment_and_comes_before_one() -> None:
    flows, _ = state(Route.REMOTE)
    flows.set_paused(("t", 0), True)
    assert flows.set_paused(("t", 7), True) is None
    flows.remove([("t", 0)])
    again, later, never = PartitionFlow("t", 0, 0), PartitionFlow("t", 7, 0), PartitionFlow("never", 0, 0)
    flows.add(again)
    flows.add(later)
    flows.add(never)
    assert (again.paused, later.paused, never.paused) == (True, True, False)
    flows.set_paused(("t", 0), False)
    flows.remove([("t", 0)])
    flows.add(again)
    assert not again.paused


def test_what_is_dropped_is_not_handed_out() -> None:
    flows, made = state(Route.REMOTE)
    flows.advanced.add(made[0])
    flows.remove([made[0].key])
    assert flows.advanced == set()


def test_flows_are_found_by_partitions_of_which_some_have_none() -> None:
    flows, made = state(Route.REMOTE, Route.BROKER)
    assert flows.of([made[1].bare, TopicPartition("none", 0), made[0].bare]) == [made[1], made[0]]


def test_a_partition_that_was_dropped_passes_nothing() -> None:
    flows, made = state(Route.REMOTE, Route.REMOTE)
    for flow in made:
        flows.announce_passed(flow)
    flows.remove([made[0].key])
    flows.pass_over()
    assert flows.advanced == set()
