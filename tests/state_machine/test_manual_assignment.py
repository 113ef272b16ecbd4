"""500 runs of 50 commands each by manual assignment, in shares that workers take one by one. Seeds are always the same."""

from __future__ import annotations

import pytest

from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.run import run
from tests.state_machine.world import World

EXAMPLES = 10
SEEDS = range(50)


@pytest.mark.parametrize("number", SEEDS)
def test_the_consumer_answers_and_delivers_as_the_plain_one(world: World, number: int) -> None:
    machine = type("Machine", (ConsumerMachine,), {"world": world})
    run(machine, examples=EXAMPLES, number=number)


def test_the_runs_are_as_many_as_are_promised() -> None:
    assert EXAMPLES * len(SEEDS) == 500
