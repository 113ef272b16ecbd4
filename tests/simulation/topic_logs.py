"""The topic of a simulated world: the logs of its partitions, what producers append, and its tier.

Logs, tasks and metadata are those of ``tiered_cluster`` and ``tiered_kafka``. Each append is noted in a :class:`ProducedLog`,
by which reads are judged. A world begins with a copy of one of a few topics that are made once in a process: see :func:`begun`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import attrs

from kafka_remote_client.model import IsolationLevel, PartitionOffsets, RemoteLogSegmentMetadata
from kafka_remote_client.tiered_cluster import offset_lookup
from kafka_remote_client.tiered_cluster.batches import Batch, Codec, Marker, Producer, Record, new_batch, new_marker
from kafka_remote_client.tiered_cluster.epochs import end_offset_of, epoch_for_offset
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_cluster.partition import Partition
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_kafka.changes import Changes
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.tier_store import TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings
from kafka_remote_client.tiered_kafka.topics import Topic, Topics
from tests.simulation.produced_log import Entry, ProducedJudge, ProducedLog
from tests.support.locations import ManualClock

__all__ = ["ADDRESSES", "SETTLED_TOPICS", "TOPIC", "TOPICS", "LedPartition", "TopicLogs", "begun"]

TOPIC = "orders"
ADDRESSES = {node: ("127.0.0.1", 9000 + node) for node in (1, 2, 3)}
_METADATA_PARTITIONS = 2
_SEGMENT_BYTES = (3_000, 12_000)
_LOCAL_BYTES = (0, 8_000)
_CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD)
_PRODUCERS = 3
_FIRST_APPENDS = (30, 90)
_LAST_APPENDS = 4
TOPICS = 32
"""How many topics there are to begin with, for each number of partitions."""
SETTLED_TOPICS = 8
"""How many topics there are to which nothing is appended any more, each with the most partitions."""
_SHARE_IN_TIER = 0.5
"""Of unclean elections that could lose records that are in the tier, how many do."""
_SHARE_ENDED = 0.7
"""Of transactions that an unclean election opens again, how many end at once."""
_KEPT = 256


class _Files:
    """A directory in memory: what TierStore calls of a Path."""

    def __init__(self, objects: dict[str, bytes], key: str = "") -> None:
        self._objects = objects
        self._key = key

    def __truediv__(self, key: str) -> _Files:
        return _Files(self._objects, key)

    @property
    def parent(self) -> _Files:
        return self

    def mkdir(self, **_: bool) -> None:
        """There are no directories."""

    def write_bytes(self, data: bytes) -> None:
        self._objects[self._key] = data

    def read_bytes(self) -> bytes:
        if self._key not in self._objects:
            raise FileNotFoundError(self._key)
        return self._objects[self._key]

    def unlink(self, *, missing_ok: bool) -> None:
        assert missing_ok
        self._objects.pop(self._key, None)


@attrs.define
class _Store(TierStore):
    """The tier's objects. ``copies``: the first offset and the numbers of the entries of each copied segment."""

    logs: TopicLogs = attrs.field(kw_only=True)
    copies: dict[UUID, tuple[int, list[int]]] = attrs.field(factory=dict, kw_only=True)

    def copy(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> bytes | None:
        log = self.logs.partitions[segment.topic_id_partition.partition].log
        numbers = log.numbers(segment.start_offset, segment.end_offset + 1)
        self.copies[segment.remote_log_segment_id.id] = segment.start_offset, numbers
        return super().copy(segment, objects)


@attrs.define(eq=False)
class LedPartition:
    """A partition as consumers and the judge see it. ``versions``: its logs, the last one is the leader's."""

    logs: TopicLogs
    number: int
    versions: list[ProducedLog] = attrs.field(factory=lambda: [ProducedLog()])
    _offsets: PartitionOffsets = attrs.field(factory=PartitionOffsets)
    _offsets_of: Partition | None = None

    @property
    def log(self) -> ProducedLog:
        """The leader's log."""
        return self.versions[-1]

    @property
    def _led(self) -> PartitionLog:
        return self.logs.topic.partitions[self.number].log

    @property
    def log_start(self) -> int:
        """The first offset."""
        return self._led.log_start

    @property
    def tiered_end(self) -> int:
        """The first offset that is not in the tier, at least the one after the log's start."""
        return max(self.offsets.latest_tiered, self.log_start) + 1

    @property
    def _latest_tiered(self) -> int:
        return offset_lookup.latest_tiered(self._led, self.logs.topic.partitions[self.number].remote).offset

    @property
    def offsets(self) -> PartitionOffsets:
        """The bounds as the brokers tell them."""
        state = self.logs.topic.partitions[self.number]
        if self._offsets_of is not state:
            led, self._offsets_of = state.log, state
            self._offsets = PartitionOffsets(led.log_start, led.local_log_start, self._latest_tiered, led.high_watermark)
        return self._offsets

    def tiered_segment(self, offset: int) -> RemoteLogSegmentMetadata | None:
        """The segment of the tier that holds a record of the leader's log."""
        epoch = next((entry.epoch for entry in reversed(self._led.lineage) if entry.start_offset <= offset), None)
        remote = self.logs.topic.partitions[self.number].remote
        return None if epoch is None else remote.serving(epoch, offset)

    def judge(self, name: str, level: IsolationLevel, position: int, end: int | None) -> ProducedJudge:
        """Returns the judge of a read of it."""
        opened_at = self.logs.clock.now
        return ProducedJudge(name, self.log, level, position, end, versions=self.versions, opened_at=opened_at)

    def replace(self, log: ProducedLog) -> None:
        """A leader has another log than the one before: the first entries of that, or none of a topic that is created again."""
        self.log.replaced_at, self.log.start, log.shared = self.logs.clock.now, self.log_start, log.end
        self.versions.append(log)

    def start_of(self, version: ProducedLog) -> int:
        """The first offset of a version, at last."""
        return self.log_start if version is self.log else version.start

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The leader's answer to OffsetForLeaderEpoch: the last epoch up to that one, and where it ends. -1, -1: not known."""
        return end_offset_of(self._led.lineage, epoch, self._led.end_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that the leader's answer to ListOffsets has for an offset."""
        return epoch_for_offset(self._led.lineage, offset)

    @property
    def last_epoch(self) -> int:
        """The epoch that the leader's answer to ListOffsets has for the end."""
        return self._led.lineage[-1].epoch


class TopicLogs:
    """See the module. An empty topic of ``count`` partitions."""

    def __init__(self, chance: random.Random, clock: ManualClock, count: int, config: TopicConfig) -> None:
        self.chance = chance
        self.clock = clock
        self.config = config
        self.settled = False
        self.numbers = 0
        """How many entries were appended."""
        self.objects: dict[str, bytes] = {}
        self.spans: dict[UUID, tuple[str, Sequence[tuple[int, int, int]]]] = {}
        """Keys and batches of segments, for known_locations.py. Copies of these logs share it."""
        self.store = _Store(cast("Path", _Files(self.objects)), PlainFiles(), logs=self)
        self.changes = Changes()
        self.topics = Topics(
            self.store,
            clock,
            TopicSettings(config),
            brokers=tuple(ADDRESSES),
            partitions=count,
            metadata_partitions=_METADATA_PARTITIONS,
            changed=self.changes.notify,
            new_id=self._new_id,
        )
        self.partitions = [LedPartition(self, number) for number in range(count)]

    @property
    def topic(self) -> Topic:
        """The topic as it is now."""
        found = self.topics.named(TOPIC)
        assert found is not None
        return found

    def copied(self, chance: random.Random, clock: ManualClock) -> TopicLogs:
        """Returns a topic of its own with the same contents, to which ``chance`` appends more unless it is settled."""
        copy = TopicLogs(chance, clock, len(self.partitions), self.config)
        copy.numbers = self.numbers
        copy.objects.update(self.objects)
        copy.spans = self.spans
        copy.store.copies.update(self.store.copies)
        copy.topics._topics = {one.name: attrs.evolve(one, partitions=list(one.partitions)) for one in self.topics.all()}
        for mine, other in zip(copy.partitions, self.partitions, strict=True):
            mine.versions = [other.log if self.settled else other.log.until(other.log.end)]
        return copy

    def create(self, *, uncleanly: bool = True) -> None:
        """Creates the topic, appends to it, and copies to the tier. Leaders change meanwhile, cleanly or not, or never."""
        clean, unclean = self.chance.choice(((0.0, 0.0), (0.1, 0.0), (0.05, 0.03 if uncleanly else 0.0)))
        self.topics.create(TOPIC)
        for partition in self.partitions:
            for _ in range(self.chance.randint(*_FIRST_APPENDS)):
                self.append(partition)
                if self.chance.random() < clean:
                    self.topics.elect(self.topic, partition.number)
                if self.chance.random() < unclean:
                    self.cut(partition)
            self.topics.tier([self.topic], roll=self.chance.random() < 0.5)

    def settle(self) -> None:
        """All transactions end, and all but the end of each log is in the tier. From now on nothing is appended."""
        for partition in self.partitions:
            for producer in sorted(partition.log.open):
                self.mark(partition, producer)
        self.topics.tier([self.topic], roll=True)
        for partition in self.partitions:
            for _ in range(_LAST_APPENDS):
                self.append(partition)
        self.settled = True

    def cut(self, partition: LedPartition) -> int | None:
        """An unclean election: the new leader's log ends earlier. Returns its end, ``None`` if no batch may be lost.

        A transaction whose marker is lost is open again, and may end in another way, often at once. The tier keeps the
        transaction index of the earlier leader.
        """
        log = self.topic.partitions[partition.number].log
        ends = [at for at in partition.log.batch_starts(max(log.local_log_start, log.log_start + 1)) if at > 0]
        if not ends:
            return None
        ends = ends[-30:]
        in_tier = [at for at in ends if at < partition.tiered_end]
        end = self.chance.choice(in_tier if in_tier and self.chance.random() < _SHARE_IN_TIER else ends)
        self.topics.elect(self.topic, partition.number, end_offset=end)
        before, kept = partition.log, partition.log.until(end)
        partition.replace(kept)
        for producer, _ in sorted(kept.open.items() - before.open.items()):
            if self.chance.random() < _SHARE_ENDED:
                self.mark(partition, producer)
        return end

    def _new_id(self) -> UUID:
        return UUID(int=self.chance.getrandbits(120))

    def append(self, partition: LedPartition) -> None:
        """A producer appends a batch, or a transaction ends."""
        chance, log = self.chance, partition.log
        drawn = chance.random()
        if drawn < 0.55 or (drawn >= 0.85 and not log.open):
            self._produce(partition, None)
        elif drawn < 0.85:
            self._produce(partition, chance.randrange(_PRODUCERS))
        else:
            self.mark(partition, chance.choice(sorted(log.open)))

    def _produce(self, partition: LedPartition, producer: int | None) -> None:
        chance, now = self.chance, self.clock.time_ms()
        values = [
            b"%d:" % (self.numbers + one) + chance.randbytes(chance.choice((8, 60, 400))) for one in range(chance.randint(1, 5))
        ]
        by = Producer() if producer is None else Producer(producer, 0, 0, transactional=True)
        batch = new_batch(
            [Record(at, now, None, value) for at, value in enumerate(values)], codec=chance.choice(_CODECS), producer=by
        )
        self._add(partition, batch, values, producer)

    def mark(self, partition: LedPartition, producer: int) -> None:
        """A transaction ends."""
        aborts = self.chance.random() < 0.5
        by = Producer(producer, 0, transactional=True)
        marker = new_marker(Marker.ABORT if aborts else Marker.COMMIT, by, self.clock.time_ms())
        self._add(partition, marker, [None], producer, aborts=aborts)

    def _add(
        self, partition: LedPartition, batch: Batch, values: list[Any], producer: int | None, *, aborts: bool = False
    ) -> None:
        epoch = self.topic.partitions[partition.number].log.lineage[-1].epoch
        self.topics.append(self.topic, partition.number, [batch])
        for place, value in enumerate(values):
            now = self.clock.time_ms()
            partition.log.add(Entry(self.numbers, epoch, value, producer, now, first=place == 0, aborts=aborts))
            self.numbers += 1


@functools.lru_cache(maxsize=_KEPT)
def begun(number: int, count: int, *, settled: bool = False) -> TopicLogs:
    """Returns a topic with records and a tier, made from a number. For :meth:`TopicLogs.copied` only.

    ``settled``: see :meth:`TopicLogs.settle`.
    """
    chance = random.Random(number)
    config = TopicConfig(
        segment_bytes=chance.choice(_SEGMENT_BYTES), local_retention_bytes=chance.choice(_LOCAL_BYTES), index_interval_bytes=500
    )
    logs = TopicLogs(chance, ManualClock(0.0), count, config)
    logs.create(uncleanly=not settled)
    if settled:
        logs.settle()
    return logs
