"""Makes the objects of a tiered segment from record batches, as a broker does while it appends and rolls. Pure.

============================ =================================================================================
object                       content
============================ =================================================================================
``.log``                     the batches, unchanged
``.index``                   last offset and position of a batch, after each interval of appended bytes
``.timeindex``               highest timestamp so far and last offset of its batch, at the same moments and at the end
``.leader_epoch_checkpoint`` the lineage up to the segment's end
``.snapshot``                no producers: the embedded broker has no transactions
============================ =================================================================================

There is no transaction index. The modules of ``remote_log`` that read the files describe their formats.

References: Kafka's LogSegment (append, onBecomeInactiveSegment), RemoteLogManager.copyLogSegment.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import attrs
import crc32c

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from kafka_remote_client.records.batch import BatchHeader
from kafka_remote_client.records.input_stream import RemoteLogInputStream
from kafka_remote_client.remote_log.layout import ObjectKind

__all__ = ["SegmentFiles", "segment_files"]

_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_NO_PRODUCERS = struct.pack(">i", 0)
_SNAPSHOT = struct.pack(">hI", 1, crc32c.crc32c(_NO_PRODUCERS)) + _NO_PRODUCERS
_NO_TIMESTAMP = -1


@attrs.frozen
class SegmentFiles:
    """A segment's metadata, in state COPY_SEGMENT_STARTED, and its objects."""

    metadata: RemoteLogSegmentMetadata
    objects: Mapping[ObjectKind, bytes] = attrs.field(repr=False)


def segment_files(
    segment_id: RemoteLogSegmentId,
    log: bytes,
    lineage: Sequence[EpochEntry],
    *,
    broker_id: int,
    event_timestamp_ms: int,
    index_interval: int = 4096,
) -> SegmentFiles:
    """Makes a segment of ``log``: whole batches, at least one. Else raises CorruptRecordError or UnsupportedFormatError."""
    offset_index, time_index = bytearray(), bytearray()
    highest, highest_offset, last_entry = _NO_TIMESTAMP, 0, _NO_TIMESTAMP
    unindexed = 0
    batches = list(RemoteLogInputStream(log))
    base = batches[0].base_offset
    for batch in batches:
        if batch.max_timestamp > highest:
            highest, highest_offset = batch.max_timestamp, batch.last_offset
        if unindexed > index_interval:
            offset_index += _OFFSET_ENTRY.pack(batch.last_offset - base, batch.position)
            if highest > last_entry:
                time_index += _TIME_ENTRY.pack(highest, highest_offset - base)
                last_entry = highest
            unindexed = 0
        unindexed += batch.size
    if highest > last_entry:
        time_index += _TIME_ENTRY.pack(highest, highest_offset - base)
    end = batches[-1].last_offset
    known = [entry for entry in lineage if entry.start_offset <= end]
    metadata = RemoteLogSegmentMetadata(
        remote_log_segment_id=segment_id,
        start_offset=base,
        end_offset=end,
        max_timestamp_ms=highest,
        broker_id=broker_id,
        event_timestamp_ms=event_timestamp_ms,
        segment_leader_epochs=_epochs(batches),
        segment_size_in_bytes=len(log),
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        txn_index_empty=True,
    )
    objects = {
        ObjectKind.LOG: log,
        ObjectKind.OFFSET_INDEX: bytes(offset_index),
        ObjectKind.TIME_INDEX: bytes(time_index),
        ObjectKind.LEADER_EPOCH: _checkpoint(known),
        ObjectKind.PRODUCER_SNAPSHOT: _SNAPSHOT,
    }
    return SegmentFiles(metadata, objects)


def _epochs(batches: Sequence[BatchHeader]) -> tuple[EpochEntry, ...]:
    entries: list[EpochEntry] = []
    for batch in batches:
        if not entries or batch.leader_epoch > entries[-1].epoch:
            entries.append(EpochEntry(batch.leader_epoch, batch.base_offset))
    return tuple(entries)


def _checkpoint(lineage: Sequence[EpochEntry]) -> bytes:
    lines = ["0", str(len(lineage)), *(f"{entry.epoch} {entry.start_offset}" for entry in lineage)]
    return "".join(f"{line}\n" for line in lines).encode("ascii")
