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
"""Enough for what is to fail: too short a time makes nothing pass."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(world: World, bug: Bug) -> None:
    machine = type("Machine", (ConsumerMachine,), {"world": world, "commit_seconds": COMMIT_SECONDS})
    with planted(bug.place, bug.make) as plant, pytest.raises(AssertionError):
        run(machine, examples=MOST_EXAMPLES, number=bug.seed)
    assert plant.ran
