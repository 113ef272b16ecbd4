"""Checks a partition's segments as one log: which are live, which are dead and why, and which offsets are missing. Pure.

References: Kafka's RemoteLogMetadataCache (which copy of the same offsets is read), docs/verify.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from kafka_remote_client.model import (
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    uuid_to_text,
)
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.verify.finding import FindingKind, Problem

__all__ = ["chain_problems", "gaps", "lineage_of"]


def lineage_of(
    lineages: Sequence[tuple[RemoteLogSegmentMetadata, LeaderEpochLineage]], segments: Sequence[RemoteLogSegmentMetadata]
) -> LeaderEpochLineage | None:
    """Returns the log's lineage: the most complete checkpoint, extended by the epochs of later segments; None without one."""
    if not lineages:
        return None
    metadata, best = max(lineages, key=lambda pair: (pair[1].entries[-1].epoch, pair[0].end_offset))
    entries = list(best.entries)
    for segment in sorted(segments, key=lambda one: (one.segment_leader_epochs[-1].epoch, one.end_offset)):
        if segment.end_offset <= metadata.end_offset:
            continue
        for entry in segment.segment_leader_epochs:
            if entry.epoch > entries[-1].epoch and entry.start_offset > entries[-1].start_offset:
                entries.append(entry)
    return LeaderEpochLineage(entries)


def chain_problems(
    cache: RemoteLogMetadataCache, lineage: LeaderEpochLineage, suspect: Collection[RemoteLogSegmentId] = ()
) -> Iterator[tuple[RemoteLogSegmentMetadata, Problem]]:
    """Returns the finished segments that are outside of the log, or only partly in it.

    ``suspect``: segments with another problem. They are left out, and so are segments that overlap with one of them.
    """
    chain = list(TieredLog(cache, lineage).all_segments())
    used = {part.metadata.remote_log_segment_id: part for part in reversed(chain)}  # the first part of each
    for metadata in cache.list_all_remote_log_segments():
        segment_id = metadata.remote_log_segment_id
        if metadata.state is not RemoteLogSegmentState.COPY_SEGMENT_FINISHED or segment_id in suspect:
            continue
        part = used.get(segment_id)
        agreed = _first_agreed(metadata, lineage)
        if part is None:
            yield metadata, _dead(metadata, agreed, lineage, chain)
        elif agreed is not None and part.start > agreed:
            holders = _holders(chain, agreed, part.start - 1)
            if not suspect or not any(holder.metadata.remote_log_segment_id in suspect for holder in holders):
                words = (
                    f"live from offset {part.start} on; offsets {agreed} to {part.start - 1} are read from {_names(holders)}"
                )
                yield metadata, Problem(FindingKind.OVERLAP, words, offset=agreed)


def gaps(
    cache: RemoteLogMetadataCache,
    lineage: LeaderEpochLineage,
    explained: Collection[int],
    suspect: Collection[RemoteLogSegmentId] = (),
) -> Iterator[tuple[TieredSegment, Problem]]:
    """Returns offsets between two live segments that no segment holds, each with the segment before them.

    ``explained``: start offsets of segments with another finding. ``suspect``: their ids. A gap that contains or touches one of
    them is not reported again.
    """
    for before, after in pairwise(TieredLog(cache, lineage).all_segments()):
        adjacent = any(one.metadata.remote_log_segment_id in suspect for one in (before, after))
        if before.end < after.start and not adjacent and not any(before.end <= start < after.start for start in explained):
            words = f"offsets {before.end} to {after.start - 1} are in no segment"
            yield before, Problem(FindingKind.OFFSET_GAP, words, offset=before.end, size=0)


def _dead(
    metadata: RemoteLogSegmentMetadata, agreed: int | None, lineage: LeaderEpochLineage, chain: Sequence[TieredSegment]
) -> Problem:
    start, end = metadata.start_offset, metadata.end_offset
    if agreed is None:
        epochs = ", ".join(str(entry.epoch) for entry in metadata.segment_leader_epochs)
        written = ", ".join(str(epoch) for epoch in _epochs_of(lineage, start, end)) or "not known any more"
        words = f"it has leader epochs {epochs} for offsets {start} to {end}; in today's log their epochs are {written}"
        return Problem(FindingKind.OUTSIDE_LINEAGE, words)
    holders = _holders(chain, agreed, end)
    words = f"its offsets {agreed} to {end} are read from {_names(holders)}" if holders else "no reader uses it"
    return Problem(FindingKind.DUPLICATE, f"dead: {words}", offset=agreed)


def _epochs_of(lineage: LeaderEpochLineage, start: int, end: int) -> Iterator[int]:
    for at, entry in enumerate(lineage.entries):
        following = lineage.entries[at + 1].start_offset if at + 1 < len(lineage.entries) else end + 1
        if entry.start_offset <= end and following > start:
            yield entry.epoch


def _first_agreed(metadata: RemoteLogSegmentMetadata, lineage: LeaderEpochLineage) -> int | None:
    """The first offset of the segment that belongs to the log; None where no offset does."""
    bounds: list[EpochEntry] = [*metadata.segment_leader_epochs, *lineage]
    starts = {metadata.start_offset} | {entry.start_offset for entry in bounds}
    for offset in sorted(starts):
        if metadata.start_offset <= offset <= metadata.end_offset and (
            metadata.epoch_for_offset(offset) == lineage.epoch_for_offset(offset)
        ):
            return offset
    return None


def _holders(chain: Sequence[TieredSegment], start: int, end: int) -> list[TieredSegment]:
    return [part for part in chain if part.start <= end and start < part.end]


def _names(parts: Sequence[TieredSegment]) -> str:
    return ", ".join(uuid_to_text(part.metadata.remote_log_segment_id.id) for part in parts)
