"""Three real Kafka brokers with one tier, for faults that need a failover: elections, truncation, kills.

Each node is a :class:`~tests.support.kafka_broker.KafkaBroker` with a directory of its own; all of them write to one
LocalTieredStorage. The last node is also the controller: elections need it, so tests that need an election at a certain moment
do not stop it. Each node is a separate rack, and consumers may read from it (KIP-392).

Session time-outs are long enough for a busy machine: a slow broker must not count as
dead. So an election after a kill takes some seconds; a controlled one takes none.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.support import kafka_wire
from tests.support.artifacts import SHORT_LIVED
from tests.support.kafka_broker import KafkaBroker, TierOffsets
from tests.support.ports import HOST, free_ports
from tests.support.waiting import wait_until

__all__ = ["KafkaCluster"]

_PATIENCE_SECONDS = 120.0
_CONTROLLER = 3
_SESSION_MS = 4_000
_SMALL = ("-Xmx384m", *SHORT_LIVED)


def _properties(node: int, controller_port: int, store: Path) -> dict[str, str]:
    own = {
        "node.id": str(node),
        "controller.quorum.voters": f"{_CONTROLLER}@{HOST}:{controller_port}",
        "rsm.config.dir": str(store),
        "broker.session.timeout.ms": str(_SESSION_MS),
        "replica.lag.time.max.ms": str(2 * _SESSION_MS),
        "broker.rack": f"rack-{node}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "num.replica.fetchers": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "3",
        "remote.log.manager.thread.pool.size": "2",
    }
    if node != _CONTROLLER:
        plain = "PLAINTEXT://{host}:{port},SSL://{host}:{ssl_port}"
        own |= {"process.roles": "broker", "listeners": plain}
    else:
        listeners = ["PLAINTEXT://{host}:{port}", "SSL://{host}:{ssl_port}", f"CONTROLLER://{HOST}:{controller_port}"]
        own["listeners"] = ",".join(listeners)
    return own


class KafkaCluster:
    """Nodes 1 to 3 below ``directory``. A context manager: entering starts all, leaving stops them and removes everything.

    Raises MissingPartError on entering where there is no JDK or no artifacts.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store_directory = directory / "remote"
        (port,) = free_ports(1)
        self.nodes = {
            node: KafkaBroker(
                directory / f"node-{node}",
                leftover=directory,
                properties=_properties(node, port, self.store_directory),
                java_options=_SMALL,
            )
            for node in (1, 2, _CONTROLLER)
        }
        self._admin: AdminClient | None = None

    def __enter__(self) -> Self:
        self.store_directory.mkdir(parents=True)
        try:
            for node in reversed(self.nodes):
                self.nodes[node].launch()
            for node in self.nodes:
                self._wait_for(node)
            self.wait_for_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kills what runs and removes everything."""
        self._admin = None
        for broker in self.nodes.values():
            broker.stop(patience=0.0)
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.nodes.values())

    @property
    def store_url(self) -> str:
        return self.store_directory.as_uri()

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            quiet = {"log_level": 0, "socket.timeout.ms": 10_000, "reconnect.backoff.max.ms": 500}
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **quiet})
        return self._admin

    # Nodes

    def wait_for_all(self) -> None:
        """Waits until each node knows all others. A client may ask any of them, so each is asked here."""
        wait_until(self._know_each_other, "all brokers to be known", seconds=_PATIENCE_SECONDS)

    def _know_each_other(self) -> bool:
        try:
            return all(kafka_wire.brokers(HOST, broker.port) == self.nodes.keys() for broker in self.nodes.values())
        except OSError:
            return False

    def stop(self, node: int, *, kill: bool = True) -> None:
        """Ends a node by SIGKILL; ``kill=False`` shuts it down and moves its partitions first."""
        self.nodes[node].stop(patience=0.0 if kill else 30.0)

    def start(self, node: int) -> None:
        """Starts a node again and waits until it answers itself; others may not know of it yet."""
        self.nodes[node].launch()
        self._wait_for(node)

    def _wait_for(self, node: int) -> None:
        """Uses a new client for each query, because a client that knows all nodes may ask any of them."""

        def answers() -> bool:
            if not self.nodes[node].running():
                raise RuntimeError(f"node {node} ended, see {self.nodes[node].log_file}")
            try:
                asked = AdminClient({"bootstrap.servers": self.nodes[node].bootstrap_servers, "log_level": 0})
                return node in asked.list_topics(timeout=2).brokers
            except KafkaException:
                return False

        wait_until(answers, f"node {node} to answer", seconds=_PATIENCE_SECONDS)

    def heal(self) -> None:
        """Starts every node that is not running, and waits until all know each other."""
        for node, broker in self.nodes.items():
            if not broker.running():
                self.start(node)
        self.wait_for_all()

    def wait_until_in_sync(self, name: str, *nodes: int) -> None:
        """Waits until ``nodes`` are the replicas in sync of partition 0, and no others."""
        wait_until(lambda: self.in_sync(name) == set(nodes), f"{nodes} to be in sync", seconds=_PATIENCE_SECONDS)

    def signal(self, node: int, number: signal.Signals) -> None:
        """SIGSTOP or SIGCONT to a node."""
        os.kill(self.nodes[node].pid, number)

    # Topics

    def create_topic(self, name: str, replicas: Sequence[int] = (1, 2), *, segment_bytes: int = 20_000, **config: str) -> None:
        """A tiered topic with one partition on ``replicas``, led by the first; ``_`` in a setting's name stands for ``.``.

        Every running node knows it afterwards: each learns it in its own time, and a new client asks any of them.
        """
        settings = {
            "internal.segment.bytes": str(segment_bytes),
            "index.interval.bytes": "1024",
            "file.delete.delay.ms": "100",
            "remote.storage.enable": "true",
            "local.retention.bytes": "1",
            "retention.ms": "-1",
        } | {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=settings)
        self.admin.create_topics([topic])[name].result(_PATIENCE_SECONDS)
        wait_until(lambda: self._known(name, replicas[0]), f"{name} to be known", seconds=_PATIENCE_SECONDS)

    def _known(self, name: str, leader: int) -> bool:
        """Whether the leader of partition 0 answers, and all running nodes know that it leads."""
        try:
            kafka_wire.list_offsets(HOST, self.nodes[leader].port, name, 0, kafka_wire.LATEST)
            return self._leaders(name) == {leader}
        except (RuntimeError, OSError):
            return False

    def _leaders(self, name: str) -> set[int]:
        """The leaders of partition 0 that the running nodes know; -1 for one that knows none."""
        running = [broker for broker in self.nodes.values() if broker.running()]
        return {kafka_wire.leader(HOST, broker.port, name, 0) for broker in running}

    def delete_topic(self, name: str) -> None:
        """Deletes a topic and waits until no running node knows it."""
        self.admin.delete_topics([name])[name].result(_PATIENCE_SECONDS)
        wait_until(lambda: self._leaders(name) == {-1}, f"{name} to be gone", seconds=_PATIENCE_SECONDS)

    def set_topic(self, name: str, **config: str) -> None:
        """Changes settings of a topic at once; ``_`` in a setting's name stands for ``.``."""
        entries = [
            ConfigEntry(setting.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(_PATIENCE_SECONDS)

    def delete_records(self, name: str, before: int) -> None:
        """Moves the log start of partition 0 to ``before``."""
        for future in self.admin.delete_records([TopicPartition(name, 0, before)]).values():
            future.result(_PATIENCE_SECONDS)

    def leader(self, name: str) -> int:
        """Returns the leader of partition 0; -1 if there is none or it is not known."""
        try:
            topic = self.admin.list_topics(name, timeout=5).topics[name]
        except KafkaException:
            return -1
        return topic.partitions[0].leader if 0 in topic.partitions else -1

    def in_sync(self, name: str) -> set[int]:
        """The replicas of partition 0 that are in sync."""
        return set(self.admin.list_topics(name, timeout=10).topics[name].partitions[0].isrs)

    def leader_epoch(self, name: str) -> int:
        """The leader epoch of partition 0, from the leader's checkpoint."""
        checkpoint = self.nodes[self.leader(name)].local_log(name) / "leader-epoch-checkpoint"
        return int(checkpoint.read_text().splitlines()[-1].split()[0])

    def wait_for_leader(self, name: str, node: int) -> None:
        """Waits until ``node`` leads partition 0 and answers for its tier."""

        def leads() -> bool:
            return self.leader(name) == node and self.offsets(name) is not None

        wait_until(leads, f"node {node} to lead {name}", seconds=_PATIENCE_SECONDS)

    def offsets(self, name: str) -> TierOffsets | None:
        """The leader's answers to ListOffsets; ``None`` while there is no leader that knows its tier."""
        leader = self.leader(name)
        if leader < 0:
            return None
        try:
            return self.nodes[leader].offsets(name)
        except (RuntimeError, OSError):
            return None

    def segments(self, name: str) -> int:
        """How many segments of partition 0 are in the tier."""
        return len(list(self.store_directory.glob(f"*/{name}-0-*/*.log")))

    def wait_until_tiered(self, name: str) -> TierOffsets:
        """Waits until the leader has tiered everything that it may. Returns the offsets."""
        now = wait_until(lambda: self._tiered(name), f"{name} to be tiered", seconds=_PATIENCE_SECONDS, pause=0.25)
        assert now is not None
        return now

    def _tiered(self, name: str) -> TierOffsets | None:
        now, leader = self.offsets(name), self.leader(name)
        if now is None or leader < 0:
            return None
        bases = sorted(int(path.stem) for path in self.nodes[leader].local_log(name).glob("*.log"))
        ends = [base for base in bases if base <= now.last_stable]
        done = bool(ends) and now.latest_tiered == ends[-1] - 1 and now.earliest_local == ends[-1]
        return now if done else None
