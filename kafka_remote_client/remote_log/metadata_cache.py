"""The segments of one partition, from the events of ``__remote_log_metadata``.

Theory of operation. Each attempt to copy a segment has its own id and these states; every other transition is refused::

    none ──► COPY_SEGMENT_STARTED ──► COPY_SEGMENT_FINISHED ──► DELETE_SEGMENT_STARTED ──► DELETE_SEGMENT_FINISHED
                     └──────────────────────────────────────────────────▲          (any state may be repeated)

Events of a compacted topic (KIP-1266) may be missing, so events with a key may skip states, but not go back. The first event of
a segment with all its fields may have any state. An update of an unknown segment is dropped, because it has no start offset. A
tombstone removes its segments.

Only a finished copy can be read. A look-up needs leader epoch and offset, because after an unclean election two segments may
have different records with the same offsets, and only the epoch tells them apart.

References: Kafka's RemoteLogMetadataCache; KIP-405, "RemoteLogSegmentState".
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from uuid import UUID

import attrs

from kafka_remote_client.errors import RemoteLogMetadataError
from kafka_remote_client.model import (
    UNKNOWN_OFFSET,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.leader_epoch_state import RemoteLogLeaderEpochState

__all__ = ["COMPACTED_TRANSITIONS", "TRANSITIONS", "CacheContents", "EpochContents", "RemoteLogMetadataCache"]

_COPYING = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_COPIED = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
_DELETING = RemoteLogSegmentState.DELETE_SEGMENT_STARTED
_DELETED = RemoteLogSegmentState.DELETE_SEGMENT_FINISHED

TRANSITIONS: dict[RemoteLogSegmentState | None, frozenset[RemoteLogSegmentState]] = {
    None: frozenset({_COPYING}),
    _COPYING: frozenset({_COPYING, _COPIED, _DELETING}),
    _COPIED: frozenset({_COPIED, _DELETING}),
    _DELETING: frozenset({_DELETING, _DELETED}),
    _DELETED: frozenset({_DELETED}),
}
"""The states that may follow a segment's state (None = unknown segment)."""

COMPACTED_TRANSITIONS: dict[RemoteLogSegmentState | None, frozenset[RemoteLogSegmentState]] = {
    None: frozenset({_COPYING, _COPIED, _DELETING, _DELETED}),
    _COPYING: frozenset({_COPYING, _COPIED, _DELETING, _DELETED}),
    _COPIED: frozenset({_COPIED, _DELETING, _DELETED}),
    _DELETING: frozenset({_DELETING, _DELETED}),
    _DELETED: frozenset({_DELETED}),
}
"""The same for events with a key, because events between two of them may have been compacted."""


@attrs.frozen
class EpochContents:
    """The readable segments of one leader epoch: their first offsets in it, rising, their ids, and their end offsets."""

    leader_epoch: int
    highest_offset: int
    starts: list[int]
    segment_ids: list[RemoteLogSegmentId]
    segment_ends: list[int]


@attrs.frozen
class CacheContents:
    """The contents of a cache. The owner may change the lists; their items are immutable."""

    topic_id_partition: TopicIdPartition
    segments: list[RemoteLogSegmentMetadata]
    epochs: list[EpochContents]


