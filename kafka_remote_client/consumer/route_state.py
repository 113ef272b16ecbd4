"""The route of one assigned partition, as a table: the tier that delivers its next record, or the question that decides it.
Pure.

Theory of operation. A newly assigned or sought partition is STARTING: its next offset has not been looked up. If it begins at
its committed offset, the consumer first requests that from the coordinator. Then, unless they are known, it requests the bounds
of the tiers. Both requests run in the background, and nothing is delivered meanwhile: the inner partition is paused and there
is no reader. The answers, or the end of the location time-out, choose a tier.

On the REMOTE route a reader delivers until the read ends, at the local log's start or at a failure, or until direct fetch is
turned off, which any thread may do at any time. Then the broker continues at the exact next offset. On the BROKER route the
inner consumer delivers. Only a partition that falls behind the local log returns to the tier, so it does not flap if both tiers
hold the data. A hand-over that a pause delayed, or that librdkafka rejected because it still applies the assignment, happens
later: RESUMED. A seek may come at any time and starts over; only an assignment can begin at the committed offset.

The table says which tier delivers. partition_flow.py has the position of the partition (next offset, position, reader).
routing.py applies a change to librdkafka and to the engine.

References: docs/design.md, "Where a read starts".
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

__all__ = ["ROUTES", "IllegalRouteError", "Route", "RouteEvent", "next_route"]


class Route(Enum):
    """The tier that delivers a partition's next record, or the question that decides it."""

    STARTING = auto()
    """Newly assigned or sought, within one call of the application."""
    AWAITS_COMMITTED = auto()
    """The partition begins at its committed offset, and the request to the group's coordinator runs."""
    AWAITS_BOUNDS = auto()
    """The next offset is known, and the request for the tiers' bounds runs."""
    BROKER = auto()
    """The inner consumer delivers."""
    REMOTE = auto()
    """A reader delivers from the store."""

    @property
    def awaits(self) -> bool:
        """Whether the route waits for an answer that decides which tier delivers."""
        return self in {Route.AWAITS_COMMITTED, Route.AWAITS_BOUNDS}


class RouteEvent(Enum):
    """An event of a route."""

    COMMITTED_ASKED = auto()
    """The partition begins at its committed offset, which is not known yet."""
    BOUNDS_ASKED = auto()
    """The next offset may lie in the tier, and the bounds are not known."""
    TIER_CHOSEN = auto()
    """The next offset lies below the broker's local log, and may be read directly."""
    BROKER_CHOSEN = auto()
    """It is not below, the answer was late, or direct reads are not allowed: direct fetch may be turned off at any time."""
    READ_ENDED = auto()
    """The tier has no more, or cannot be read."""
    RESUMED = auto()
    """A delayed hand-over happens now, to the same tier."""
    SOUGHT = auto()
    """The application moved the partition."""


class IllegalRouteError(RuntimeError):
    """An event that is illegal in the partition's route: a defect of this package, not of its input."""


ROUTES: Mapping[tuple[Route, RouteEvent], Route] = MappingProxyType(
    {
        (Route.STARTING, RouteEvent.COMMITTED_ASKED): Route.AWAITS_COMMITTED,
        (Route.STARTING, RouteEvent.BOUNDS_ASKED): Route.AWAITS_BOUNDS,
        (Route.STARTING, RouteEvent.TIER_CHOSEN): Route.REMOTE,
        (Route.STARTING, RouteEvent.BROKER_CHOSEN): Route.BROKER,
        (Route.AWAITS_COMMITTED, RouteEvent.BOUNDS_ASKED): Route.AWAITS_BOUNDS,
        (Route.AWAITS_COMMITTED, RouteEvent.TIER_CHOSEN): Route.REMOTE,
        (Route.AWAITS_COMMITTED, RouteEvent.BROKER_CHOSEN): Route.BROKER,
        (Route.AWAITS_COMMITTED, RouteEvent.SOUGHT): Route.STARTING,
        (Route.AWAITS_BOUNDS, RouteEvent.TIER_CHOSEN): Route.REMOTE,
        (Route.AWAITS_BOUNDS, RouteEvent.BROKER_CHOSEN): Route.BROKER,
        (Route.AWAITS_BOUNDS, RouteEvent.SOUGHT): Route.STARTING,
        (Route.BROKER, RouteEvent.TIER_CHOSEN): Route.REMOTE,
        (Route.BROKER, RouteEvent.BROKER_CHOSEN): Route.BROKER,
        (Route.BROKER, RouteEvent.RESUMED): Route.BROKER,
        (Route.BROKER, RouteEvent.SOUGHT): Route.STARTING,
        (Route.REMOTE, RouteEvent.BROKER_CHOSEN): Route.BROKER,
        (Route.REMOTE, RouteEvent.READ_ENDED): Route.BROKER,
        (Route.REMOTE, RouteEvent.RESUMED): Route.REMOTE,
        (Route.REMOTE, RouteEvent.SOUGHT): Route.STARTING,
    }
)
"""The route after each event."""


def next_route(route: Route, event: RouteEvent) -> Route:
    """The route after ``event``. Raises IllegalRouteError for a pair that is not in the table."""
    try:
        return ROUTES[route, event]
    except KeyError:
        raise IllegalRouteError(f"the event {event.name} is illegal in the route {route.name}") from None
