"""A leader with its log and the tier: events in, commands out, in virtual time. Kafka's RemoteLogManager, for one partition.

Two tasks run beside each other. Each does one thing at a time: it gives a command, and goes on when that is done.

::

    copy task, for each sealed segment              expiration task, for each segment that has to go
    STORE_STARTED   metadata COPY_SEGMENT_STARTED   STORE_DELETING  metadata DELETE_SEGMENT_STARTED
    COPY            objects                         REMOVE          objects
    STORE_FINISHED  metadata COPY_SEGMENT_FINISHED  STORE_DELETED   metadata DELETE_SEGMENT_FINISHED

The copy task deletes, by the steps on the right, what it could not copy and what got too much custom metadata. Then it ends its
run; after too much custom metadata it copies nothing more until the next election. Any other failure ends a task's run and
leaves things as they are: the next run copies the segment again under another id, or deletes again. So does a crash, whatever
the last command did.

References: KIP-405; Kafka's RemoteLogManager (RLMCopyTask, RLMExpirationTask).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeAlias
from uuid import UUID

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_remote_client.tiered_cluster import copy_task, expiration_task
from kafka_remote_client.tiered_cluster.log import PartitionLog
from kafka_remote_client.tiered_cluster.metadata_records import MetadataEvent, SegmentUpdate
from kafka_remote_client.tiered_cluster.producers import NO_OFFSET
from kafka_remote_client.tiered_cluster.remote_segments import RemoteSegments
from kafka_remote_client.tiered_cluster.segment_files import FileKind, segment_files

__all__ = [
    "Command",
    "CopyObjects",
    "Crash",
    "Done",
    "Elect",
    "Event",
    "Failed",
    "MetadataStored",
    "Partition",
    "RemoveObjects",
    "RunCopy",
    "RunExpiration",
    "StoreMetadata",
    "Task",
    "Throttled",
    "step",
]

_CUSTOM_METADATA_BYTES = 128


class Task(Enum):
    """The two tasks of a leader."""

    COPY = "copy"
    EXPIRATION = "expiration"


class _Step(Enum):
    STORE_STARTED = "metadata COPY_SEGMENT_STARTED"
    COPY = "objects are copied"
    STORE_FINISHED = "metadata COPY_SEGMENT_FINISHED"
    STORE_DELETING = "metadata DELETE_SEGMENT_STARTED"
    REMOVE = "objects are removed"
    STORE_DELETED = "metadata DELETE_SEGMENT_FINISHED"


_NEXT = {
    _Step.STORE_STARTED: _Step.COPY,
    _Step.COPY: _Step.STORE_FINISHED,
    _Step.STORE_DELETING: _Step.REMOVE,
    _Step.REMOVE: _Step.STORE_DELETED,
}
"""The next step for the same segment. After the other two it is the next segment's turn."""
_UPDATES = {
    _Step.STORE_FINISHED: RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
    _Step.STORE_DELETING: RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    _Step.STORE_DELETED: RemoteLogSegmentState.DELETE_SEGMENT_FINISHED,
}


# Commands.


@attrs.frozen
class StoreMetadata:
    """Append the event to ``__remote_log_metadata``: :class:`MetadataStored`, then :class:`Done`."""

    task: Task
    event: MetadataEvent


@attrs.frozen
class CopyObjects:
    """Write these objects to the tier, then :class:`Done` with the store's custom metadata, if it has any."""

    task: Task
    segment: RemoteLogSegmentMetadata
    objects: Mapping[FileKind, bytes] = attrs.field(repr=False)


@attrs.frozen
class RemoveObjects:
    """Remove the objects of a segment, those that exist, then :class:`Done`."""

    task: Task
    segment: RemoteLogSegmentMetadata


Command: TypeAlias = StoreMetadata | CopyObjects | RemoveObjects


# Events. Times are in milliseconds.


@attrs.frozen
class RunCopy:
    """The copy task's turn. ``ids``: one for each segment that it may copy in this run."""

    now_ms: int
    ids: tuple[UUID, ...]


@attrs.frozen
class RunExpiration:
    """The expiration task's turn."""

    now_ms: int


@attrs.frozen
class MetadataStored:
    """A record is in ``__remote_log_metadata``. This leader or an earlier one wrote it."""

    event: MetadataEvent


