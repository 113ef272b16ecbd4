"""The topics of a cluster: logs, leaders, and the tasks that tier them. Carries out what the pure model commands.

Everything here runs in one thread, the cluster's. A task runs to its end, or to the point where a test lets its leader crash::

    CrashPoint        what a real broker leaves in the tier
    COPY_STARTED      metadata COPY_SEGMENT_STARTED, no object
    MID_COPY          that, and the first object
    OBJECTS_COPIED    that, and all objects
    DELETE_STARTED    metadata DELETE_SEGMENT_STARTED, all objects
    MID_DELETE        that, without the first object
    OBJECTS_DELETED   that, without any object

References: KIP-405; Kafka's RemoteLogManager, TopicBasedRemoteLogMetadataManager.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from uuid import UUID

import attrs

from kafka_remote_client.clock import Clock
from kafka_remote_client.errors import ConfigurationError
from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition, random_uuid
from kafka_remote_client.tiered_cluster import cleaner
from kafka_remote_client.tiered_cluster.batches import Batch, Record, new_batch
from kafka_remote_client.tiered_cluster.log import PartitionLog, TopicConfig
from kafka_remote_client.tiered_cluster.metadata_records import (
    MetadataEvent,
    SegmentUpdate,
    metadata_partition,
    metadata_record,
)
from kafka_remote_client.tiered_cluster.partition import (
    Command,
    CopyObjects,
    Crash,
    Done,
    Elect,
    Event,
    Failed,
    MetadataStored,
    Partition,
    RemoveObjects,
    RunCopy,
    RunExpiration,
    StoreMetadata,
    Throttled,
    step,
)
from kafka_remote_client.tiered_cluster.producers import NO_OFFSET
from kafka_remote_client.tiered_cluster.quota import Quota
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from kafka_remote_client.tiered_kafka.tier_store import StoreFailedError, TierStore
from kafka_remote_client.tiered_kafka.topic_settings import TopicSettings

__all__ = ["METADATA_TOPIC", "CrashPoint", "Topic", "Topics"]

METADATA_TOPIC = "__remote_log_metadata"
_MAX_NAME = 249
_STARTED, _FINISHED, _DELETING, _DELETED = RemoteLogSegmentState


class CrashPoint(Enum):
    """Where a leader crashes: the module's table."""

    COPY_STARTED = "copy-started"
    MID_COPY = "mid-copy"
    OBJECTS_COPIED = "objects-copied"
    DELETE_STARTED = "delete-started"
    MID_DELETE = "mid-delete"
    OBJECTS_DELETED = "objects-deleted"


_COPIES = {CrashPoint.COPY_STARTED, CrashPoint.MID_COPY, CrashPoint.OBJECTS_COPIED}
_CRASH_AFTER_METADATA = {_STARTED: CrashPoint.COPY_STARTED, _DELETING: CrashPoint.DELETE_STARTED}


@attrs.define
class Topic:
    """One incarnation of a topic. ``partitions``: each with its leader, which has all records."""

    name: str
    id: UUID
    settings: TopicSettings
    partitions: list[Partition] = attrs.field(repr=False)

    def partition(self, number: int) -> Partition | None:
        """``None`` for a number that the topic does not have."""
        return self.partitions[number] if 0 <= number < len(self.partitions) else None


