"""Makes a failing scenario small: with less in it as long as it breaks the same rule. Then tells it step by step."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from tests.simulation.judge import ViolationError
from tests.simulation.scenario import Scenario
from tests.simulation.world import World

__all__ = ["Failure", "failure_of", "shrunk", "story_of"]

_LINES = 60


@attrs.frozen
class Failure:
    """A scenario and how it fails. ``rule``: as of ViolationError, or the name of an unexpected exception.

    ``events``: how many passed.
    """

    scenario: Scenario
    rule: str
    text: str
    events: int
    story: tuple[tuple[float, str, tuple[object, ...]], ...] = attrs.field(repr=False)


def failure_of(scenario: Scenario) -> Failure | None:
    """Runs a scenario. Returns its failure, if any."""
    world = World(scenario)
    try:
        world.run()
    except ViolationError as violation:
        return Failure(scenario, violation.rule, str(violation), world.events, tuple(world.story))
    except Exception as error:
        return Failure(scenario, type(error).__name__, f"{type(error).__name__}: {error}", world.events, tuple(world.story))
    return None


def shrunk(failure: Failure) -> Failure:
    """Returns the smallest failure of the same rule that removing one thing after the other finds."""
    while (smaller := next(_smaller(failure), None)) is not None:
        failure = smaller
    return failure


def _smaller(failure: Failure) -> Iterator[Failure]:
    for simpler in failure.scenario.smaller():
        found = failure_of(simpler)
        if found is not None and found.rule == failure.rule:
            yield found


def story_of(failure: Failure, lines: int = _LINES) -> str:
    """Returns the last events before a failure in words, and the failure."""
    told = [f"{at:9.4f} s  {text % values}" for at, text, values in failure.story[-lines:]]
    return "\n".join([f"scenario: {failure.scenario}", *told, failure.text])