@attrs.frozen
class Done:
    """A task's command succeeded."""

    task: Task
    now_ms: int
    custom_metadata: bytes | None = attrs.field(default=None, repr=False)


@attrs.frozen
class Failed:
    """A task's command failed. ``retriable``: the store says that the error may pass."""

    task: Task
    now_ms: int
    retriable: bool = True


@attrs.frozen
class Throttled:
    """The broker's copy quota is used up: the copy task does not begin the segment that it asked to begin.

    Kafka's task waits and goes on; here its run ends, and the next run goes on.
    """


@attrs.frozen
class Crash:
    """The leader ends. Its log stays."""


@attrs.frozen
class Elect:
    """Another replica becomes the leader. ``end_offset``: where its log ends, unless it has all of the old leader's.

    An election is clean if that is not below the high watermark.
    """

    broker_id: int
    epoch: int
    end_offset: int | None = None


Event: TypeAlias = RunCopy | RunExpiration | MetadataStored | Done | Failed | Throttled | Crash | Elect


@attrs.frozen
class _Run:
    """What a task works on. ``copies``: base offsets and ids of what it copies next. ``deletions``: what it deletes next."""

    step: _Step
    segment: RemoteLogSegmentMetadata
    copies: tuple[tuple[int, UUID], ...] = ()
    deletions: tuple[RemoteLogSegmentMetadata, ...] = ()


@attrs.frozen
class Partition:
    """``remote``: what the metadata says so far. ``copy_stopped``: custom metadata was too large, so nothing is copied.

    Records are appended to ``log`` between events. ``custom_metadata_bytes``: Kafka's
    ``remote.log.metadata.custom.metadata.max.bytes``.
    """

    tip: TopicIdPartition
    broker_id: int
    log: PartitionLog
    remote: RemoteSegments = attrs.field(factory=RemoteSegments, repr=False)
    custom_metadata_bytes: int = _CUSTOM_METADATA_BYTES
    copy_stopped: bool = False
    runs: Mapping[Task, _Run] = attrs.field(factory=dict, repr=False)

    def with_run(self, task: Task, run: _Run | None) -> Partition:
        """The partition whose task works on this."""
        others = {other: kept for other, kept in self.runs.items() if other is not task}
        return attrs.evolve(self, runs=others if run is None else {**others, task: run})

    def with_seeded_log(self) -> Partition:
        """A new leader learns what is in the tier when the first of its tasks runs."""
        if self.log.highest_remote_offset != NO_OFFSET:
            return self
        highest = copy_task.highest_remote_offset(self.log, self.remote)
        return attrs.evolve(self, log=attrs.evolve(self.log, highest_remote_offset=highest))


_Stepped: TypeAlias = tuple[Partition, tuple[Command, ...]]


def step(partition: Partition, event: Event) -> _Stepped:
    """The partition after an event, and what its tasks do now. Raises ValueError for an answer to a task that did not ask."""
    match event:
        case MetadataStored():
            return attrs.evolve(partition, remote=partition.remote.applied(event.event)), ()
        case RunCopy():
            return _run_copy(partition, event)
        case RunExpiration():
            return _run_expiration(partition, event)
        case Throttled():
            return _throttled(partition), ()
        case Crash():
            return attrs.evolve(partition, runs={}), ()
        case Elect():
            log = partition.log if event.end_offset is None else partition.log.truncated(event.end_offset)
            log = log.elected(event.epoch)
            return attrs.evolve(partition, broker_id=event.broker_id, log=log, copy_stopped=False, runs={}), ()
    run = _under_way(partition, event.task)
    return _failed(partition, run, event) if isinstance(event, Failed) else _done(partition, run, event)


def _under_way(partition: Partition, task: Task) -> _Run:
    run = partition.runs.get(task)
    if run is None:
        raise ValueError(f"the {task.value} task has no command under way")
    return run


def _throttled(partition: Partition) -> Partition:
    step = _under_way(partition, Task.COPY).step
    if step is not _Step.STORE_STARTED:
        raise ValueError(f"the quota does not stop the step {step.value!r}")
    return partition.with_run(Task.COPY, None)


def _run_copy(partition: Partition, event: RunCopy) -> _Stepped:
    if Task.COPY in partition.runs or partition.copy_stopped:
        return partition, ()
    partition = partition.with_seeded_log()
    bases = copy_task.candidates(partition.log, partition.log.highest_remote_offset, event.now_ms)
    return _next_copy(partition, tuple(zip(bases, event.ids, strict=False)), event.now_ms)


