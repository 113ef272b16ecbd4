from __future__ import annotations

from kafka_remote_client.consumer.partition_flow import PartitionFlow, Route
from kafka_remote_client.consumer.subscription_state import SubscriptionState


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


def test_tells_routes_apart() -> None:
    flows, made = state(Route.BROKER, Route.REMOTE, Route.BROKER)
    assert flows.any_remote
    assert flows.redirected
    assert [tp.partition for tp in flows.by_broker] == [0, 2]
    made[1].route = Route.BROKER
    made[2].moved = True
    flows.reroute()
    assert not flows.any_remote
    assert flows.redirected, "the inner consumer stands elsewhere"
    assert [tp.partition for tp in flows.by_broker] == [0, 1]


def test_turns_go_round_also_when_routes_change_in_between() -> None:
    flows, _ = state(*[Route.REMOTE] * 3)
    served = []
    for _ in range(7):
        served.append(next(flows.remote_flows()).partition)
        flows.reroute()
    assert served == [0, 1, 2, 0, 1, 2, 0]
    assert [flow.partition for flow in flows.remote_flows()] == [1, 2, 0]


def test_paused_flows_have_no_turn() -> None:
    flows, made = state(Route.REMOTE, Route.REMOTE)
    assert flows.set_paused(("t", 0), True) is made[0]
    assert [flow.partition for flow in flows.remote_flows()] == [1]
    flows.set_paused(("t", 0), False)
    assert len(list(flows.remote_flows())) == 2


def test_a_pause_outlives_the_assignment_of_a_partition_whose_topic_was_known() -> None:
    flows, _ = state(Route.REMOTE)
    flows.set_paused(("t", 0), True)
    assert flows.set_paused(("t", 7), True) is None
    assert flows.set_paused(("never", 0), True) is None
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
