"""Carries out a plan: copies the logs, checks every batch, writes Kafka's files beside them, and tells the node of its topics.

Theory of operation. Each step leaves files that are whole or absent, so a restore that was killed continues with the same
command: what was copied is read and checked again, but not copied again. The nodes' metadata change last. The folder of a
partition's first replica gets the segments from the store, those of the others are copies of that one.

References: docs/restore.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.model import AbortedTransaction, TopicPartition, uuid_to_text
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.producer_snapshot import producer_ids
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.restore import files
from kafka_remote_client.restore.bootstrap_checkpoint import RestoredPartition, RestoredTopic, metadata_records, with_records
from kafka_remote_client.restore.copied_log import CutFinder, ProducersSeen, check_log
from kafka_remote_client.restore.node_folder import NodeFolder, sync, writing
from kafka_remote_client.restore.partition_tier import read_snapshot
from kafka_remote_client.restore.replica_assignment import ReplicaAssignment
from kafka_remote_client.restore.restore_plan import PartitionPlan, RestorePlan
from kafka_remote_client.restore.topic_configs import TopicConfigs, is_compacted
from kafka_remote_client.verify.stored_segment import PlainLog

__all__ = ["PRODUCER_ID_MARGIN", "Restored", "Restorer"]

PRODUCER_ID_MARGIN = 1_000_000
"""Producer ids left out above the highest in the tier: the lost cluster may have given them to producers that still run."""
_NEW_TOPIC_EPOCH = 0


@attrs.frozen
class Restored:
    """What a finished restore leaves to do. ``hanging`` has the partitions with transactions to abort."""

    hanging: Mapping[TopicPartition, tuple[AbortedTransaction, ...]]
    next_producer_id: int
    copied_bytes: int


class Restorer:
    """One restore of one plan without refusals."""

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        plan: RestorePlan,
        configs: TopicConfigs,
        *,
        jobs: int = 4,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``jobs``: segments that are copied at a time. ``say`` gets a line for each partition. Raises RestoreError."""
        if plan.refusals:
            raise RestoreError(f"the plan is refused: {plan.refusals[0]}")
        self._store = store
        self._logs = layout.original_logs(store)
        self._layout = layout
        self._plan = plan
        self._configs = configs
        self._jobs = jobs
        self._say = say
        self._copied = 0

    def run(self, *targets: Path) -> Restored:
        """Restores into the log folders of formatted nodes of one cluster, or continues to.

        Raises RestoreError, and what the store raises.
        """
        with ExitStack() as opened:
            folders = _by_node([opened.enter_context(NodeFolder.opened(target)) for target in targets])
            replicas = self._replicas(folders)
            fingerprint = self._fingerprint(replicas)
            placed = {node: [one for one in self._plan.partitions if node in replicas[one.name]] for node in folders}
            for node, folder in folders.items():
                wanted = sum(one.nbytes for one in placed[node])
                with writing(folder.path):
                    begun = folder.begin(fingerprint, [str(one.name) for one in placed[node]])
                if not begun and folder.free_bytes() < wanted:
                    raise RestoreError(f"{folder.path} has {folder.free_bytes()} bytes free, the logs have {wanted}")
            highest, hanging = -1, {}
            for partition in self._plan.partitions:
                leader, *others = (folders[node] for node in replicas[partition.name])
                with writing(leader.path):
                    seen = self._partition(leader, partition)
                for other in others:
                    with writing(other.path):
                        other.take(str(partition.name), leader)
                highest = max(highest, seen.highest_id, *self._snapshot_ids(partition))
                found = seen.hanging if partition.hanging is None else partition.hanging
                if found:
                    hanging[partition.name] = found
                self._say(f"{partition.name}: {len(partition.segments)} segments, offsets to {partition.end}")
            next_id = highest + 1 + PRODUCER_ID_MARGIN
            directories = {node: folder.node.directory_id for node, folder in folders.items()}
            records = metadata_records(self._topics(replicas), directories, next_id)
            for node, folder in folders.items():
                starts = {one.name: one.log_start for one in placed[node] if one.log_start}
                with writing(folder.path):
                    for one in placed[node]:
                        folder.move(str(one.name))
                    folder.finish(files.log_start_checkpoint(starts), lambda formatted: with_records(formatted, records))
        return Restored(hanging, next_id, self._copied)

    def _replicas(self, folders: Mapping[int, NodeFolder]) -> ReplicaAssignment:
        """The nodes of each partition. Raises RestoreError if not all of them have a folder."""
        names = [*(one.name for one in self._plan.partitions), *self._plan.empty]
        if self._plan.assignment is None:
            if len(folders) > 1:
                raise RestoreError("several folders need an assignment of partitions to nodes")
            return dict.fromkeys(names, tuple(folders))
        for name in names:
            for node in self._plan.assignment[name]:
                if node not in folders:
                    raise RestoreError(f"the assignment places {name} on node {node}, and no folder given is of that node")
        return self._plan.assignment

    def _partition(self, folder: NodeFolder, plan: PartitionPlan) -> ProducersSeen:
        place = folder.partition(str(plan.name))
        with ThreadPoolExecutor(self._jobs, thread_name_prefix="restore") as pool:
            fresh = list(pool.map(lambda segment: self._copy(place, segment), plan.segments))
        copied = (one.stat().st_size for one in fresh if one is not None)
        self._copied += sum(copied)
        seen = ProducersSeen()
        gaps = is_compacted(self._configs[plan.tip.topic])
        for segment, unchecked in zip(plan.segments, fresh, strict=True):
            log = place / files.log_file(segment.start)
            if unchecked is not None and _is_cut(segment):
                _cut(unchecked, segment, allow_offset_gaps=gaps)
            check_log(unchecked or log, segment, [seen], allow_offset_gaps=gaps, whole=False)
            if unchecked is not None:
                unchecked.rename(log)
        contents = {
            files.PARTITION_METADATA: files.partition_metadata(plan.tip.topic_id),
            files.LEADER_EPOCHS: files.leader_epoch_checkpoint(plan.epochs),
            files.log_file(plan.end): b"",  # the active segment, so that the restored ones are closed
        }
        snapshot = read_snapshot(self._store, self._layout, plan.segments[-1])
        if snapshot is not None:
            contents[files.snapshot_file(plan.end)] = snapshot
        for name, data in contents.items():
            if not (place / name).exists():
                folder.write_new(place / name, data)
        return seen

    def _copy(self, place: Path, segment: TieredSegment) -> Path | None:
        """The copy of a whole segment, not checked yet; None if an earlier run has copied and checked it."""
        log = place / files.log_file(segment.start)
        if log.exists():
            return None
        unchecked = log.with_suffix(".part")
        metadata = segment.metadata
        source = PlainLog(self._logs, self._layout.object_key(metadata, ObjectKind.LOG), metadata.segment_size_in_bytes)
        with unchecked.open("wb") as file:
            position = 0
            while position < source.size and (piece := source.read(position)):
                file.write(piece)
                position += len(piece)
            file.flush()
            sync(file.fileno())
        if position != source.size:
            raise RestoreError(f"{source.key} has {position} bytes, expected {source.size}")
        return unchecked

    def _snapshot_ids(self, plan: PartitionPlan) -> list[int]:
        data = read_snapshot(self._store, self._layout, plan.segments[-1])
        return [-1] if data is None else [-1, *producer_ids(data)]

    def _topics(self, replicas: ReplicaAssignment) -> list[RestoredTopic]:
        topics = []
        for name, topic_id in self._plan.topic_ids.items():
            epochs = {one.tip.partition: one.leader_epoch for one in self._plan.partitions if one.tip.topic == name}
            epochs |= {one.partition: _NEW_TOPIC_EPOCH for one in self._plan.empty if one.topic == name}
            partitions = tuple(
                RestoredPartition(number, epoch, replicas[TopicPartition(name, number)])
                for number, epoch in sorted(epochs.items())
            )
            topics.append(RestoredTopic(name, topic_id, partitions, self._configs[name]))
        return topics

    def _fingerprint(self, replicas: ReplicaAssignment) -> dict[str, Any]:
        """What must be equal for an unfinished restore to continue."""
        return {
            "replicas": {str(name): list(nodes) for name, nodes in replicas.items()},
            "empty": [str(one) for one in self._plan.empty],
            "configs": {name: dict(self._configs[name]) for name in self._plan.topic_ids},
            "partitions": [
                {
                    "partition": str(one.tip),
                    "log_start": one.log_start,
                    "segments": [[_id(segment), segment.start, segment.end] for segment in one.segments],
                }
                for one in self._plan.partitions
            ],
        }


