"""150 programs of 50 commands each with manual assignment, split among test workers. Seeds are always the same."""

from __future__ import annotations

import pytest

from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.run import run
from tests.state_machine.world import World

EXAMPLES = 10
SEEDS = range(15)


@pytest.mark.parametrize("number", SEEDS)
def test_results_and_records_equal_the_plain_consumers(world: World, number: int) -> None:
    machine = type("Machine", (ConsumerMachine,), {"world": world})
    before = ConsumerMachine.from_store
    run(machine, examples=EXAMPLES, number=number)
    assert ConsumerMachine.from_store > before


def test_the_suite_runs_the_documented_number_of_programs() -> None:
    assert EXAMPLES * len(SEEDS) == 150
