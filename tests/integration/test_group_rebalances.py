"""Groups of four on a real broker, rebalanced eleven times during a backfill from the tier, in every protocol.

All runs happen at the same time, because they mostly wait for sessions that end and for members that join.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from tests.support.artifacts import file_lock
from tests.support.group_judgement import judge
from tests.support.group_script import GroupRun, deleted_unread, redelivered, run_script, undelivered
from tests.support.group_settings import PROTOCOLS, in_group
from tests.support.group_topic import COUNT, oracle_of, write_group_topic
from tests.support.history import Outage
from tests.support.invariants.oracle import Oracle
from tests.support.kafka_broker import KafkaBroker
from tests.support.reading import PATIENCE_SECONDS, settings, settings_of, shim_before
from tests.support.scenario import TransactionalTopic

pytestmark = [pytest.mark.broker, pytest.mark.timeout(900)]  # the first test waits for all runs

SESSION_MS = 20_000
"""Of groups in the new protocol: some members are stopped until it is over.

All members of direct groups use one shim, which delays heartbeats on a loaded machine. The session must not end by that.
"""
MIXED = ("direct", "plain", "direct", "off")
"""A rolling change: each member that joins is of the next kind."""
_Name = tuple[str, str]
RUNS: list[_Name] = [
    *((protocol, kind) for protocol in PROTOCOLS for kind in ("plain", "direct")),
    *((protocol, "mixed") for protocol in ("eager", "consumer")),
    ("cooperative", "deleted"),
]
"""``deleted``: direct members of a topic of their own, which loses records that nobody has read."""
_OWN_PARTITIONS = 12


class Runs:
    """All runs of the script by protocol and kind of members, with the topic and the oracle of each."""

    def __init__(self, shared: tuple[str, Oracle], own: tuple[str, Oracle]) -> None:
        self.topics = {name: own if name[1] == "deleted" else shared for name in RUNS}
        self.groups: dict[_Name, str] = {name: f"group-{'-'.join(name)}-{uuid4()}" for name in RUNS}
        self.ended: dict[_Name, Future[GroupRun]] = {}

    def of(self, protocol: str, kind: str) -> GroupRun:
        """Returns a run, or raises its exception."""
        return self.ended[protocol, kind].result(0)


@pytest.fixture(scope="module")
def runs(
    running_broker: KafkaBroker,
    transactional_topic: TransactionalTopic,
    group_topic: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Runs]:
    """No test may restart the broker meanwhile. Writing ``transactional_topic`` does, and parallel tests would wait for it."""
    lock = running_broker.directory.parent / "restart.lock"
    with file_lock(lock, shared=True), shim_before(running_broker) as shim:
        own = f"group-{uuid4()}"
        write_group_topic(running_broker, own, _OWN_PARTITIONS)
        made = Runs(
            (group_topic, oracle_of(running_broker, group_topic)), (own, oracle_of(running_broker, own, _OWN_PARTITIONS))
        )
        directories = {name: tmp_path_factory.mktemp("-".join(name)) for name in RUNS}

        # One after the other: the first use of an AdminClient needs one thread.
        groups = {name: in_group(running_broker, name[0], group, session_ms=SESSION_MS) for name, group in made.groups.items()}

        def run(name: _Name) -> GroupRun:
            _, kind = name
            more = {**groups[name], "auto.commit.interval.ms": 1_000}
            of = partial(settings_of, brokers=running_broker, shim=shim, **more)
            kinds = {"mixed": MIXED, "deleted": ("direct",)}.get(kind, (kind,))
            deletes = running_broker.delete_records if kind == "deleted" else None
            topic, oracle = made.topics[name]
            return run_script(kinds, of, topic, len(oracle.ends), oracle, directories[name], deletes)

        with ThreadPoolExecutor(len(RUNS)) as pool:
            made.ended = {name: pool.submit(run, name) for name in RUNS}
        yield made


def committed(broker: KafkaBroker, group: str, topic: str, partitions: int) -> set[int]:
    """Returns the offsets that a consumer outside the group sees."""
    other = confluent_kafka.Consumer(settings(broker.bootstrap_servers, "read_committed", **{"group.id": group}))
    try:
        asked = [TopicPartition(topic, partition) for partition in range(partitions)]
        return {tp.offset for tp in other.committed(asked, PATIENCE_SECONDS)}
    finally:
        other.close()


@pytest.mark.fault("F66", "F67", "F70")
@pytest.mark.parametrize(("protocol", "kind"), RUNS)
def test_every_record_is_read_and_committed(runs: Runs, running_broker: KafkaBroker, protocol: str, kind: str) -> None:
    """After each rebalance the script waits until every member has records, and direct ones have some from the store."""
    run = runs.of(protocol, kind)
    topic, oracle = runs.topics[protocol, kind]
    assert run.rebalances > 10
    assert undelivered(run.history, oracle) == []
    assert redelivered(run.history) > 0, "the crashes cost something"
    assert committed(running_broker, runs.groups[protocol, kind], topic, len(oracle.ends)) == {COUNT}


@pytest.mark.fault("F66", "F67", "F70", "F73")
@pytest.mark.parametrize(("protocol", "kind"), [(protocol, kind) for protocol, kind in RUNS if kind != "plain"])
def test_only_uncommitted_records_of_a_crashed_member_are_read_twice(runs: Runs, protocol: str, kind: str) -> None:
    """Groups of plain members show that they pass the same script. Their records are not compared here."""
    run = runs.of(protocol, kind)
    judge(run.history, runs.topics[protocol, kind][1], run.direct)
    assert run.history.of(Outage)
    if kind == "deleted":
        assert deleted_unread(run.history) > 0, "the log lost records that nobody had read"