def _next_copy(partition: Partition, copies: tuple[tuple[int, UUID], ...], now_ms: int) -> _Stepped:
    if not copies:
        return partition.with_run(Task.COPY, None), ()
    (base_offset, segment_id), *waiting = copies
    number = _number_of(partition.log, base_offset)
    if number is None:
        return partition.with_run(Task.COPY, None), ()
    segment = copy_task.started_copy(partition.tip, partition.log, number, segment_id, partition.broker_id, now_ms)
    run = _Run(_Step.STORE_STARTED, segment, copies=tuple(waiting))
    return _command(partition, Task.COPY, run, now_ms)


def _number_of(log: PartitionLog, base_offset: int) -> int | None:
    """A segment's place; ``None`` after DeleteRecords removed it, which ends a copy run."""
    return next((number for number, segment in enumerate(log.segments) if segment.base_offset == base_offset), None)


def _run_expiration(partition: Partition, event: RunExpiration) -> _Stepped:
    if Task.EXPIRATION in partition.runs:
        return partition, ()
    partition = partition.with_seeded_log()
    copying = partition.runs.get(Task.COPY)
    segment = None if copying is None else copying.segment
    found = expiration_task.expired(partition.log, partition.remote, event.now_ms, segment)
    if found.log_start > partition.log.high_watermark:
        return partition, ()  # Kafka's OffsetOutOfRangeException ends the run: the next one tries again
    partition = attrs.evolve(partition, log=partition.log.with_log_start(found.log_start))
    return _next_deletion(partition, Task.EXPIRATION, found.segments, event.now_ms)


def _next_deletion(partition: Partition, task: Task, deletions: tuple[RemoteLogSegmentMetadata, ...], now_ms: int) -> _Stepped:
    if not deletions:
        return partition.with_run(task, None), ()
    segment, *waiting = deletions
    return _command(partition, task, _Run(_Step.STORE_DELETING, segment, deletions=tuple(waiting)), now_ms)


def _command(partition: Partition, task: Task, run: _Run, now_ms: int) -> _Stepped:
    """The partition whose task is at this step, with the step's command."""
    partition = partition.with_run(task, run)
    command: Command
    if run.step is _Step.STORE_STARTED:
        command = StoreMetadata(task, run.segment)
    elif run.step is _Step.COPY:
        number = _number_of(partition.log, run.segment.start_offset)
        if number is None:
            return partition.with_run(task, None), ()
        command = CopyObjects(task, run.segment, segment_files(partition.log, number))
    elif run.step is _Step.REMOVE:
        command = RemoveObjects(task, run.segment)
    else:
        command = StoreMetadata(task, _update(partition, run, now_ms))
    return partition, (command,)


def _update(partition: Partition, run: _Run, now_ms: int) -> SegmentUpdate:
    segment = run.segment
    return SegmentUpdate(
        segment.remote_log_segment_id, partition.broker_id, now_ms, _UPDATES[run.step], segment.custom_metadata
    )


def _done(partition: Partition, run: _Run, event: Done) -> _Stepped:
    if run.step is _Step.COPY:
        custom = event.custom_metadata
        run = attrs.evolve(run, segment=attrs.evolve(run.segment, custom_metadata=custom))
        if custom is not None and len(custom) > partition.custom_metadata_bytes:
            return _next_deletion(attrs.evolve(partition, copy_stopped=True), event.task, (run.segment,), event.now_ms)
    if run.step in _NEXT:
        return _command(partition, event.task, attrs.evolve(run, step=_NEXT[run.step]), event.now_ms)
    if run.step is _Step.STORE_DELETED:
        return _next_deletion(partition, event.task, run.deletions, event.now_ms)
    log = attrs.evolve(partition.log, highest_remote_offset=run.segment.end_offset)
    return _next_copy(attrs.evolve(partition, log=log), run.copies, event.now_ms)


def _failed(partition: Partition, run: _Run, event: Failed) -> _Stepped:
    if run.step is _Step.COPY and not event.retriable:
        return _next_deletion(partition, event.task, (run.segment,), event.now_ms)
    return partition.with_run(event.task, None), ()
