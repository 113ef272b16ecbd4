"""Programs with manual assignment on a real broker, with transactions on both tiers. Seeds are always the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.state_machine.broker_world import BrokerWorld, write_world
from tests.state_machine.machine import ConsumerMachine
from tests.state_machine.run import run
from tests.support.artifacts import file_lock
from tests.support.kafka_broker import KafkaBroker
from tests.support.once import once_per_run

EXAMPLES = 5
SEEDS = range(2)


# The second test waits for the first one.
pytestmark = pytest.mark.timeout(580)


@pytest.fixture
def broker_world(kafka_broker: KafkaBroker) -> Iterator[BrokerWorld]:
    """The topics are those of the run. A world knows where they end, so no other worker's test writes to them meanwhile."""
    once_per_run(kafka_broker, "state-machine-world", lambda: write_world(kafka_broker))
    with file_lock(kafka_broker.directory.parent / "state-machine-world.used"), BrokerWorld(kafka_broker) as made:
        yield made


@pytest.mark.parametrize("number", SEEDS)
def test_positions_commits_and_lag_equal_the_plain_consumers(broker_world: BrokerWorld, number: int) -> None:
    machine = type("Machine", (ConsumerMachine,), {"world": broker_world})
    before = ConsumerMachine.from_store
    run(machine, examples=EXAMPLES, number=number)
    assert ConsumerMachine.from_store > before
