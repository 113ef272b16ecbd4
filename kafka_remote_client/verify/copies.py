"""Judges which of a segment's objects exist, given its metadata. Pure.

================ =================== =================================================== ==========================
metadata         all objects there   some there                                          none there
================ =================== =================================================== ==========================
not available    to be checked       half-copied if the last are missing, missing-object unknown
unknown to them  orphan-unknown      orphan-unknown                                      —
copy begun       orphan-unfinished   half-copied                                         nothing: cleaned up
finished         to be checked       missing-object                                      missing-segment
deletion begun   orphan-deleted      orphan-deleted                                      nothing
deleted          orphan-deleted      orphan-deleted                                      nothing
================ =================== =================================================== ==========================

A copy or a deletion that began a short time ago is in progress, which is no finding.

References: KIP-405, RemoteLogSegmentState; docs/verify.md says how unreferenced copies come about.
"""

from __future__ import annotations

from enum import Enum

import attrs

from kafka_remote_client.model import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_remote_client.verify.finding import FindingKind, Problem
from kafka_remote_client.verify.stored_segment import StoredSegment

__all__ = ["CopyState", "Known", "judge_copy"]

_COPYING = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED


class CopyState(Enum):
    """What to do with a segment without a problem so far."""

    CHECK = "check"
    BUSY = "busy"
    """A copy or deletion is in progress."""


@attrs.frozen
class Known:
    """The metadata of one segment. ``metadata`` None: unknown, or finally deleted. Times are ms since the epoch."""

    metadata: RemoteLogSegmentMetadata | None
    deleted: bool
    now_ms: int
    grace_ms: int

    @property
    def is_recent(self) -> bool:
        """Whether its last event is younger than the grace."""
        return self.metadata is not None and self.now_ms - self.metadata.event_timestamp_ms < self.grace_ms


def judge_copy(stored: StoredSegment, known: Known | None) -> Problem | CopyState:
    """Returns the problem of a segment, or what to do with it. ``known`` None: the metadata are not available."""
    missing = ", ".join(stored.missing)
    if known is None or (known.metadata is not None and known.metadata.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED):
        if not missing:
            return CopyState.CHECK
        half = known is None and stored.is_front
        return Problem(FindingKind.HALF_COPIED if half else FindingKind.MISSING_OBJECT, f"it lacks: {missing}")
    if known.is_recent:
        return CopyState.BUSY
    state = None if known.metadata is None else known.metadata.state
    if state is _COPYING:
        if missing:
            return Problem(FindingKind.HALF_COPIED, f"its copy began and never finished; it lacks: {missing}")
        return Problem(FindingKind.ORPHAN_UNFINISHED, "its copy began, but the metadata topic never said that it finished")
    if state is _DELETING:
        return Problem(FindingKind.ORPHAN_DELETED, "its deletion began and never finished")
    if known.deleted:
        return Problem(FindingKind.ORPHAN_DELETED, "the metadata topic says that it is deleted")
    return Problem(FindingKind.ORPHAN_UNKNOWN, "the metadata topic has no record of it")
