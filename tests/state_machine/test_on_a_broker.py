"""Programs by manual assignment on a real broker, with transactions on both tiers. Seeds are always the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.state_machine.broker_world import BrokerWorld, write_world
from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.run import run
from tests.support.kafka_broker import KafkaBroker
from tests.support.once import once_per_run

EXAMPLES = 5
SEEDS = range(2)


@pytest.fixture(scope="session")
def broker_world(running_broker: KafkaBroker) -> Iterator[BrokerWorld]:
    once_per_run(running_broker, "state-machine-world", lambda: write_world(running_broker))
    with BrokerWorld(running_broker) as made:
        yield made


@pytest.mark.parametrize("number", SEEDS)
def test_positions_commits_and_lag_equal_the_plain_consumers(
    kafka_broker: KafkaBroker, broker_world: BrokerWorld, number: int
) -> None:
    machine = type("Machine", (ConsumerMachine,), {"world": broker_world})
    run(machine, examples=EXAMPLES, number=number)
