"""A store, a metadata topic and the leader of one partition, all in memory and in virtual time."""

from __future__ import annotations

from uuid import UUID

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.metadata_records import MetadataEvent, metadata_record
from kafka_remote_client.tiered_cluster.partition import (
    Command,
    CopyObjects,
    Done,
    Event,
    Failed,
    MetadataStored,
    Partition,
    RunCopy,
    RunExpiration,
    StoreMetadata,
    step,
)
from kafka_remote_client.tiered_cluster.segment_files import FileKind
from tests.support.tier import LAYOUT, MemoryStore
from tests.tiered_cluster.test_metadata_records import TIP

__all__ = ["World"]


class World:
    """Carries out commands. ``topic``: the records of ``__remote_log_metadata``; ``told``: what happened, in words.

    ``fails``: the numbers of commands that fail, counted from 0, and whether the error may pass. A copy that fails has written
    the log.
    """

    def __init__(self, log: PartitionLog, **fields: object) -> None:
        self.partition = Partition(TIP, 1, log, **fields)
        self.objects: dict[tuple[UUID, FileKind], bytes] = {}
        self.topic: list[bytes] = []
        self.told: list[str] = []
        self.copied: list[RemoteLogSegmentMetadata] = []
        self.custom_metadata: bytes | None = None
        self.fails: dict[int, bool] = {}
        self.now_ms = 10_000
        self._ids = 0
        self._commands = 0

    @property
    def log(self) -> PartitionLog:
        return self.partition.log

    def change(self, log: PartitionLog) -> None:
        self.partition = attrs.evolve(self.partition, log=log)

    def copy(self) -> list[str]:
        """One run of the copy task to its end; what happened."""
        ids = tuple(UUID(int=self._ids + number) for number in range(1, 50))
        return self.do(RunCopy(self.now_ms, ids))

    def expire(self) -> list[str]:
        return self.do(RunExpiration(self.now_ms))

    def do(self, event: Event, commands: int = 10**9) -> list[str]:
        """What happens after an event, for at most so many commands."""
        self.told = []
        waiting = self.send(event)
        while waiting and commands:
            commands -= 1
            waiting = self.carry_out(waiting[0])
        return self.told

    def send(self, event: Event) -> tuple[Command, ...]:
        self.partition, commands = step(self.partition, event)
        return commands

    def carry_out(self, command: Command) -> tuple[Command, ...]:
        retriable = self.fails.get(self._commands)
        self._commands += 1
        self.now_ms += 1
        if isinstance(command, StoreMetadata):
            if retriable is None:
                self.store(command.event)
        elif isinstance(command, CopyObjects):
            self.told.append(f"copy {_name(command.segment)}")
            self.copied.append(command.segment)
            kept = command.objects if retriable is None else {FileKind.LOG: command.objects[FileKind.LOG]}
            self.objects.update({(command.segment.remote_log_segment_id.id, kind): data for kind, data in kept.items()})
        elif retriable is None:
            self.told.append(f"remove {_name(command.segment)}")
            gone = command.segment.remote_log_segment_id.id
            self.objects = {key: data for key, data in self.objects.items() if key[0] != gone}
        if retriable is not None:
            return self.send(Failed(command.task, self.now_ms, retriable))
        custom = self.custom_metadata if isinstance(command, CopyObjects) else None
        return self.send(Done(command.task, self.now_ms, custom))

    def store(self, event: MetadataEvent) -> None:
        self.topic.append(metadata_record(event))
        self._ids = max(self._ids, event.remote_log_segment_id.id.int)
        self.told.append(f"{event.state.name} {event.remote_log_segment_id.id.int}")
        self.send(MetadataStored(event))

    def as_store(self) -> MemoryStore:
        """The objects under the keys of LocalTieredStorage, with those of copies that no metadata finished."""
        store = MemoryStore()
        for segment in self.copied:
            for kind in FileKind:
                if (data := self.objects.get((segment.remote_log_segment_id.id, kind))) is not None:
                    store.objects[LAYOUT.object_key(segment, ObjectKind[kind.name])] = data
        return store

    def object(self, segment: RemoteLogSegmentMetadata, kind: FileKind) -> bytes:
        """As a store answers. Raises KeyError for an object that is missing."""
        return self.objects[segment.remote_log_segment_id.id, kind]


def _name(segment: RemoteLogSegmentMetadata) -> str:
    return f"{segment.remote_log_segment_id.id.int} [{segment.start_offset}, {segment.end_offset}]"
