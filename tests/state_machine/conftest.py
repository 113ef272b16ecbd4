"""Worlds of the state machines: a new one for each test of manual assignment, and one per worker for groups."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.state_machine.groups import GroupWorld
from tests.state_machine.world import World
from tests.support.group_settings import in_group
from tests.support.group_topic import oracle_of, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.once import once_per_run
from tests.support.reading import settings_of, shim_before

PARTITIONS = 4
SESSION_MS = 10_000
HEARTBEAT_MS = 2_000
"""Hundreds of rebalances wait for it. Few members run at the same time, so few answers are late."""
"""A member that leaves while it joins stays in the group for this long, because it does not know its member id yet."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """New for each test: programs append to its logs, and the offsets that a program draws depend on their length."""
    with World(tmp_path / "tier") as made:
        yield made


@pytest.fixture
def campaign_seed(pytestconfig: pytest.Config) -> int | None:
    """``None`` in ``make test-all``, which always runs the same programs."""
    seed: int | None = pytestconfig.getoption("--campaign-seed")
    return seed


@pytest.fixture(scope="session")
def group_world(running_broker: KafkaBroker) -> Iterator[GroupWorld]:
    """The topic is written once per run. Each worker has its own shim."""
    topic = "for-group-machines"
    once_per_run(running_broker, topic, lambda: write_group_topic(running_broker, topic, PARTITIONS))
    oracle = oracle_of(running_broker, topic, PARTITIONS)
    with shim_before(running_broker) as shim:

        def members(protocol: str, group: str) -> dict[str, Any]:
            config = in_group(running_broker, protocol, group, session_ms=SESSION_MS, heartbeat_ms=HEARTBEAT_MS)
            return {**config, **({"session.timeout.ms": SESSION_MS} if "session.timeout.ms" in config else {})}

        yield GroupWorld(topic, oracle, partial(settings_of, brokers=running_broker, shim=shim), members)
