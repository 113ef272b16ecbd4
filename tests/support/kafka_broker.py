"""A real Kafka broker with tiered storage: one KRaft node from Maven artifacts, LocalTieredStorage, loopback ports.

A :class:`KafkaBroker` is a handle on a directory. Any process with the directory can use, restart and stop the broker, so the
workers of one test run share one: the first starts it, all others attach.

Fast for tests (retention and tiering run every 500 ms) and with room for all waiting reads of the tier (past a hundred it
would answer fetches with UNKNOWN_SERVER_ERROR), otherwise the broker's defaults. Stopping sends SIGTERM first, which takes
0.6 s when tiering is idle, and SIGKILL if a running copy would delay it.

A busy machine may delay the broker's heartbeats for seconds. After its session it is fenced, metadata name no broker, and
librdkafka does not find it again for minutes. So a session is long, and a killed broker waits for its end at the next start.

References: KIP-405, KIP-500, the properties of ``RemoteLogManagerConfig``.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.support import artifacts, kafka_wire
from tests.support.certificates import Authority
from tests.support.ports import HOST, free_ports
from tests.support.processes import is_running
from tests.support.waiting import wait_until

__all__ = ["LOCAL_TIERED_STORAGE", "KafkaBroker", "TierOffsets"]

LOCAL_TIERED_STORAGE = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
_KEEPER = Path(__file__).with_name("keeper.py")
_QUIET = {"log_level": 0, "socket.timeout.ms": 60_000, "reconnect.backoff.max.ms": 500}
_INDEX_CACHE_BYTES = 1 << 30
_INDEX_CACHE_SETTING = "remote.log.index.file.cache.total.size.bytes"
_WITH_SMALL_SEGMENTS = ("3.", "4.0.")
"""Versions that accept any segment.bytes, and have no other setting for it."""
_PATIENCE_SECONDS = 180.0
"""A time-out for work that takes an idle machine a few seconds."""

_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},SSL://{host}:{ssl_port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port},SSL://{host}:{ssl_port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location={directory}/broker.pem
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
log.dirs={directory}/log
broker.session.timeout.ms=20000
broker.heartbeat.interval.ms=500
auto.create.topics.enable=false
num.partitions=1
offsets.topic.num.partitions=3
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=3
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.max.timeout.ms=3600000
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
group.consumer.min.session.timeout.ms=6000
group.consumer.min.heartbeat.interval.ms=200
group.consumer.heartbeat.interval.ms=500
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.segment.delete.delay.ms=500
log.cleaner.backoff.ms=500
log.flush.start.offset.checkpoint.interval.ms=500
remote.log.storage.system.enable=true
remote.log.storage.manager.class.name={storage_manager}
rsm.config.dir={directory}/remote
rsm.config.delete.on.close=false
rsm.config.model.file={directory}/store-model
remote.log.metadata.manager.listener.name=PLAINTEXT
remote.log.manager.task.interval.ms=500
remote.log.reader.max.pending.tasks=10000
rlmm.config.remote.log.metadata.topic.num.partitions=5
rlmm.config.remote.log.metadata.topic.replication.factor=1
rlmm.config.remote.log.metadata.initialization.retry.interval.ms=300
"""


@attrs.frozen
class TierOffsets:
    """The bounds of a partition's tiers, from the broker. ``latest_tiered`` is inclusive, -1 = nothing."""

    log_start: int
    earliest_local: int
    latest_tiered: int
    high_watermark: int
    last_stable: int


