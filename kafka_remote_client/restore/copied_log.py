"""What a restore learns from the batches of the logs that it copied, and where a log is cut. Pure but for the file it reads.

The batches are verified as ``verify`` does it, from the copy on the disk: what came from the store is judged as it was written.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from kafka_remote_client.errors import RestoreError
from kafka_remote_client.model import AbortedTransaction, uuid_to_text
from kafka_remote_client.records import BatchHeader
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.verify.finding import FindingKind
from kafka_remote_client.verify.leader_epochs import EpochClaim, LeaderEpochsCheck
from kafka_remote_client.verify.log_walk import BatchListener, LogWalk
from kafka_remote_client.verify.stored_segment import PIECE_BYTES
from kafka_remote_client.verify.transactions import transaction_marker

__all__ = ["CutFinder", "LogFile", "ProducersSeen", "check_log"]


@attrs.frozen
class LogFile:
    """A LogSource over a file on this machine."""

    path: Path
    size: int

    def read(self, position: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(position)
            return file.read(PIECE_BYTES)


class ProducersSeen:
    """A BatchListener for the segments of a partition, in order: its highest producer id, and what is open at the end."""

    def __init__(self) -> None:
        self.highest_id = -1
        self._open: dict[int, int] = {}

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        self.highest_id = max(self.highest_id, header.producer_id)
        if header.is_transactional and not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
        elif transaction_marker(header, data) is not None:
            self._open.pop(header.producer_id, None)

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        """Damage ends the restore."""

    @property
    def hanging(self) -> tuple[AbortedTransaction, ...]:
        """The transactions without a marker, by first offset."""
        return tuple(AbortedTransaction(producer, first) for producer, first in sorted(self._open.items(), key=lambda t: t[1]))


class CutFinder:
    """A BatchListener that finds the bytes of offsets ``[start, end)``. A cut goes between batches, never through one."""

    def __init__(self, start: int, end: int) -> None:
        self._start, self._end = start, end
        self._first: int | None = None
        self._limit = 0
        self.through: int | None = None

    def batch(self, header: BatchHeader, data: memoryview) -> None:
        for cut in (self._start, self._end):
            if header.base_offset < cut <= header.last_offset:
                self.through = cut
        if self._start <= header.base_offset and header.last_offset < self._end:
            self._first = header.position if self._first is None else self._first
            self._limit = header.end

    def lost(self, start: int, end: int, first_offset: int, last_offset: int) -> None:
        """Damage ends the restore."""

    @property
    def kept(self) -> tuple[int, int]:
        """Start and end of the bytes; both 0 if there are none."""
        return (0, 0) if self._first is None else (self._first, self._limit)


def check_log(
    path: Path, segment: TieredSegment, listeners: list[BatchListener], *, allow_offset_gaps: bool, whole: bool
) -> None:
    """Walks the copy of a segment: its offsets from ``segment.start`` to its end, or all of the segment's own if ``whole``.

    Raises RestoreError unless every batch is sound, follows the one before, and has the segment's leader epoch.
    """
    metadata = segment.metadata
    start, end = (metadata.start_offset, metadata.end_offset + 1) if whole else (segment.start, segment.end)
    claims = [EpochClaim("the metadata", FindingKind.METADATA_MISMATCH, LeaderEpochLineage(metadata.segment_leader_epochs))]
    epochs = LeaderEpochsCheck(claims)
    walk = LogWalk(LogFile(path, path.stat().st_size), start, end - 1, (), allow_offset_gaps)
    reached = walk.run([epochs, *listeners])
    problems = walk.problems + epochs.problems()
    if problems:
        where = "" if problems[0].position is None else f" at byte {problems[0].position}"
        way_out = f"--without-segment {uuid_to_text(metadata.remote_log_segment_id.id)} leaves it out"
        raise RestoreError(f"segment {metadata.remote_log_segment_id} is damaged{where}: {problems[0].message}; {way_out}")
    if reached.next_offset != end and not allow_offset_gaps:
        raise RestoreError(f"segment {metadata.remote_log_segment_id} ends at offset {reached.next_offset}, expected {end}")
