"""40 runs of 50 commands each with groups on a real broker, in shares for workers to take. Seeds are always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.state_machine.bugs import Bug
from tests.state_machine.group_bugs import BUGS
from tests.state_machine.groups import GroupWorld, run_groups
from tests.support.artifacts import file_lock
from tests.support.group_settings import PROTOCOLS, in_group
from tests.support.group_topic import oracle_of, write_group_topic
from tests.support.kafka_broker import KafkaBroker
from tests.support.planting import planted
from tests.support.reading import direct, settings, shim_before
from tests.support.run_summary import RecordProperty

pytestmark = pytest.mark.timeout(600)  # a loaded machine takes long to let members join

PARTITIONS = 4
SESSION_MS = 10_000
"""Who leaves while it joins is a member for so long: the broker has not told it yet who it is."""
EXAMPLES = 4
SHARES = [(protocol, number) for number in range(3) for protocol in PROTOCOLS] + [("eager", 3)]
EXAMPLES_OF_PLAIN_MEMBERS = 2
MOST_EXAMPLES_OF_A_BUG = 10


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


@pytest.mark.parametrize(("protocol", "number"), SHARES)
def test_a_group_gets_every_record_once(kafka_broker: KafkaBroker, group_world: GroupWorld, protocol: str, number: int) -> None:
    run_groups(group_world, protocol, examples=EXAMPLES, number=number)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_groups_of_plain_members_pass_the_same_judgement(
    kafka_broker: KafkaBroker, group_world: GroupWorld, protocol: str
) -> None:
    run_groups(group_world, protocol, examples=EXAMPLES_OF_PLAIN_MEMBERS, number=0, kinds=["plain"])


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name.replace(" ", "-"))
def test_a_planted_bug_is_found(
    kafka_broker: KafkaBroker, group_world: GroupWorld, bug: Bug, record_property: RecordProperty
) -> None:
    record_property("caught", 1)
    with planted(bug.place, bug.make) as plant, pytest.raises(AssertionError):
        run_groups(group_world, "cooperative", examples=MOST_EXAMPLES_OF_A_BUG, number=0, kinds=["direct"])
    assert plant.ran


def test_the_runs_are_as_many_as_are_promised() -> None:
    assert EXAMPLES * len(SHARES) == 40
