"""12 runs of 50 commands each with groups on a real broker, in shares for workers to take. Seeds are always the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.state_machine.groups import PROTOCOLS, GroupMachine, GroupWorld
from tests.state_machine.run import run
from tests.support.artifacts import file_lock
from tests.support.group_topic import COUNT, write_group_topic
from tests.support.history import History
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, direct, settings, shim_before
from tests.support.recorder import recorded
from tests.support.waiting import wait_until

PARTITIONS = 4
EXAMPLES = 4
SHARES = [(protocol, 0) for protocol in PROTOCOLS]


@pytest.fixture(scope="session")
def group_world(running_broker: KafkaBroker) -> Iterator[GroupWorld]:
    """The topic is written once per run; the shim is each worker's own."""
    topic, run = "for-group-machines", running_broker.directory.parent
    with file_lock(run / "group-machines.lock"):
        if not (run / "group-machines").exists():
            with file_lock(run / "restart.lock", shared=True):
                write_group_topic(running_broker, topic, PARTITIONS)
            (run / "group-machines").touch()
    truth = History()
    with recorded(confluent_kafka.Consumer, settings(running_broker.bootstrap_servers, "read_committed"), truth) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

        def read() -> bool:
            consumer.consume(400, 0.2)
            return len(Oracle.of(truth)) == PARTITIONS * COUNT

        wait_until(read, "all records", seconds=PATIENCE_SECONDS, pause=0)
    with shim_before(running_broker) as shim:

        def of(kind: str, **more: Any) -> dict[str, Any]:
            if kind == "plain":
                return settings(running_broker.bootstrap_servers, "read_committed", **more)
            return direct(shim, "read_committed", **more)

        yield GroupWorld(topic, Oracle.of(truth), of)


@pytest.mark.parametrize(("protocol", "number"), SHARES)
def test_a_group_gets_every_record_once(kafka_broker: KafkaBroker, group_world: GroupWorld, protocol: str, number: int) -> None:
    machine = type("Machine", (GroupMachine,), {"world": group_world, "protocol": protocol})
    run(machine, examples=EXAMPLES, number=number)


def test_the_runs_are_as_many_as_are_promised() -> None:
    assert EXAMPLES * len(SHARES) == 12
