"""Two worlds for all machines of a worker: one for manual assignment, one for groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.state_machine.groups import GroupWorld
from tests.state_machine.world import World
from tests.support.artifacts import file_lock
from tests.support.group_settings import in_group
from tests.support.group_topic import oracle_of, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import direct, settings, shim_before

PARTITIONS = 4
SESSION_MS = 10_000
"""Who leaves while it joins is a member for so long: the broker has not told it yet who it is."""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with World(tmp_path_factory.mktemp("world") / "tier") as made:
        yield made


@pytest.fixture(scope="session")
def group_world(running_broker: KafkaBroker) -> Iterator[GroupWorld]:
    """The topic is written once per run; the shim is each worker's own."""
    topic, run = "for-group-machines", running_broker.directory.parent
    with file_lock(run / "group-machines.lock"):
        if not (run / "group-machines").exists():
            with file_lock(run / "restart.lock", shared=True):
                write_group_topic(running_broker, topic, PARTITIONS)
            (run / "group-machines").touch()
    oracle = oracle_of(running_broker, topic, PARTITIONS)
    with shim_before(running_broker) as shim:

        def of(kind: str, **more: Any) -> dict[str, Any]:
            if kind == "plain":
                return settings(running_broker.bootstrap_servers, "read_committed", **more)
            return direct(shim, "read_committed", **more)

        def members(protocol: str, group: str) -> dict[str, Any]:
            config = in_group(running_broker, protocol, group, session_ms=SESSION_MS)
            return {**config, **({"session.timeout.ms": SESSION_MS} if "session.timeout.ms" in config else {})}

        yield GroupWorld(topic, oracle, of, members)
