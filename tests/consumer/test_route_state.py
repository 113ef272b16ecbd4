from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from kafka_remote_client.consumer.route_state import ROUTES, IllegalRouteError, Route, RouteEvent, next_route

PAGE = Path(__file__).resolve().parents[2] / "docs" / "design.md"


@pytest.mark.parametrize(("route", "event"), list(itertools.product(Route, RouteEvent)))
def test_every_pair_is_either_in_the_table_or_refused(route: Route, event: RouteEvent) -> None:
    if (route, event) in ROUTES:
        assert next_route(route, event) is ROUTES[route, event]
    else:
        with pytest.raises(IllegalRouteError, match=f"^the event {event.name} is illegal in the route {route.name}$"):
            next_route(route, event)


def test_every_route_is_reached_from_the_first_and_none_is_the_last() -> None:
    reached, todo = set(), [Route.STARTING]
    while todo:
        route = todo.pop()
        if route not in reached:
            reached.add(route)
            todo += [after for (before, _), after in ROUTES.items() if before is route]
    assert reached == set(Route)
    assert {before for before, _ in ROUTES} == set(Route)


def test_only_what_was_just_assigned_awaits_its_committed_offset() -> None:
    assert [pair for pair, after in ROUTES.items() if after is Route.AWAITS_COMMITTED] == [
        (Route.STARTING, RouteEvent.COMMITTED_ASKED)
    ]


def test_a_seek_starts_over_from_any_route() -> None:
    for route in set(Route) - {Route.STARTING}:
        assert next_route(route, RouteEvent.SOUGHT) is Route.STARTING


def test_the_broker_may_be_chosen_on_any_route() -> None:
    """Any thread can turn direct fetch off at any time."""
    for route in Route:
        assert next_route(route, RouteEvent.BROKER_CHOSEN) is Route.BROKER


def test_only_questions_are_awaited() -> None:
    assert {route for route in Route if route.awaits} == {Route.AWAITS_COMMITTED, Route.AWAITS_BOUNDS}


def test_the_design_page_has_the_table() -> None:
    rows = re.findall(r"^\| (STARTING|AWAITS_\w+|BROKER|REMOTE) \|.*\| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert [route for route, _ in rows] == [route.name for route in Route]
    documented = {}
    for route, changes in rows:
        for events, after in re.findall(r"([A-Z_, ]+?) → ([A-Z_]+)", changes):
            documented |= {(Route[route], RouteEvent[event]): Route[after] for event in events.strip(" ,").split(", ")}
    assert documented == dict(ROUTES)
