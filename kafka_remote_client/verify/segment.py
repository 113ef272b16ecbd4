"""Checks one segment: reads its objects, compares them with each other, and locates every problem.

The sources of claims about a segment are, in this order: the metadata topic, the segment's manifest, its checkpoint. Claims of
two sources are compared. If the log is walked, the batches decide.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import CorruptIndexError
from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    AbortedTransaction,
    EpochEntry,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.remote_log.time_index import NO_TIMESTAMP, TimeIndex
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from kafka_remote_client.verify.finding import Finding, FindingKind, Problem
from kafka_remote_client.verify.index_kinds import MISMATCH, UNREADABLE
from kafka_remote_client.verify.leader_epochs import EpochClaim, LeaderEpochsCheck
from kafka_remote_client.verify.log_walk import LogEnd, LogWalk
from kafka_remote_client.verify.offset_index import OffsetIndexCheck
from kafka_remote_client.verify.stored_segment import (
    LOG,
    LayoutInspector,
    LogSource,
    OpenSegment,
    StoredSegment,
    draft_metadata,
)
from kafka_remote_client.verify.time_index import TimeIndexCheck
from kafka_remote_client.verify.transactions import TransactionsCheck

__all__ = ["SegmentReport", "check_segment", "finding_of"]

_EVERY_POSITION = 2**63 - 1
_OBJECT_OF = {kind: index for table in (UNREADABLE, MISMATCH) for index, kind in table.items()}


@attrs.frozen
class SegmentReport:
    """The result for a segment. ``lineage``: that of a valid checkpoint. ``closed``: why the segment was not checked.

    ``described``: the segment's metadata without the metadata topic; None if its epochs are unknown. If its end is unknown,
    ``open_lineage`` is the lineage that its epochs are cut from later.
    """

    stored: StoredSegment
    findings: tuple[Finding, ...] = ()
    lineage: LeaderEpochLineage | None = None
    closed: str | None = None
    described: RemoteLogSegmentMetadata | None = None
    open_lineage: LeaderEpochLineage | None = None

    def ending_before(self, next_start: int | None) -> RemoteLogSegmentMetadata | None:
        """Returns ``described``. A segment with an unknown end ends where the next one starts, if there is one."""
        if self.described is None or self.open_lineage is None or next_start is None:
            return self.described
        start, end = self.described.start_offset, max(self.described.end_offset, next_start - 1)
        epochs = tuple(_within(self.open_lineage, start, end))
        return attrs.evolve(self.described, end_offset=end, segment_leader_epochs=epochs)


@attrs.define
class _Indexes:
    """The readable files of the segment other than the log."""

    offsets: OffsetIndex | None = None
    times: TimeIndex | None = None
    transactions: TransactionIndex | None = None
    lineage: LeaderEpochLineage | None = None
    snapshot: tuple[AbortedTransaction, ...] | None = None


def check_segment(
    inspector: LayoutInspector,
    store: RemoteObjectStore,
    stored: StoredSegment,
    claim: RemoteLogSegmentMetadata | None,
    *,
    quick: bool = False,
    allow_offset_gaps: bool = False,
) -> SegmentReport:
    """Checks a segment of which no object is missing. ``quick``: does not read the log.

    ``claim``: the segment in the metadata topic. Raises RemoteStorageError kinds, ObjectNotFoundError for an object that was
    deleted after the listing, and MissingExtraError.
    """
    opened = inspector.open(store, stored, claim, log=not quick)
    if claim is not None and opened.described is not None:
        _compare(claim, opened.described, opened)
    best = claim or opened.described
    indexes = _parse(opened, stored, best)
    if claim is not None and claim.txn_index_empty and indexes.transactions:
        entries = len(indexes.transactions)
        words = f"the metadata topic says that the transaction index is empty, so readers skip its {entries} entries"
        opened.report(opened.roles[ObjectKind.TRANSACTION_INDEX], FindingKind.METADATA_MISMATCH, words)
    claims = _claims(claim, opened.described, indexes.lineage)
    end: LogEnd | None = None
    if opened.log is not None:
        end = _walk(opened, opened.log, stored, best, indexes, claims, allow_offset_gaps=allow_offset_gaps)
    else:
        _compare_without_log(opened, indexes, best)
    whole = end is not None and end.whole and end.batches > 0
    last = _last_offset(stored, indexes, end if whole else None) if best is None else best.end_offset
    # It may begin inside the segment: DeleteRecords moved the log's start there before the upload.
    if indexes.lineage is not None and indexes.lineage.epoch_for_offset(last) == UNKNOWN_EPOCH:
        words = f"{indexes.lineage} has no epoch for the segment's last offset {last}"
        opened.report(opened.roles[ObjectKind.LEADER_EPOCH], FindingKind.LEADER_EPOCHS_MISMATCH, words)
        indexes.lineage = None
    findings = tuple(finding_of(stored, role, problem) for role, problem in opened.problems)
    suspect = {FindingKind.LEADER_EPOCHS_MISMATCH, FindingKind.LEADER_EPOCHS_UNREADABLE}
    sound = indexes.lineage if suspect.isdisjoint(finding.kind for finding in findings) else None
    described = opened.described or _derived(stored, indexes, last)
    open_end = opened.described is None and not whole
    return SegmentReport(stored, findings, sound, opened.closed, described, indexes.lineage if open_end else None)


def finding_of(stored: StoredSegment, role: str | None, problem: Problem) -> Finding:
    """Returns a finding for a problem of the object in that role, or of the segment as a whole."""
    size = stored.nbytes if role is None else stored.sizes.get(role, 0)
    return Finding(
        kind=problem.kind,
        message=problem.message,
        bytes=size if problem.size is None else problem.size,
        topic_id_partition=stored.listed.topic_id_partition,
        segment_id=stored.listed.remote_log_segment_id,
        start_offset=stored.listed.start_offset,
        object_key=None if role is None else stored.keys.get(role),
        position=problem.position,
        offset=problem.offset,
    )


def _parse(opened: OpenSegment, stored: StoredSegment, best: RemoteLogSegmentMetadata | None) -> _Indexes:
    start = stored.listed.start_offset
    end = MAX_OFFSET - 1 if best is None else best.end_offset
    found = _Indexes()
    for kind, data in opened.indexes.items():
        try:
            if kind is ObjectKind.OFFSET_INDEX:
                found.offsets = OffsetIndex(data, start)
            elif kind is ObjectKind.TIME_INDEX:
                found.times = TimeIndex(data, start)
            elif kind is ObjectKind.TRANSACTION_INDEX:
                found.transactions = TransactionIndex.parse(data, start, end)
            elif kind is ObjectKind.LEADER_EPOCH:
                found.lineage = parse_leader_epoch_checkpoint(data)
            else:
                found.snapshot = open_transactions(data)
        except CorruptIndexError as error:
            opened.report(opened.roles[kind], UNREADABLE[kind], str(error))
    if ObjectKind.TRANSACTION_INDEX not in opened.indexes and not opened.problems:
        found.transactions = TransactionIndex()  # Kafka writes none that would be empty
    return found


def _claims(
    claim: RemoteLogSegmentMetadata | None, described: RemoteLogSegmentMetadata | None, checkpoint: LeaderEpochLineage | None
) -> list[EpochClaim]:
    claims = []
    for by, told in (("the metadata topic", claim), ("the manifest", described)):
        if told is not None:
            claims.append(EpochClaim(by, FindingKind.METADATA_MISMATCH, LeaderEpochLineage(told.segment_leader_epochs)))
    if checkpoint is not None:
        claims.append(EpochClaim("the checkpoint", FindingKind.LEADER_EPOCHS_MISMATCH, checkpoint))
    return claims


def _walk(
    opened: OpenSegment,
    source: LogSource,
    stored: StoredSegment,
    best: RemoteLogSegmentMetadata | None,
    indexes: _Indexes,
    claims: list[EpochClaim],
    *,
    allow_offset_gaps: bool,
) -> LogEnd:
    start = stored.listed.start_offset
    offsets = OffsetIndexCheck(indexes.offsets or OffsetIndex(b"", start))
    times = TimeIndexCheck(indexes.times or TimeIndex(b"", start))
    transactions = TransactionsCheck(indexes.transactions, indexes.snapshot, start, compacted=allow_offset_gaps)
    epochs = LeaderEpochsCheck(claims)
    walk = LogWalk(
        source,
        start,
        MAX_OFFSET - 1 if best is None else best.end_offset,
        array("i", (entry.position for entry in indexes.offsets or ())),
        allow_offset_gaps,
    )
    end = walk.run([offsets, times, transactions, epochs])
    problems = [p for p in walk.problems if opened.log_end_known or p.kind is not FindingKind.LOG_CUT]
    cut = not opened.log_end_known or any(p.kind is FindingKind.LOG_CUT for p in problems)
    behind = sum(check.ends_before_index for check in (offsets, times, transactions))
    if end.whole and best is None and behind > 1:
        cut = True
        problems.append(
            Problem(FindingKind.LOG_CUT, f"the log ends at offset {end.next_offset - 1}, before {behind} of its indexes")
        )
    if cut:  # index entries for the bytes after the cut are no problem
        for check in (offsets, times, transactions):
            check.lost(source.size, _EVERY_POSITION, end.next_offset, MAX_OFFSET)
    problems += offsets.problems() + transactions.problems() + epochs.problems()
    if indexes.times is not None:
        problems += times.problems()
    opened.problems.extend((_role(opened, problem), problem) for problem in problems)
    if best is not None and end.whole and not cut:
        _compare_end(opened, best, end, times.highest, allow_offset_gaps=allow_offset_gaps)
    return end


def _role(opened: OpenSegment, problem: Problem) -> str:
    index = _OBJECT_OF.get(problem.kind)
    return LOG if index is None else opened.roles.get(index, LOG)


def _compare_end(
    opened: OpenSegment, best: RemoteLogSegmentMetadata, end: LogEnd, highest: int, *, allow_offset_gaps: bool
) -> None:
    last = end.next_offset - 1
    if last != best.end_offset and not allow_offset_gaps:
        words = f"the log ends at offset {last}; the metadata says {best.end_offset}"
        opened.report(LOG, FindingKind.METADATA_MISMATCH, words)
    # For a segment whose records have no timestamps, the broker reports when its file was last written
    if highest != NO_TIMESTAMP and best.max_timestamp_ms not in {highest, NO_TIMESTAMP}:
        words = f"the highest timestamp in the log is {highest}; the metadata says {best.max_timestamp_ms}"
        opened.report(LOG, FindingKind.METADATA_MISMATCH, words)


def _compare(claim: RemoteLogSegmentMetadata, described: RemoteLogSegmentMetadata, opened: OpenSegment) -> None:
    """Compares metadata topic and manifest. The batches check the epochs, the inspector checks the sizes."""
    for name in ("start_offset", "end_offset", "max_timestamp_ms"):
        by_topic, by_manifest = getattr(claim, name), getattr(described, name)
        if by_topic != by_manifest:
            words = f"{name} is {by_topic} in the metadata topic and {by_manifest} in the manifest"
            opened.report("manifest", FindingKind.METADATA_MISMATCH, words)


def _compare_without_log(opened: OpenSegment, indexes: _Indexes, best: RemoteLogSegmentMetadata | None) -> None:
    if best is None:
        return
    if indexes.offsets is not None:
        try:
            indexes.offsets.check_against(best.end_offset, best.segment_size_in_bytes)
        except CorruptIndexError as error:
            opened.report(opened.roles[ObjectKind.OFFSET_INDEX], FindingKind.OFFSET_INDEX_MISMATCH, str(error))
    last_time = NO_TIMESTAMP if indexes.times is None else indexes.times.last_entry().timestamp
    if last_time not in {NO_TIMESTAMP, best.max_timestamp_ms}:
        words = f"its last entry has the timestamp {last_time}, the metadata {best.max_timestamp_ms}"
        opened.report(opened.roles[ObjectKind.TIME_INDEX], FindingKind.TIME_INDEX_MISMATCH, words)
    if indexes.lineage is not None:
        cut = tuple(_within(indexes.lineage, best.start_offset, best.end_offset))
        if cut != tuple(LeaderEpochLineage(best.segment_leader_epochs)):
            words = f"{indexes.lineage} has {cut} for the segment, the metadata {best.segment_leader_epochs}"
            opened.report(opened.roles[ObjectKind.LEADER_EPOCH], FindingKind.LEADER_EPOCHS_MISMATCH, words)


def _last_offset(stored: StoredSegment, indexes: _Indexes, end: LogEnd | None) -> int:
    """Returns the segment's last offset by its files. Without ``end`` the indexes give a lower bound."""
    if end is not None:
        return end.next_offset - 1
    last = stored.listed.start_offset
    for index in (indexes.offsets, indexes.times):
        last = max(last, index.last_entry().offset if index is not None else last)
    return last


def _derived(stored: StoredSegment, indexes: _Indexes, last: int) -> RemoteLogSegmentMetadata | None:
    """Returns metadata from the files, if no object describes the segment, which ends at the offset ``last``."""
    if indexes.lineage is None:
        return None
    draft = draft_metadata(stored.listed, stored.sizes.get(LOG, 0))
    epochs = tuple(_within(indexes.lineage, draft.start_offset, last))
    copying = RemoteLogSegmentState.COPY_SEGMENT_STARTED
    return attrs.evolve(draft, end_offset=last, segment_leader_epochs=epochs, state=copying)


def _within(lineage: LeaderEpochLineage, start: int, end: int) -> Iterator[EpochEntry]:
    """Returns the lineage cut to a segment."""
    first = lineage.epoch_for_offset(start)
    if first != UNKNOWN_EPOCH:
        yield EpochEntry(first, start)
    for entry in lineage:
        if start < entry.start_offset <= end:
            yield entry