def _by_node(folders: Sequence[NodeFolder]) -> dict[int, NodeFolder]:
    """Raises RestoreError unless these are folders of different nodes of one cluster."""
    found: dict[int, NodeFolder] = {}
    for folder in folders:
        other = found.setdefault(folder.node.node_id, folder)
        if other is not folder:
            raise RestoreError(f"{other.path} and {folder.path} are both of node {folder.node.node_id}")
        if folder.node.cluster_id != folders[0].node.cluster_id:
            raise RestoreError(f"{folders[0].path} and {folder.path} are of different clusters")
    return found


def _id(segment: TieredSegment) -> str:
    return uuid_to_text(segment.metadata.remote_log_segment_id.id)


def _is_cut(segment: TieredSegment) -> bool:
    """Whether only a part of the segment belongs to the log."""
    return segment.start != segment.metadata.start_offset or not segment.is_whole


def _cut(path: Path, segment: TieredSegment, *, allow_offset_gaps: bool) -> None:
    """Leaves of a whole segment's copy the offsets that belong to the log. Raises RestoreError where a batch is in the way."""
    finder = CutFinder(segment.start, segment.end)
    check_log(path, segment, [finder], allow_offset_gaps=allow_offset_gaps, whole=True)
    if finder.through is not None:
        where = f"segment {segment.metadata.remote_log_segment_id} at offset {finder.through}"
        raise RestoreError(f"cannot cut {where}: a batch holds offsets on both sides; choose another copy")
    start, end = finder.kept
    rest = path.with_suffix(".cut")
    with path.open("rb") as whole, rest.open("wb") as file:
        whole.seek(start)
        left = end - start
        while left and (piece := whole.read(min(left, 1 << 22))):
            file.write(piece)
            left -= len(piece)
        file.flush()
        sync(file.fileno())
    rest.rename(path)
