"""A tiered Kafka in one process, for tests: :class:`TieredCluster`.

::

    clients ─► Server (one thread) ─► Requests ─► Topics ─► tiered_cluster/ (pure)
                                                     └────► TierStore, __remote_log_metadata

Replication takes no time: each partition has one log, which its leader, one of the brokers, serves. Records are in memory, the
tier in a directory. Nothing runs by itself: a test says when segments are copied, when they expire, and who leads.

References: KIP-405.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, SystemClock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.tiered_cluster.log import TopicConfig
from kafka_remote_client.tiered_cluster.tiered_read import SpecialAnswer
from kafka_remote_client.tiered_kafka.aiven_files import AivenFiles
from kafka_remote_client.tiered_kafka.changes import Changes
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.tiered_kafka.server import Server
from kafka_remote_client.tiered_kafka.tier_store import TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings
from kafka_remote_client.tiered_kafka.topics import METADATA_TOPIC, CrashPoint, Topic, Topics

__all__ = ["TieredCluster"]

_T = TypeVar("_T")
_LAYOUTS = (PlainFiles.name, AivenFiles.name)
_MAX = 1 << 10


class TieredCluster:
    """Brokers that keep sealed segments in a tier, in this process. A context manager, or :meth:`start` and :meth:`close`.

    ``directory`` becomes the tier and is kept; without one a temporary directory is used and removed.
    ``partitions``, ``segment_bytes`` (``segment.bytes``), ``topic_settings`` (under Kafka's names): of a topic that a client
    creates by asking for it. ``local.retention.bytes`` is 0 unless given, so what was copied leaves the brokers at once.
    ``brokers``: how many listen, with the ids 1 and up. ``port``: of the first one; 0 takes a free port.
    ``metadata_partitions``: partitions of ``__remote_log_metadata``. ``remote_partitions_per_fetch``: how many partitions one
    Fetch reads from the tier, ``None`` for all; brokers before Kafka 4.2 read one, and answer the others without records.
    ``copy_bytes_per_second``, ``fetch_bytes_per_second``: each broker's quotas for copies to the tier and for reads from it
    (``remote.log.manager.copy.max.bytes.per.second``, ``remote.log.manager.fetch.max.bytes.per.second``).
    ``layout``: ``local-tiered-storage``, or ``aiven``, whose plugin stores logs in chunks of ``chunk_size`` bytes
    (``chunk.size``), which it compresses with ``chunk_compression`` (``compression.enabled``).
    ``observe`` gets the value of each record that brokers wrote to ``__remote_log_metadata``, in the cluster's thread.

    A method without a topic acts on all tiered topics, ``compact`` on compacted ones. Raises ConfigurationError for settings
    that the cluster does not have.
    """

    def __init__(
        self,
        directory: Path | str | None = None,
        *,
        partitions: int = 4,
        segment_bytes: int = 1 << 20,
        layout: str = PlainFiles.name,
        topic_settings: Mapping[str, str] | None = None,
        brokers: int = 1,
        port: int = 0,
        metadata_partitions: int = 5,
        remote_partitions_per_fetch: int | None = None,
        copy_bytes_per_second: int | None = None,
        fetch_bytes_per_second: int | None = None,
        chunk_size: int = 1 << 12,
        chunk_compression: bool = False,
        observe: Callable[[bytes], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if layout not in _LAYOUTS:
            raise ConfigurationError(f"layout must be {' or '.join(_LAYOUTS)}, not {layout!r}")
        arguments.whole(chunk_size, "chunk_size", 1, 2**31 - 1)
        arguments.whole(partitions, "partitions", 1, _MAX)
        arguments.whole(metadata_partitions, "metadata_partitions", 1, _MAX)
        arguments.whole(segment_bytes, "segment_bytes", 1, 2**31 - 1)
        if remote_partitions_per_fetch is not None:
            arguments.whole(remote_partitions_per_fetch, "remote_partitions_per_fetch", 1, _MAX)
        for name, rate in (
            ("copy_bytes_per_second", copy_bytes_per_second),
            ("fetch_bytes_per_second", fetch_bytes_per_second),
        ):
            if rate is not None:
                arguments.whole(rate, name, 1, 2**63 - 1)
        self._temporary = directory is None
        settings = TopicSettings(TopicConfig(segment_bytes=segment_bytes, local_retention_bytes=0)).changed(
            topic_settings or {}
        )
        nodes = range(1, arguments.whole(brokers, "brokers", 1, _MAX) + 1)
        changes, clock = Changes(), clock or SystemClock()
        self.directory = Path(tempfile.mkdtemp(prefix="tiered-kafka-") if directory is None else directory)
        in_chunks = layout == AivenFiles.name
        self.store = TierStore(self.directory, AivenFiles(chunk_size, chunk_compression) if in_chunks else PlainFiles())
        self._topics = Topics(
            self.store,
            clock,
            settings,
            brokers=nodes,
            partitions=partitions,
            metadata_partitions=metadata_partitions,
            changed=changes.notify,
            observe=observe,
            copy_bytes_per_second=copy_bytes_per_second,
        )
        ports = {node: port if node == nodes[0] else 0 for node in nodes}
        self._fetches = Fetches(self._topics, changes, clock, remote_partitions_per_fetch, fetch_bytes_per_second)
        self._server = Server(ports, lambda addresses: Requests(self._topics, addresses, clock, self._fetches))

    def start(self) -> Self:
        """Returns when clients can connect. Raises OSError for a port that is taken."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._server.start()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Stops the brokers, and removes a temporary directory. May be called twice."""
        self._server.stop()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each broker, separated by commas. Raises RuntimeError before :meth:`start`."""
        if not self._server.addresses:
            raise RuntimeError("the cluster is not started; call start()")
        return ",".join(f"{host}:{port}" for host, port in self._server.addresses.values())

    # Topics.

    def create_topic(self, topic: str, partitions: int | None = None, settings: Mapping[str, str] | None = None) -> None:
        """Creates a topic. ``settings``: under Kafka's names. Raises ValueError for a name that exists or is not allowed."""
        given = self._topics.settings.changed(settings or {})
        if partitions is not None:
            arguments.whole(partitions, "partitions", 1, _MAX)
        self._call(lambda: self._topics.create(topic, partitions, given))

    def delete_topic(self, topic: str) -> None:
        """Removes a topic, and its segments from the tier. Raises KeyError for a topic that does not exist."""
        self._call(lambda: self._topics.delete(self._named(topic).name))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Moves the log start to ``before``; :meth:`expire_now` then removes segments. Raises ValueError, KeyError."""
        self._call(lambda: self._topics.delete_records(self._named(topic, partition), partition, before))

    # The tier.

    def tier_now(self, topic: str | None = None, *, roll: bool = False, keep_active: bool = False) -> int:
        """Copies sealed segments to the tier, then applies local retention; how many segments were copied.

        ``roll``: also seals the active segments first, so that all records are copied whose transactions have ended. Where
        local retention lets the active segment go, it is copied too, as brokers do, unless ``keep_active``. Where a broker's
        copy quota is used up, fewer are copied: the next call goes on. Raises ValueError for a topic that is not tiered.
        """

        def tiered() -> int:
            if topic is not None and not self._named(topic).settings.tiered:
                raise ValueError(f"remote.storage.enable of {topic} is false")
            return self._topics.tier(self._tiered(topic), roll=roll, keep_active=keep_active)

        return self._call(tiered)

    def expire_now(self, topic: str | None = None, *, now_ms: int | None = None) -> int:
        """Deletes segments whose records are below the log start, or beyond retention; how many were deleted from the tier.

        ``now_ms``: the time by which retention is judged, in milliseconds; default: the clock's.
        """
        return self._call(lambda: self._topics.expire(self._tiered(topic), now_ms))

    def compact(self, topic: str | None = None, *, roll: bool = False, now_ms: int | None = None) -> int:
        """Runs a round of the log cleaner; how many records were removed, transaction markers too.

        Without a topic: in all whose ``cleanup.policy`` has compact. Neither the active segment nor what is in the tier is
        cleaned. ``roll``: seals the active segments first. ``now_ms``: the time by which ``delete.retention.ms`` and
        ``min.compaction.lag.ms`` are judged, in milliseconds; default: the clock's. Raises ValueError for a topic that is not
        compacted.
        """

        def compacted() -> int:
            topics = [one for one in self._topics.all() if one.settings.compacted] if topic is None else [self._named(topic)]
            if not all(one.settings.compacted for one in topics):
                raise ValueError(f"cleanup.policy of {topic} does not have compact")
            return self._topics.compact(topics, now_ms, roll=roll)

        return self._call(compacted)

    def answer_reads(self, answer: SpecialAnswer | str, times: int = 1) -> None:
        """Lets brokers answer the next reads of the tier, each of one partition, without records: ``queue-full``,
        ``quota-exceeded`` or ``timed-out``. Raises ValueError for another answer.
        """
        why, count = SpecialAnswer(answer), arguments.whole(times, "times", 1, _MAX)
        self._call(lambda: self._fetches.answer_reads(why, count))

    def tier_reads(self) -> dict[str, int]:
        """How often brokers read a partition from the tier, and how many bytes they sent of it."""
        return {"broker_tier_reads": self._fetches.tier_reads, "broker_tier_bytes": self._fetches.tier_bytes}

    # Leaders.

    def elect(self, topic: str, partition: int = 0, *, broker: int | None = None, end_offset: int | None = None) -> None:
        """Makes a broker, by default the next one, the leader of the next epoch.

        ``end_offset``: where the new leader's log ends, at the boundary of a batch: later records are lost, as by an unclean
        election. Raises KeyError for a partition or a broker that does not exist.
        """
        if broker is not None and broker not in self._server.addresses:
            raise KeyError(f"there is no broker {broker}")
        self._call(lambda: self._topics.elect(self._named(topic, partition), partition, broker, end_offset))

    def crash(self, point: CrashPoint | str, topic: str, partition: int = 0) -> None:
        """Lets the leader crash at that point of a copy or a deletion, and elects the next one, which starts over.

        Raises ValueError for an unknown point, and if the leader has nothing to copy or to delete.
        """
        at = CrashPoint(point)
        self._call(lambda: self._topics.crash(self._named(topic, partition), partition, at))

    def _tiered(self, name: str | None) -> list[Topic]:
        if name is not None:
            return [self._named(name)]
        return [topic for topic in self._topics.all() if topic.settings.tiered]

    def _named(self, name: str, partition: int = 0) -> Topic:
        topic = self._topics.named(name)
        if topic is None or topic.partition(partition) is None or name == METADATA_TOPIC:
            raise KeyError(f"there is no partition {name}-{partition}")
        return topic

    def _call(self, function: Callable[[], _T]) -> _T:
        return self._server.call(function)
