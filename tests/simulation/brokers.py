"""Three brokers of a simulated world: logs with epochs and transactions, the tier, elections, and who may read.

Logs, tasks and answers are those of ``tiered_cluster`` and ``tiered_kafka``. Here is what happens to them, at random times:
producers append and end transactions, segments are copied and expire, records are deleted, leaders change, cleanly or not,
leaders crash in the middle of a copy, the topic is deleted and created again. Each append is noted in a :class:`ProducedLog`,
by which reads are judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import attrs

from kafka_remote_client.errors import (
    LocationExpiredError,
    ObjectNotFoundError,
    RemoteStorageError,
    SegmentNotFoundError,
)
from kafka_remote_client.fetch.partition_read import Fetch
from kafka_remote_client.location_metadata import LocationMetadata
from kafka_remote_client.model import IsolationLevel, PartitionOffsets, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import ObjectInfo
from kafka_remote_client.shim.signing import SignatureRefusal, SignatureRefusedError, UrlSigner
from kafka_remote_client.tiered_cluster import offset_lookup
from kafka_remote_client.tiered_cluster.batches import Batch, Codec, Marker, Producer, Record, new_batch, new_marker
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from kafka_remote_client.tiered_kafka.changes import Changes
from kafka_remote_client.tiered_kafka.fetches import Fetches
from kafka_remote_client.tiered_kafka.plain_files import PlainFiles
from kafka_remote_client.tiered_kafka.requests import Requests
from kafka_remote_client.tiered_kafka.tier_store import TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings
from kafka_remote_client.tiered_kafka.topics import CrashPoint, Topic, Topics
from tests.simulation.judge import ViolationError
from tests.simulation.produced_log import Entry, ProducedJudge, ProducedLog

if TYPE_CHECKING:
    from tests.simulation.clients import Client
    from tests.simulation.world import World

__all__ = ["ADDRESSES", "TOPIC", "Brokers", "LedPartition"]

TOPIC = "orders"
ADDRESSES = {node: ("127.0.0.1", 9000 + node) for node in (1, 2, 3)}
STORE_URL = "http://127.0.0.1:9000"
_SECRET = b"the key of the simulated store"
_METADATA_PARTITIONS = 2
_LATENCIES_PER_EVENT = 4
_SEGMENT_BYTES = (3_000, 12_000)
_LOCAL_BYTES = (0, 8_000)
_CODECS = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.GZIP, Codec.ZSTD)
_PRODUCERS = 3
_FIRST_APPENDS = (30, 90)


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

    brokers: Brokers = attrs.field(kw_only=True)
    copies: dict[UUID, tuple[int, list[int]]] = attrs.field(factory=dict, kw_only=True)

    def copy(self, segment: RemoteLogSegmentMetadata, objects: Mapping[FileKind, bytes]) -> bytes | None:
        log = self.brokers.partitions[segment.topic_id_partition.partition].log
        numbers = log.numbers(segment.start_offset, segment.end_offset + 1)
        self.copies[segment.remote_log_segment_id.id] = segment.start_offset, numbers
        return super().copy(segment, objects)


class StoredObjects:
    """The RemoteObjectStore of the shim, over the tier's objects."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self._objects = objects

    def get(self, key: str) -> bytes:
        if key not in self._objects:
            raise ObjectNotFoundError(f"no object {key}")
        return self._objects[key]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def size(self, key: str) -> int:
        return len(self.get(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return (ObjectInfo(key, len(data)) for key, data in sorted(self._objects.items()) if key.startswith(prefix))

    def close(self) -> None:
        """Nothing is open."""


@attrs.define(eq=False)
class LedPartition:
    """A partition as applications and the judge see it. ``versions``: its logs, the last one is the leader's."""

    brokers: Brokers
    number: int
    versions: list[ProducedLog] = attrs.field(factory=lambda: [ProducedLog()])

    @property
    def log(self) -> ProducedLog:
        """The leader's log."""
        return self.versions[-1]

    @property
    def _led(self) -> PartitionLog:
        return self.brokers.topic.partitions[self.number].log

    @property
    def log_start(self) -> int:
        """The first offset."""
        return self._led.log_start

    @property
    def tiered_end(self) -> int:
        """The first offset that is not in the tier, at least the one after the log's start."""
        return max(self._latest_tiered + 1, self.log_start + 1)

    @property
    def _latest_tiered(self) -> int:
        return offset_lookup.latest_tiered(self._led, self.brokers.topic.partitions[self.number].remote).offset

    @property
    def offsets(self) -> PartitionOffsets:
        """The bounds as the brokers tell them."""
        led = self._led
        return PartitionOffsets(led.log_start, led.local_log_start, self._latest_tiered, led.high_watermark)

    def judge(self, name: str, level: IsolationLevel, position: int, end: int | None) -> ProducedJudge:
        """Returns the judge of a read of it."""
        opened_at = self.brokers.world.clock.now
        return ProducedJudge(name, self.log, level, position, end, versions=self.versions, opened_at=opened_at)

    def replace(self, log: ProducedLog) -> None:
        """A leader has another log than the one before."""
        self.log.replaced_at = self.brokers.world.clock.now
        self.versions.append(log)


class Brokers:
    """See the module. Takes the place of the model of a tier in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._chance = world.chance
        self._numbers = 0
        self.objects: dict[str, bytes] = {}
        directory = cast("Path", _Files(self.objects))
        self.store = _Store(directory, PlainFiles(), brokers=self)
        self.signer = UrlSigner(_SECRET, STORE_URL, world.clock)
        changes = Changes()
        segment_bytes, local_bytes = self._chance.choice(_SEGMENT_BYTES), self._chance.choice(_LOCAL_BYTES)
        config = TopicConfig(segment_bytes=segment_bytes, local_retention_bytes=local_bytes, index_interval_bytes=500)
        count = world.scenario.partitions
        self.topics = Topics(
            self.store,
            world.clock,
            TopicSettings(config),
            brokers=tuple(ADDRESSES),
            partitions=count,
            metadata_partitions=_METADATA_PARTITIONS,
            changed=changes.notify,
            new_id=self._new_id,
        )
        self._fetches = Fetches(self.topics, changes, world.clock)
        self.requests = Requests(self.topics, ADDRESSES, world.clock, self._fetches)
        self.denied: dict[str, float] = {}
        """Since when each client that may not read may not."""
        self.allowed_at: dict[str, float] = {}
        """Since when each client that may read again may."""
        self.clients: list[str] = []
        self.watchers: list[Client] = []
        self.partitions = [LedPartition(self, number) for number in range(count)]
        self._create()

    @property
    def topic(self) -> Topic:
        """The topic as it is now."""
        found = self.topics.named(TOPIC)
        assert found is not None
        return found

    def start(self) -> None:
        """From now on something happens."""
        self.world.after(self._pause, self._happen)

    @property
    def _pause(self) -> float:
        return self.world.some(_LATENCIES_PER_EVENT * self.world.scenario.latency)

    def opened(self, command: Fetch, now: float) -> bytes | RemoteStorageError:
        """Returns the bytes of a granted range, or why its URL opens nothing."""
        granted = command.range.granted
        place = LocationMetadata.decode(granted.custom_metadata)
        assert place.url is not None
        target = place.url.removeprefix(STORE_URL)
        wanted = f"bytes={granted.range.start}-{granted.range.end - 1}"
        try:
            request = self.signer.verify("GET", target, {"range": wanted})
        except SignatureRefusedError as refused:
            if refused.reason is not SignatureRefusal.EXPIRED:
                raise ViolationError("J17", f"the store refuses a granted URL: {refused.reason.name}") from None
            return LocationExpiredError("403 expired")
        self._judge_opened(target, request.key, granted.range.size, request.range.size, now)
        if request.key not in self.objects:
            return SegmentNotFoundError("404")
        return self.objects[request.key][request.range.start : request.range.end]

    def _judge_opened(self, target: str, key: str, granted: int, opened: int, now: float) -> None:
        path, _, query = target.partition("?")
        expires = int(dict(one.split("=") for one in query.split("&"))["expires"])
        if int(now * 1000) >= expires or not path.endswith(key) or granted != opened:
            raise ViolationError("J17", f"at {now:.3f} s the store opens {opened} bytes of {path} for {query}")

    # -- the log -----------------------------------------------------------------------------------------------------------

    def _new_id(self) -> UUID:
        return UUID(int=self._chance.getrandbits(120))

    def _create(self) -> None:
        self.topics.create(TOPIC)
        for partition in self.partitions:
            for _ in range(self._chance.randint(*_FIRST_APPENDS)):
                self._append(partition)
                if self.world.happens(self.world.scenario.elections / 2):
                    self.topics.elect(self.topic, partition.number)
                if self.world.happens(self.world.scenario.unclean_elections / 4):
                    self._elect_uncleanly(partition)
            self.topics.tier([self.topic], roll=self._chance.random() < 0.5)

    def _append(self, partition: LedPartition) -> None:
        chance, log = self._chance, partition.log
        drawn = chance.random()
        if drawn < 0.55 or (drawn >= 0.85 and not log.open):
            self._produce(partition, None)
        elif drawn < 0.85:
            self._produce(partition, chance.randrange(_PRODUCERS))
        else:
            self._mark(partition, chance.choice(sorted(log.open)))

    def _produce(self, partition: LedPartition, producer: int | None) -> None:
        chance, now = self._chance, self.world.clock.time_ms()
        values = [
            b"%d:" % (self._numbers + one) + chance.randbytes(chance.choice((8, 60, 400)))
            for one in range(chance.randint(1, 5))
        ]
        by = Producer() if producer is None else Producer(producer, 0, 0, transactional=True)
        batch = new_batch(
            [Record(at, now, None, value) for at, value in enumerate(values)], codec=chance.choice(_CODECS), producer=by
        )
        self._add(partition, batch, values, producer)

    def _mark(self, partition: LedPartition, producer: int) -> None:
        aborts = self._chance.random() < 0.5
        by = Producer(producer, 0, transactional=True)
        marker = new_marker(Marker.ABORT if aborts else Marker.COMMIT, by, self.world.clock.time_ms())
        self._add(partition, marker, [None], producer, aborts=aborts)

    def _add(
        self, partition: LedPartition, batch: Batch, values: list[Any], producer: int | None, *, aborts: bool = False
    ) -> None:
        epoch = self.topic.partitions[partition.number].log.lineage[-1].epoch
        self.topics.append(self.topic, partition.number, [batch])
        for place, value in enumerate(values):
            partition.log.add(Entry(self._numbers, epoch, value, producer, place == 0, aborts))
            self._numbers += 1

    # -- what happens ------------------------------------------------------------------------------------------------------

    def _happen(self) -> None:
        chance, scenario, world = self._chance, self.world.scenario, self.world
        partition = chance.choice(self.partitions)
        for _ in range(chance.randint(1, 6)):
            self._append(partition)
        if chance.random() < 0.5:
            copied = self.topics.tier([self.topic], roll=chance.random() < 0.3)
            if copied:
                world.seen.saw("tier-grew")
                world.tell("%d segments reach the tier", copied)
        if world.happens(scenario.elections):
            self._elect(partition)
        if world.happens(scenario.unclean_elections):
            self._elect_uncleanly(partition)
        if world.happens(scenario.leader_crashes):
            self._crash(partition)
        if world.happens(scenario.segments_deleted * 2):
            self._delete_records(partition)
        if world.happens(scenario.recreations / 4):
            self._recreate()
        for client in self.clients:
            self._permit(client)
        world.after(self._pause, self._happen)

    def _permit(self, client: str) -> None:
        """A client loses READ, or gets it again."""
        now = self.world.clock.now
        if client in self.denied:
            if self._chance.random() < 0.5:
                del self.denied[client]
                self.allowed_at[client] = now
                self.world.tell("%s may read again", client)
        elif self.world.happens(self.world.scenario.denials):
            self.denied[client] = now
            self.world.tell("%s loses READ", client)

    def _elect(self, partition: LedPartition) -> None:
        self.world.seen.saw("elected")
        self.topics.elect(self.topic, partition.number)
        self.world.tell("partition %d has a new leader", partition.number)

    def _elect_uncleanly(self, partition: LedPartition) -> None:
        log = self.topic.partitions[partition.number].log
        ends = [at for at in partition.log.batch_starts(max(log.local_log_start, log.log_start + 1)) if at > 0]
        if not ends:
            return
        end = self._chance.choice(ends[-30:])
        self.world.seen.saw("elected-uncleanly")
        if end <= partition.tiered_end - 1:
            self.world.seen.saw("tier-diverged")
        self.topics.elect(self.topic, partition.number, end_offset=end)
        self.world.tell("partition %d has a new leader, whose log ends at %d", partition.number, end)
        partition.replace(partition.log.until(end))

    def _crash(self, partition: LedPartition) -> None:
        point = self._chance.choice(tuple(CrashPoint))
        self.topics.roll(self.topic, partition.number)
        try:
            self.topics.crash(self.topic, partition.number, point)
        except ValueError:  # there was nothing to copy or to delete
            return
        self.world.seen.saw("leader-crashed")
        self.world.tell("the leader of partition %d crashes: %s", partition.number, point.value)

    def _delete_records(self, partition: LedPartition) -> None:
        log = self.topic.partitions[partition.number].log
        self.topics.delete_records(self.topic, partition.number, self._chance.randint(log.log_start, log.high_watermark))
        self.world.tell("partition %d: the log starts at %d", partition.number, partition.log_start)
        if self._chance.random() < 0.7:
            self.topics.expire([self.topic], None)

    def _recreate(self) -> None:
        self.world.seen.saw("topic-recreated")
        self.world.tell("the topic is deleted and created again")
        self.topics.delete(TOPIC)
        for partition in self.partitions:
            partition.replace(ProducedLog())
        self._create()