class RemoteLogMetadataCache:
    """Thread safe. ``version`` rises with every change, so that derived values can be cached until then."""

    def __init__(self, topic_id_partition: TopicIdPartition) -> None:
        self.topic_id_partition = topic_id_partition
        self._segments: dict[int, RemoteLogSegmentMetadata] = {}  # by the number of the segment's id
        self._by_end: dict[int, set[int]] | None = None  # end offset to segments; made for the first tombstone that needs it
        self._epochs: dict[int, RemoteLogLeaderEpochState] = {}
        self._readable: list[int] = []  # epochs with readable segments, rising
        self._version = 0
        self._lock = threading.RLock()

    @classmethod
    def restored(cls, contents: CacheContents) -> RemoteLogMetadataCache:
        """A cache with these contents. The caller must not change them afterwards."""
        cache = cls(contents.topic_id_partition)
        cache._segments = {one.remote_log_segment_id.id.int: one for one in contents.segments}
        for one in contents.epochs:
            state = RemoteLogLeaderEpochState.restored(one.highest_offset, one.starts, one.segment_ids, one.segment_ends)
            cache._epochs[one.leader_epoch] = state
        cache._readable = sorted(one.leader_epoch for one in contents.epochs if one.starts)
        return cache

    @property
    def version(self) -> int:
        return self._version

    def contents(self) -> CacheContents:
        """The current contents. It copies references only, so that look-ups wait only briefly."""
        with self._lock:
            epochs = [EpochContents(epoch, *state.contents()) for epoch, state in self._epochs.items()]
            return CacheContents(self.topic_id_partition, list(self._segments.values()), epochs)

    def add_copy_in_progress_segment(self, metadata: RemoteLogSegmentMetadata, *, keyed: bool = False) -> bool:
        """Adds a segment whose copy begins. False = dropped, because the segment is already past that state.

        ``keyed``: the event has a key, so the segment may have any state. Raises RemoteLogMetadataError for any state but
        COPY_SEGMENT_STARTED without a key.
        """
        if metadata.state is not _COPYING and not keyed:
            raise RemoteLogMetadataError(
                f"segment {metadata.remote_log_segment_id} has the first state {metadata.state.name}, not COPY_SEGMENT_STARTED"
            )
        with self._lock:
            segment_id = metadata.remote_log_segment_id.id.int
            known = self._segments.get(segment_id)
            if metadata.state not in (COMPACTED_TRANSITIONS if keyed else TRANSITIONS)[None if known is None else known.state]:
                return False
            if known is None:
                for entry in metadata.segment_leader_epochs:
                    if entry.epoch not in self._epochs:
                        self._epochs[entry.epoch] = RemoteLogLeaderEpochState()
                if self._by_end is not None:
                    self._by_end.setdefault(metadata.end_offset, set()).add(segment_id)
                known = metadata
            self._enter(known, metadata.state)
            if metadata.state is not _DELETED:
                self._segments[segment_id] = metadata
            self._version += 1
            return True

    def remove_segment(self, segment_id: UUID) -> bool:
        """Removes a segment because of a tombstone. False = the segment was unknown."""
        with self._lock:
            known = self._segments.get(segment_id.int)
            if known is None:
                return False
            self._enter(known, _DELETED)
            self._version += 1
            return True

    def remove_segments(self, end_offset: int, broker_leader_epoch: int) -> bool:
        """The same for all segments that end at ``end_offset`` and were copied in that leader epoch."""
        with self._lock:
            if self._by_end is None:
                self._by_end = {}
                for segment_id, known in self._segments.items():
                    self._by_end.setdefault(known.end_offset, set()).add(segment_id)
            found = self._by_end.get(end_offset, set())
            segments = [self._segments[one] for one in found]
            gone = [one.remote_log_segment_id.id for one in segments if one.broker_leader_epoch == broker_leader_epoch]
            return sum(map(self.remove_segment, gone)) > 0

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate, *, keyed: bool = False) -> bool:
        """Changes the state of a segment. False = dropped: an unknown segment, or a transition that is not in the table.

        Raises RemoteLogMetadataError for COPY_SEGMENT_STARTED, which no update may carry.
        """
        if update.state is _COPYING:
            raise RemoteLogMetadataError(
                f"an update of segment {update.remote_log_segment_id} has the first state {update.state.name}"
            )
        with self._lock:
            known = self._segments.get(update.remote_log_segment_id.id.int)
            if known is None or update.state not in (COMPACTED_TRANSITIONS if keyed else TRANSITIONS)[known.state]:
                return False
            self._enter(known, update.state)
            if update.state is not _DELETED:
                self._segments[known.remote_log_segment_id.id.int] = _updated(known, update)
            self._version += 1
            return True

    def _enter(self, known: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        """Updates the epochs of a segment for its new state, and forgets a deleted segment."""
        segment_id = known.remote_log_segment_id  # one object for all events of the segment
        if state is not _COPYING:
            for index, entry in enumerate(known.segment_leader_epochs):
                epoch = self._epochs[entry.epoch]
                if state is _COPIED:
                    epoch.copy_finished(entry.start_offset, segment_id, known.epoch_end(index), known.end_offset)
                else:
                    epoch.delete_started(entry.start_offset, segment_id)
                self._note_readable(entry.epoch, readable=epoch.is_readable)
        if state is _DELETED:
            self._segments.pop(segment_id.id.int, None)
            if self._by_end is not None:
                self._by_end[known.end_offset].remove(segment_id.id.int)

    def remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The readable segment that holds ``offset`` as written in ``leader_epoch``."""
        with self._lock:
            state = self._epochs.get(leader_epoch)
            segment_id = state.floor(offset) if state else None
            if segment_id is None:
                return None
            metadata = self._segments[segment_id.id.int]
            return metadata if offset <= _end_of_epoch(metadata, leader_epoch) else None

    def next_remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The first readable segment whose offsets of ``leader_epoch`` begin at or after ``offset``."""
        with self._lock:
            state = self._epochs.get(leader_epoch)
            segment_id = state.ceiling(offset) if state else None
            return None if segment_id is None else self._segments[segment_id.id.int]

    def list_all_remote_log_segments(self) -> list[RemoteLogSegmentMetadata]:
        """All segments that are not deleted, in any state, in the order of their start offsets."""
        with self._lock:
            return sorted(self._segments.values(), key=lambda m: (m.start_offset, m.end_offset))

    def highest_offset_for_epoch(self, leader_epoch: int) -> int:
        """The highest offset ever tiered in ``leader_epoch``; UNKNOWN_OFFSET when there is none."""
        with self._lock:
            state = self._epochs.get(leader_epoch)
            return state.highest_offset if state else UNKNOWN_OFFSET

    def leader_epochs(self) -> list[int]:
        """The epochs that have readable segments, rising."""
        with self._lock:
            return list(self._readable)

    def newest_segment(self) -> RemoteLogSegmentMetadata | None:
        """The last readable segment of the highest epoch, which has the most of the log's lineage."""
        with self._lock:
            newest = self._epochs[self._readable[-1]].newest() if self._readable else None
            return None if newest is None else self._segments[newest.id.int]

    def _note_readable(self, epoch: int, *, readable: bool) -> None:
        at = bisect_left(self._readable, epoch)
        listed = at < len(self._readable) and self._readable[at] == epoch
        if readable and not listed:
            insort(self._readable, epoch)
        elif listed and not readable:
            del self._readable[at]


def _updated(known: RemoteLogSegmentMetadata, update: RemoteLogSegmentMetadataUpdate) -> RemoteLogSegmentMetadata:
    """Does not use ``attrs.evolve``, which is slower: a shim that starts updates each segment at least once."""
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=known.remote_log_segment_id,
        start_offset=known.start_offset,
        end_offset=known.end_offset,
        max_timestamp_ms=known.max_timestamp_ms,
        broker_id=update.broker_id,
        event_timestamp_ms=update.event_timestamp_ms,
        segment_leader_epochs=known.segment_leader_epochs,
        segment_size_in_bytes=known.segment_size_in_bytes,
        custom_metadata=update.custom_metadata,
        state=update.state,
        txn_index_empty=known.txn_index_empty,
        broker_leader_epoch=known.broker_leader_epoch,
    )


def _end_of_epoch(metadata: RemoteLogSegmentMetadata, leader_epoch: int) -> int:
    for index, entry in enumerate(metadata.segment_leader_epochs):
        if entry.epoch == leader_epoch:
            return metadata.epoch_end(index)
    raise AssertionError(
        f"{metadata.remote_log_segment_id} is listed under leader epoch {leader_epoch}, which it does not contain"
    )