class KafkaBroker:
    """A handle on the broker whose files are in ``directory``.

    The broker ends with the process ``owner``, which also removes ``leftover`` (default: ``directory``).
    ``storage_manager`` is the RemoteStorageManager's class: LocalTieredStorage, or ``DelayedTieredStorage`` of tests/java,
    whose store :meth:`behave_like` changes. ``properties`` replace those of this module, ``java_options`` go to Java.
    ``version`` is Kafka's, by default that of the pom. Only LocalTieredStorage works with another version.
    """

    def __init__(
        self,
        directory: Path,
        *,
        owner: int | None = None,
        leftover: Path | None = None,
        storage_manager: str = LOCAL_TIERED_STORAGE,
        properties: Mapping[str, str] | None = None,
        java_options: Sequence[str] = ("-Xmx1g",),
        version: str = "",
    ) -> None:
        self.directory = directory
        self._own_properties = dict(properties or {})
        self._java_options = tuple(java_options)
        self._version = version
        self._owner = owner or os.getpid()
        self._leftover = leftover or directory
        self._storage_manager = storage_manager
        self._admin: AdminClient | None = None
        self._admin_port = 0

    # Addresses and files

    @property
    def port(self) -> int:
        return int(self._ports["port"])

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def tls_bootstrap_servers(self) -> str:
        """The TLS address, with a certificate of :attr:`authority`."""
        return f"{HOST}:{self._ports['ssl_port']}"

    @property
    def authority(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def store_directory(self) -> Path:
        """The root of the tier's ``file://`` store: LocalTieredStorage's ``dir``, which holds ``kafka-tiered-storage/``."""
        return self.directory / "remote"

    @property
    def store_url(self) -> str:
        return self.store_directory.as_uri()

    @property
    def log_file(self) -> Path:
        """The broker's output."""
        return self.directory / "broker.log"

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **_QUIET})
        return self._admin

    @property
    def _ports(self) -> dict[str, int]:
        return json.loads((self.directory / "ports.json").read_text())

    @property
    def _pid_file(self) -> Path:
        return self.directory / "broker.pid"

    # Start and stop

    def start(self) -> None:
        """Formats the directory when it is new, starts the broker unless it runs, and waits until it answers.

        Raises MissingPartError when there is no JDK or no artifacts, TimeoutError when it does not come up.
        """
        if not self.running():
            self.launch()
        wait_until(self._answers, f"the broker to answer (see {self.log_file})", seconds=_PATIENCE_SECONDS)

    def launch(self) -> None:
        """:meth:`start` without the wait."""
        java, class_path = artifacts.java(), artifacts.class_path(self._version)
        self.format()
        jmx = self._ports["jmx_port"]
        archived = artifacts.archived_classes(self._version) if {*artifacts.SHORT_LIVED} <= {*self._java_options} else ()
        command = [
            *(java, *self._java_options, *archived),
            *(f"-Djava.rmi.server.hostname={HOST}", f"-Dcom.sun.management.jmxremote.host={HOST}"),
            *(f"-Dcom.sun.management.jmxremote.port={jmx}", f"-Dcom.sun.management.jmxremote.rmi.port={jmx}"),
            *("-Dcom.sun.management.jmxremote.authenticate=false", "-Dcom.sun.management.jmxremote.ssl=false"),
            *("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", class_path, "kafka.Kafka", str(self._properties)),
        ]
        keeper = [sys.executable, str(_KEEPER), str(self._owner), str(self._leftover), *command]
        with self.log_file.open("ab") as log:
            # start_new_session: an interrupt from the keyboard must reach only the tests, which then stop the broker.
            keeping = subprocess.Popen(
                keeper, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True, text=True
            )
        self._pid_file.write_text(keeping.communicate(timeout=_PATIENCE_SECONDS)[0].strip())

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def format(self) -> None:
        """Formats the directory unless that was done before. Raises MissingPartError as :meth:`start`."""
        if not self._properties.exists():
            self._format(self._properties)

    def _format(self, properties: Path) -> None:
        self.store_directory.mkdir(parents=True)
        self.set_latency(0)
        authority = Authority("The broker's authority")
        authority.write(self.authority)
        authority.issue().write(self.directory / "broker.pem")
        names = ("port", "ssl_port", "controller_port", "jmx_port")
        ports = dict(zip(names, free_ports(4), strict=True))
        (self.directory / "ports.json").write_text(json.dumps(ports))
        fields = {**ports, "host": HOST, "directory": self.directory, "storage_manager": self._storage_manager}
        lines = (line.split("=", 1) for line in _PROPERTIES.format(**fields).splitlines())
        written = dict(lines) | {name: value.format(**fields) for name, value in self._own_properties.items()}
        properties.write_text("".join(f"{name}={value}\n" for name, value in written.items()))
        cluster = "dGVzdC1jbHVzdGVyLTAwMQ"
        formatting = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        command = artifacts.kafka_tool(*formatting, version=self._version)
        subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_SECONDS, stdin=subprocess.DEVNULL)

    def _answers(self) -> bool:
        if not self.running():
            raise RuntimeError(f"the broker ended: {self.log_file.read_text(errors='replace')[-3000:]}")
        try:
            return bool(self.admin.list_topics(timeout=10).brokers)
        except KafkaException:
            return False

    @property
    def pid(self) -> int:
        """The broker's process. Raises FileNotFoundError while it is stopped."""
        return int(self._pid_file.read_text())

    def running(self) -> bool:
        """Whether the broker's process runs."""
        return self._pid_file.exists() and is_running(int(self._pid_file.read_text()))

    def stop(self, *, patience: float = 5.0) -> None:
        """Ends the process: SIGTERM, after ``patience`` seconds SIGKILL. A stopped broker can be started again."""
        if not self._pid_file.exists():
            return
        pid = int(self._pid_file.read_text())
        try:
            end = os.pidfd_open(pid)
        except ProcessLookupError:
            end = None
        if end is not None:
            try:
                watched = select.poll()
                watched.register(end, select.POLLIN)
                for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 30.0)):
                    signal.pidfd_send_signal(end, number)
                    if watched.poll(seconds * 1000):
                        break
            finally:
                os.close(end)
        wait_until(lambda: not self.running(), f"process {pid} to be gone")
        self._pid_file.unlink()

    def restart(self, *, kill: bool = False) -> None:
        """Stops and starts the broker: each restart gives every partition a later leader epoch. ``kill`` = with SIGKILL."""
        # Not a partition whose tier has only files of a deleted topic, or of a topic without remote storage.
        tiered = [one for one in self._tiered_partitions() if self._has_loaded_tier(*one)]
        self.stop(patience=0.0 if kill else 5.0)
        self.start()
        self._wait_for_leaders()
        # Each leader reads __remote_log_metadata again before it knows its tier.
        for topic, partition in tiered:
            known = f"the tier of {topic}-{partition} to be known again"
            wait_until(lambda t=topic, p=partition: self._has_loaded_tier(t, p), known, seconds=_PATIENCE_SECONDS)

    def _has_loaded_tier(self, topic: str, partition: int) -> bool:
        try:
            return kafka_wire.list_offsets(HOST, self.port, topic, partition, kafka_wire.LATEST_TIERED) >= 0
        except RuntimeError:  # metadata may name the leader shortly before it leads the partition
            return False

    def _tiered_partitions(self) -> set[tuple[str, int]]:
        # LocalTieredStorage names a directory <topic>-<partition>-<topic id, 22 characters>.
        names = {path.parent.name[:-23] for path in self.store_directory.glob("*/*/*.log")}
        known = self.admin.list_topics(timeout=60).topics
        split = (name.rpartition("-") for name in names)
        return {(topic, int(partition)) for topic, _, partition in split if topic in known}

    def _wait_for_leaders(self) -> None:
        def all_led() -> bool:
            topics = self.admin.list_topics(timeout=60).topics.values()
            return all(p.leader >= 0 for topic in topics for p in topic.partitions.values())

        wait_until(all_led, "all partitions to have a leader", seconds=_PATIENCE_SECONDS)

    def destroy(self) -> None:
        """Stops the broker and removes its directory."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    # Topics

    def create_topic(
        self, name: str, *, partitions: int = 1, segment_bytes: int = 20_000, tiered: bool = True, **config: str
    ) -> None:
        """Creates a topic whose rolled segments go to the tier and leave the local disk at once.

        ``config`` takes further topic settings with ``_`` for ``.``: ``message_timestamp_type="LogAppendTime"``.
        """
        size = "segment.bytes" if self._version.startswith(_WITH_SMALL_SEGMENTS) else "internal.segment.bytes"
        settings = {size: str(segment_bytes), "index.interval.bytes": "1024", "file.delete.delay.ms": "100"}
        if tiered:
            settings |= {"remote.storage.enable": "true", "local.retention.bytes": "1", "retention.ms": "-1"}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=settings)
        is_new = name not in self.admin.list_topics(timeout=60).topics
        try:
            self.admin.create_topics([topic])[name].result(60)
        except KafkaException as error:
            # A broker repeats the request when its controller is late. The repeated request finds the first one's topic.
            if not is_new or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        # The controller answers shortly before the broker knows the topic.
        wait_until(lambda: self._leads(name, partitions), f"the broker to lead {name}", seconds=_PATIENCE_SECONDS)

    def _leads(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(topic, timeout=60).topics[topic].partitions
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(60)

    def offsets(self, topic: str, partition: int = 0) -> TierOffsets:
        """The broker's answers to ListOffsets -2, -4, -5, -1 and -1 under read_committed."""
        ask = kafka_wire.list_offsets
        return TierOffsets(
            log_start=ask(HOST, self.port, topic, partition, kafka_wire.EARLIEST),
            earliest_local=ask(HOST, self.port, topic, partition, kafka_wire.EARLIEST_LOCAL),
            latest_tiered=ask(HOST, self.port, topic, partition, kafka_wire.LATEST_TIERED),
            high_watermark=ask(HOST, self.port, topic, partition, kafka_wire.LATEST),
            last_stable=ask(HOST, self.port, topic, partition, kafka_wire.LATEST, read_committed=True),
        )

    def wait_until_tiered(self, topic: str, *partitions: int, seconds: float = 120.0) -> TierOffsets:
        """Waits until everything that may be tiered is only in the tier. Returns the last partition's offsets (default 0).

        A segment may be tiered when it is rolled and ends below the last stable offset.
        """
        for partition in partitions or (0,):
            what = f"{topic}-{partition} to be tiered"
            wait_until(lambda p=partition: self._tiered(topic, p), what, seconds=seconds, pause=0.25)
        return self.offsets(topic, (partitions or (0,))[-1])

    def _tiered(self, topic: str, partition: int) -> bool:
        now = self.offsets(topic, partition)
        bases = sorted(int(path.stem) for path in self.local_log(topic, partition).glob("*.log"))
        ends = [base for base in bases if base <= now.last_stable]
        return bool(ends) and now.latest_tiered == ends[-1] - 1 and now.earliest_local == ends[-1]

    @property
    def log_directory(self) -> Path:
        """The broker's only folder of ``log.dirs``."""
        return self.directory / "log"

    def local_log(self, topic: str, partition: int = 0) -> Path:
        """The directory of a partition on the broker's own disk."""
        return self.log_directory / f"{topic}-{partition}"

    def remote_segments(self, topic: str, partition: int = 0) -> list[Path]:
        """The segments of a partition in the tier, in the order of their offsets."""
        return sorted(self.store_directory.glob(f"*/{topic}-{partition}-{self._topic_id(topic, partition)}/*.log"))

    def _topic_id(self, topic: str, partition: int) -> str:
        """The id of the topic in names of LocalTieredStorage, ``*`` for one that is deleted.

        The tier may still have segments of a deleted topic of the same name.
        """
        metadata = self.local_log(topic, partition) / "partition.metadata"
        return metadata.read_text().rpartition("topic_id: ")[2].strip() if metadata.exists() else "*"

    def copy_of_tier(self, topic: str, directory: Path, partition: int = 0) -> Path:
        """Copies a partition's part of the tier below ``directory``, as a separate store. Returns the place of its objects.

        The rest changes while other tests write and delete, so a copy of everything could miss files.
        """
        (source,) = self.store_directory.glob(f"*/{topic}-{partition}-{self._topic_id(topic, partition)}")
        return Path(shutil.copytree(source, directory / source.relative_to(self.store_directory)))

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        """DeleteRecords: moves the log start to ``before``, and waits until a kill cannot undo that.

        The broker answers before it has written its checkpoint. If it is killed in between, it restarts with an older log
        start, at offsets that its leader epochs no longer cover, and a read from the earliest offset never progresses.
        """
        target = TopicPartition(topic, partition, before)
        for future in self.admin.delete_records([target]).values():
            future.result(60)
        checkpoint = self.directory / "log" / "log-start-offset-checkpoint"
        line = f"{topic} {partition} {before}"
        wait_until(lambda: checkpoint.exists() and line in checkpoint.read_text().splitlines(), f"the checkpoint of {line}")

    # Java tools and metrics

    def run_java(
        self, main_class: str, *arguments: str, stdin: bytes | None = None, seconds: float = 120.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a Java main class (Kafka's tools, or tests/java) to its end.

        Raises CalledProcessError when it fails, TimeoutExpired when it does not end.
        """
        command = artifacts.kafka_tool(main_class, *arguments)
        return subprocess.run(command, input=stdin or b"", capture_output=True, check=True, timeout=seconds)

    def remote_fetch_requests(self, topic: str) -> int:
        """The number of fetches of ``topic`` that the broker sent to the tier: RemoteFetchRequestsPerSec, by JMX."""
        return self.topic_metric("RemoteFetchRequestsPerSec", topic)

    def topic_metric(self, name: str, topic: str) -> int:
        """The count of one of the broker's meters per topic; 0 when it has none for this topic yet."""
        url = f"service:jmx:rmi:///jndi/rmi://{HOST}:{self._ports['jmx_port']}/jmxrmi"
        bean = f"kafka.server:type=BrokerTopicMetrics,name={name},*"
        done = self.run_java("BrokerMeter", url, bean)
        counts = dict(line.rsplit(" ", 1) for line in done.stdout.decode().splitlines())
        return int(counts.get(topic, 0))

    def set_latency(self, milliseconds: int) -> None:
        """Sets the delay of a DelayedTieredStorage before each read."""
        self.behave_like(f"{milliseconds / 1000} {milliseconds / 1000} 0 0 0 0 0 0")

    def behave_like(self, model: str) -> None:
        """A DelayedTieredStorage reads as from such a store from now on. ``model``: see tests/java/StoreModel.java."""
        unfinished = self.directory / f"store-model.{time.monotonic_ns()}"
        unfinished.write_text(model)
        unfinished.rename(self.directory / "store-model")

    def clear_index_cache(self) -> None:
        """Empties the broker's cache of remote indexes, as a restart would."""
        for size in ("1", str(_INDEX_CACHE_BYTES)):
            setting = ConfigEntry(_INDEX_CACHE_SETTING, size, incremental_operation=AlterConfigOpType.SET)
            resource = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[setting])
            self.admin.incremental_alter_configs([resource])[resource].result(60)

    def properties(self) -> Mapping[str, str]:
        """The broker's own configuration."""
        lines = (self.directory / "server.properties").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if line)


if __name__ == "__main__":
    KafkaBroker(Path(sys.argv[1])).destroy()
