"""The state machine finds each planted bug within the number of examples given here."""

from __future__ import annotations

import pytest

from tests.state_machine.bugs import BUGS, Bug
from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.run import run
from tests.state_machine.world import World
from tests.support.planting import planted

MOST_EXAMPLES = 30
COMMIT_SECONDS = 2.0
DELIVERY_SECONDS = 15.0
"""For what a bug prevents, twice: Hypothesis repeats a failed program. Other waits take milliseconds."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(world: World, bug: Bug) -> None:
    waits = {"commit_seconds": COMMIT_SECONDS, "delivery_seconds": DELIVERY_SECONDS}
    machine = type("Machine", (ConsumerMachine,), {"world": world, **waits})
    with planted(bug.place, bug.make) as plant, pytest.raises(AssertionError):
        run(machine, examples=MOST_EXAMPLES, number=bug.seed)
    assert plant.ran