class Topics:
    """``brokers``: the ids of the brokers. ``changed`` is called after records were appended, or offsets moved.

    ``copy_bytes_per_second``: each broker's quota for copies. ``new_id``: makes the ids of topics and segments.
    ``observe`` gets the record of each event of the tier.
    """

    def __init__(
        self,
        store: TierStore,
        clock: Clock,
        settings: TopicSettings,
        *,
        brokers: Sequence[int],
        partitions: int,
        metadata_partitions: int,
        changed: Callable[[], None],
        copy_bytes_per_second: int | None = None,
        new_id: Callable[[], UUID] = random_uuid,
        observe: Callable[[bytes], None] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._brokers = tuple(brokers)
        self._partitions = partitions
        self._changed = changed
        self._new_id = new_id
        self._observe = observe
        self._quotas = defaultdict[int, Quota](lambda: Quota(copy_bytes_per_second))
        self._topics: dict[str, Topic] = {}
        self.create(METADATA_TOPIC, metadata_partitions, TopicSettings(TopicConfig(), tiered=False))

    @property
    def settings(self) -> TopicSettings:
        """Those of a topic that is created without any."""
        return self._settings

    @property
    def store(self) -> TierStore:
        """The objects of the tier."""
        return self._store

    def all(self) -> tuple[Topic, ...]:
        """All topics, ``__remote_log_metadata`` too, in the order in which they were created."""
        return tuple(self._topics.values())

    def named(self, name: str) -> Topic | None:
        """The topic of that name."""
        return self._topics.get(name)

    def with_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id."""
        return next((topic for topic in self._topics.values() if topic.id == topic_id), None)

    def partition(self, name: str, number: int) -> Partition | None:
        """A partition by its topic's name; ``None`` if there is none."""
        topic = self._topics.get(name)
        return None if topic is None else topic.partition(number)

    def create(self, name: str, partitions: int | None = None, settings: TopicSettings | None = None) -> Topic:
        """A new topic; the brokers lead its partitions in turn. Raises ValueError for a name that exists or is not allowed."""
        if name in self._topics:
            raise ValueError(f"topic {name} exists")
        if not 0 < len(name) <= _MAX_NAME or name in {".", ".."} or not _is_name(name):
            raise ValueError(f"not a topic name: {name!r}")
        topic = self._topics[name] = Topic(name, self._new_id(), settings or self._settings, [])
        self.add_partitions(topic, partitions or self._partitions)
        return topic

    def delete(self, name: str) -> None:
        """Removes a topic, and its segments from the tier. Raises KeyError for a topic that does not exist."""
        topic = self._topics.pop(name)
        self._empty_tier(topic)
        self._changed()

    def add_partitions(self, topic: Topic, count: int) -> None:
        """Adds empty partitions until the topic has ``count``."""
        topic.partitions += [self._new_partition(topic, number) for number in range(len(topic.partitions), count)]
        self._changed()

    def change_settings(self, topic: Topic, settings: TopicSettings) -> None:
        """Gives a topic other settings. A topic that is no longer tiered loses what only the tier has (KIP-950).

        Raises ConfigurationError if ``remote.log.delete.on.disable`` does not allow that.
        """
        disabled = topic.settings.tiered and not settings.tiered
        if disabled and not settings.log.remote_log_delete_on_disable:
            raise ConfigurationError("remote.storage.enable: false needs remote.log.delete.on.disable=true")
        topic.settings = settings
        for number, partition in enumerate(topic.partitions):
            topic.partitions[number] = attrs.evolve(partition, log=attrs.evolve(partition.log, config=settings.log))
        if disabled:
            self._empty_tier(topic)
            for number, partition in enumerate(topic.partitions):
                log = attrs.evolve(partition.log.with_log_start(partition.log.local_log_start), highest_remote_offset=NO_OFFSET)
                topic.partitions[number] = attrs.evolve(partition, log=log, remote=RemoteSegments())
        self._changed()

    def _new_partition(self, topic: Topic, number: int) -> Partition:
        leader, log = self._brokers[number % len(self._brokers)], PartitionLog(topic.settings.log).elected(0)
        return Partition(TopicIdPartition(topic.id, topic.name, number), leader, log)

    def _empty_tier(self, topic: Topic) -> None:
        for number, partition in enumerate(topic.partitions):
            segments = tuple(partition.remote.segments.values())
            for state in (_DELETING, _DELETED):
                for segment in segments:
                    if state is _DELETED:
                        self._store.remove(segment)
                    now, told = self._clock.time_ms(), segment.custom_metadata
                    event = SegmentUpdate(segment.remote_log_segment_id, partition.broker_id, now, state, told)
                    self._store_metadata(topic, number, event)

    # Logs.

    def append(self, topic: Topic, number: int, batches: Iterable[Batch]) -> None:
        """Appends batches, and replicates them at once."""
        log = topic.partitions[number].log.appended(list(batches), self._clock.time_ms()).replicated()
        self._set_log(topic, number, log)

    def roll(self, topic: Topic, number: int) -> None:
        """Seals the active segment, unless it is empty."""
        self._set_log(topic, number, topic.partitions[number].log.rolled())

    def delete_records(self, topic: Topic, number: int, before: int) -> None:
        """Moves the log start, which removes nothing from the tier: the next expiration does. Raises ValueError."""
        self._set_log(topic, number, topic.partitions[number].log.with_log_start(before))

    def _set_log(self, topic: Topic, number: int, log: PartitionLog) -> None:
        topic.partitions[number] = attrs.evolve(topic.partitions[number], log=log)
        self._changed()

    def elect(self, topic: Topic, number: int, broker: int | None = None, end_offset: int | None = None) -> None:
        """Makes a broker, by default the next one, the leader of the next epoch. ``end_offset``: where its log ends."""
        partition = topic.partitions[number]
        at = self._brokers.index(partition.broker_id)
        chosen = self._brokers[(at + 1) % len(self._brokers)] if broker is None else broker
        self._step(topic, number, Elect(chosen, partition.log.lineage[-1].epoch + 1, end_offset))
        self._set_log(topic, number, topic.partitions[number].log.replicated())

    # Tasks.

    def tier(self, topics: Iterable[Topic], *, roll: bool, keep_active: bool = False) -> int:
        """Runs the copy task and local retention of each leader until nothing changes; how many segments were copied.

        ``keep_active``: local retention does not roll the active segment.
        """
        copied = 0
        for topic in topics:
            for number in range(len(topic.partitions)):
                if roll:
                    self.roll(topic, number)
                copied += self._tier(topic, number, keep_active=keep_active)
        return copied

    def _tier(self, topic: Topic, number: int, *, keep_active: bool) -> int:
        copied, before = 0, None
        while before != (before := _segments(topic.partitions[number].log)):
            copied += self._run(topic, number, self._copy_event(topic, number))
            log = topic.partitions[number].log.locally_expired(self._clock.time_ms(), keep_active=keep_active)
            self._set_log(topic, number, log)
        return copied

    def expire(self, topics: Iterable[Topic], now_ms: int | None) -> int:
        """Runs the expiration task and local retention of each leader; how many segments were deleted from the tier."""
        deleted, now = 0, self._clock.time_ms() if now_ms is None else now_ms
        for topic in topics:
            for number in range(len(topic.partitions)):
                deleted += self._run(topic, number, RunExpiration(now))
                self._set_log(topic, number, topic.partitions[number].log.locally_expired(now))
        return deleted

    def compact(self, topics: Iterable[Topic], now_ms: int | None, *, roll: bool) -> int:
        """Runs a round of each leader's cleaner; how many records were removed, with transaction markers."""
        removed, now = 0, self._clock.time_ms() if now_ms is None else now_ms
        for topic in topics:
            for number in range(len(topic.partitions)):
                if roll:
                    self.roll(topic, number)
                before = topic.partitions[number].with_seeded_log().log
                after = cleaner.cleaned(before, now)
                self._set_log(topic, number, after)
                removed += _records(before) - _records(after)
        return removed

    def crash(self, topic: Topic, number: int, point: CrashPoint) -> None:
        """Lets a task's leader crash, and elects the next one. Raises ValueError if the task has nothing to do."""
        event: Event = self._copy_event(topic, number) if point in _COPIES else RunExpiration(self._clock.time_ms())
        try:
            self._run(topic, number, event, point)
        except _CrashedError:
            self._step(topic, number, Crash())
            self.elect(topic, number)
            return
        raise ValueError(f"{topic.name}-{number} did not reach {point.value}: there is nothing to copy or to delete")

    def _copy_event(self, topic: Topic, number: int) -> RunCopy:
        ids = tuple(self._new_id() for _ in topic.partitions[number].log.segments)
        return RunCopy(self._clock.time_ms(), ids)

    def _run(self, topic: Topic, number: int, event: Event, crash: CrashPoint | None = None) -> int:
        """Runs a task to its end; how many segments it finished to copy or to delete. Raises _CrashedError."""
        finished = 0
        commands = self._step(topic, number, event)
        while commands:
            (command,) = commands
            if isinstance(command, StoreMetadata) and command.event.state in {_FINISHED, _DELETED}:
                finished += command.event.state is (_FINISHED if isinstance(event, RunCopy) else _DELETED)
            commands = self._step(topic, number, self._carried_out(topic, number, command, crash))
        return finished

    def _carried_out(self, topic: Topic, number: int, command: Command, crash: CrashPoint | None) -> Event:
        custom: bytes | None = None
        try:
            match command:
                case StoreMetadata():
                    if isinstance(command.event, RemoteLogSegmentMetadata) and not self._may_copy(command.event):
                        return Throttled()
                    self._store_metadata(topic, number, command.event)
                    _crash_if(crash is not None and crash is _CRASH_AFTER_METADATA.get(command.event.state))
                case CopyObjects():
                    if crash is CrashPoint.MID_COPY:
                        self._store.copy_part(command.segment, command.objects)
                        raise _CrashedError
                    custom = self._store.copy(command.segment, command.objects)
                    _crash_if(crash is CrashPoint.OBJECTS_COPIED)
                case RemoveObjects():
                    if crash is CrashPoint.MID_DELETE:
                        self._store.remove_part(command.segment)
                        raise _CrashedError
                    self._store.remove(command.segment)
                    _crash_if(crash is CrashPoint.OBJECTS_DELETED)
        except StoreFailedError as failure:
            return Failed(command.task, self._clock.time_ms(), failure.retriable)
        return Done(command.task, self._clock.time_ms(), custom)

    def _may_copy(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Whether the broker's quota allows a copy, which is then recorded with the segment's size, also if it fails."""
        quota, now = self._quotas[segment.broker_id], self._clock.time_ms()
        if quota.is_exceeded(now):
            return False
        self._quotas[segment.broker_id] = quota.recorded(segment.segment_size_in_bytes, now)
        return True

    def _store_metadata(self, topic: Topic, number: int, event: MetadataEvent) -> None:
        metadata = self._topics[METADATA_TOPIC]
        at = metadata_partition(event.remote_log_segment_id.topic_id_partition, len(metadata.partitions))
        value = metadata_record(event)
        self.append(metadata, at, [new_batch([Record(0, event.event_timestamp_ms, None, value)])])
        self._step(topic, number, MetadataStored(event))
        if self._observe is not None:
            self._observe(value)

    def _step(self, topic: Topic, number: int, event: Event) -> tuple[Command, ...]:
        topic.partitions[number], commands = step(topic.partitions[number], event)
        return commands


class _CrashedError(Exception):
    """The leader crashed where the test asked for it."""


def _crash_if(reached: bool) -> None:
    if reached:
        raise _CrashedError


def _segments(log: PartitionLog) -> tuple[int, ...]:
    return (log.highest_remote_offset, *(segment.base_offset for segment in log.segments))


def _records(log: PartitionLog) -> int:
    return sum(batch.count for segment in log.segments for batch in segment.batches)


def _is_name(name: str) -> bool:
    return name.isascii() and all(letter.isalnum() or letter in "._-" for letter in name)
