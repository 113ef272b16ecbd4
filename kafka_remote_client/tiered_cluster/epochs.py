"""The leader epochs of a log: which leader wrote which offsets. Kafka's LeaderEpochFileCache, as functions on tuples.

A lineage rises in both fields. Its checkpoint is text: the version ``0``, the number of entries, then epoch and start offset of
each, one entry a line.

References: Kafka's LeaderEpochFileCache, LeaderEpochCheckpointFile, RemoteLogManager.buildFilteredLeaderEpochMap.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_remote_client.model import UNKNOWN_EPOCH, UNKNOWN_OFFSET, EpochEntry

__all__ = [
    "Lineage",
    "assigned",
    "checkpoint",
    "end_offset_of",
    "entries_in_range",
    "epoch_for_offset",
    "truncated_from_end",
    "truncated_from_start",
    "with_records",
]

Lineage = tuple[EpochEntry, ...]


def assigned(lineage: Lineage, epoch: int, start_offset: int) -> Lineage:
    """The lineage with the epoch that begins at ``start_offset``, unless it has that epoch.

    Entries that conflict with it, which are those of later epochs or offsets, are removed.
    """
    if lineage and lineage[-1].epoch == epoch:
        return lineage
    kept = tuple(entry for entry in lineage if entry.epoch < epoch and entry.start_offset < start_offset)
    return (*kept, EpochEntry(epoch, start_offset))


def truncated_from_end(lineage: Lineage, end_offset: int) -> Lineage:
    """Without the epochs that begin at ``end_offset`` or later."""
    return tuple(entry for entry in lineage if entry.start_offset < end_offset)


def truncated_from_start(lineage: Lineage, start_offset: int) -> Lineage:
    """The epoch of ``start_offset`` begins there; earlier ones are removed."""
    earlier = [entry for entry in lineage if entry.start_offset <= start_offset]
    later = tuple(entry for entry in lineage if entry.start_offset > start_offset)
    return (EpochEntry(earlier[-1].epoch, start_offset), *later) if earlier else later


def epoch_for_offset(lineage: Lineage, offset: int) -> int:
    """The epoch that wrote ``offset``; UNKNOWN_EPOCH before the first."""
    return max((entry.epoch for entry in lineage if entry.start_offset <= offset), default=UNKNOWN_EPOCH)


def end_offset_of(lineage: Lineage, epoch: int, end_offset: int) -> tuple[int, int]:
    """The answer to OffsetForLeaderEpoch: the last epoch up to ``epoch``, and where it ends. -1, -1 for an epoch to come.

    ``end_offset``: that of the log. Before the first epoch, the answer is ``epoch`` itself and the first one's start.
    """
    if not lineage or epoch > lineage[-1].epoch or epoch < 0:
        return UNKNOWN_EPOCH, UNKNOWN_OFFSET
    later = next((entry.start_offset for entry in lineage if entry.epoch > epoch), end_offset)
    return max((entry.epoch for entry in lineage if entry.epoch <= epoch), default=epoch), later


def entries_in_range(lineage: Lineage, start_offset: int, end_offset: int) -> Lineage:
    """The entries of ``[start_offset, end_offset)``: the first begins at ``start_offset``."""
    return truncated_from_start(truncated_from_end(lineage, end_offset), start_offset)


def with_records(lineage: Lineage) -> Mapping[int, int]:
    """Start offsets by epoch, without the epochs that wrote nothing. In the order of the epochs."""
    offsets = {entry.start_offset: entry.epoch for entry in lineage}  # of epochs that begin at one offset, the last wrote there
    return {epoch: offset for offset, epoch in offsets.items()}


def checkpoint(lineage: Lineage) -> bytes:
    """The file ``leader-epoch-checkpoint``."""
    lines = ["0", str(len(lineage)), *(f"{entry.epoch} {entry.start_offset}" for entry in lineage)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")
