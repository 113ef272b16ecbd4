"""The segments of one partition, from the events of ``__remote_log_metadata``.

Theory of operation. Each attempt to copy a segment has its own id and these states; every other transition is refused::

    none ──► COPY_SEGMENT_STARTED ──► COPY_SEGMENT_FINISHED ──► DELETE_SEGMENT_STARTED ──► DELETE_SEGMENT_FINISHED
                     └──────────────────────────────────────────────────▲          (any state may be repeated)

Events of a compacted topic (KIP-1266) may be missing, so events with a key may skip states, but not go back. The first event of
a segment with all its fields may have any state. An update of an unknown segment is dropped, because it has no start offset. A
tombstone removes its segments.

Segments are kept packed, and each look-up unpacks the one that it returns.

Only a finished copy can be read. A look-up needs leader epoch and offset, because after an unclean election two segments may
have different records with the same offsets, and only the epoch tells them apart.

References: Kafka's RemoteLogMetadataCache; KIP-405, "RemoteLogSegmentState".
"""

from __future__ import annotations

import threading
from bisect import bisect_left
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
from kafka_remote_client.remote_log.packed_segment import (
    PackedSegment,
    SegmentEvent,
    SegmentUpdate,
    broker_leader_epoch,
    end_offset,
    epoch_entries,
    segment_id,
    state,
    unpack_segment,
    with_update,
)

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
    segment_ids: list[bytes]
    segment_ends: list[int]


@attrs.frozen
class CacheContents:
    """The contents of a cache. The owner may change the lists; their items are immutable."""

    topic_id_partition: TopicIdPartition
    segments: list[PackedSegment]
    epochs: list[EpochContents]


class RemoteLogMetadataCache:
    """Thread safe. ``version`` rises with every change, so that derived values can be cached until then."""

    def __init__(self, topic_id_partition: TopicIdPartition) -> None:
        self.topic_id_partition = topic_id_partition
        self._segments: dict[bytes, PackedSegment] = {}  # by the bytes of the segment's id
        self._by_end: dict[int, set[bytes]] | None = None  # end offset to segments; made for the first tombstone that needs it
        self._epochs: dict[int, RemoteLogLeaderEpochState] = {}
        self._readable: list[int] = []  # epochs with readable segments, rising
        self._version = 0
        self._lock = threading.RLock()

    @classmethod
    def restored(cls, contents: CacheContents) -> RemoteLogMetadataCache:
        """A cache with these contents. The caller must not change them afterwards."""
        cache = cls(contents.topic_id_partition)
        cache._segments = {segment_id(one): one for one in contents.segments}
        for one in contents.epochs:
            of_epoch = RemoteLogLeaderEpochState.restored(one.highest_offset, one.starts, one.segment_ids, one.segment_ends)
            cache._epochs[one.leader_epoch] = of_epoch
        cache._readable = sorted(one.leader_epoch for one in contents.epochs if one.starts)
        return cache

    @property
    def version(self) -> int:
        return self._version

    def contents(self) -> CacheContents:
        """The current contents. It copies references only, so that look-ups wait only briefly."""
        with self._lock:
            epochs = [EpochContents(epoch, *of_epoch.contents()) for epoch, of_epoch in self._epochs.items()]
            return CacheContents(self.topic_id_partition, list(self._segments.values()), epochs)

    def add_copy_in_progress_segment(self, metadata: RemoteLogSegmentMetadata, *, keyed: bool = False) -> bool:
        """The same as :meth:`add` for metadata that are not packed."""
        return self.add(SegmentEvent.of(metadata), keyed=keyed)

    def add(self, event: SegmentEvent, *, keyed: bool = False) -> bool:
        """Adds a segment whose copy begins. False = dropped, because the segment is already past that state.

        ``keyed``: the event has a key, so the segment may have any state. Raises RemoteLogMetadataError for any state but
        COPY_SEGMENT_STARTED without a key.
        """
        _, own_id, entered, segment = event
        if entered is not _COPYING and not keyed:
            raise RemoteLogMetadataError(
                f"segment {self._named(own_id)} has the first state {entered.name}, not COPY_SEGMENT_STARTED"
            )
        with self._lock:
            known = self._segments.get(own_id)
            if entered not in (COMPACTED_TRANSITIONS if keyed else TRANSITIONS)[None if known is None else state(known)]:
                return False
            if known is None:
                for epoch, _ in epoch_entries(segment):
                    if epoch not in self._epochs:
                        self._epochs[epoch] = RemoteLogLeaderEpochState()
                if self._by_end is not None:
                    self._by_end.setdefault(end_offset(segment), set()).add(own_id)
                known = segment
            if entered is not _COPYING:
                self._enter(own_id, known, entered)
            if entered is not _DELETED:
                self._segments[own_id] = segment
            self._version += 1
            return True

    def remove_segment(self, segment_id: UUID) -> bool:
        """Removes a segment because of a tombstone. False = the segment was unknown."""
        return self._remove(segment_id.bytes)

    def remove_segments(self, end: int, copied_in: int) -> bool:
        """The same for all segments with the end offset ``end`` that were copied in the leader epoch ``copied_in``."""
        with self._lock:
            if self._by_end is None:
                self._by_end = {}
                for own_id, known in self._segments.items():
                    self._by_end.setdefault(end_offset(known), set()).add(own_id)
            gone = [one for one in self._by_end.get(end, ()) if broker_leader_epoch(self._segments[one]) == copied_in]
            return sum(map(self._remove, gone)) > 0

    def _remove(self, own_id: bytes) -> bool:
        with self._lock:
            known = self._segments.get(own_id)
            if known is None:
                return False
            self._enter(own_id, known, _DELETED)
            self._version += 1
            return True

    def update_remote_log_segment_metadata(self, update: RemoteLogSegmentMetadataUpdate, *, keyed: bool = False) -> bool:
        """The same as :meth:`update` for an update that is not packed."""
        return self.update(SegmentUpdate.of(update), keyed=keyed)

    def update(self, update: SegmentUpdate, *, keyed: bool = False) -> bool:
        """Changes the state of a segment. False = dropped: an unknown segment, or a transition that is not in the table.

        Raises RemoteLogMetadataError for COPY_SEGMENT_STARTED, which no update may carry.
        """
        entered, own_id = update.state, update.segment_id
        if entered is _COPYING:
            raise RemoteLogMetadataError(f"an update of segment {self._named(own_id)} has the first state {entered.name}")
        with self._lock:
            known = self._segments.get(own_id)
            if known is None or entered not in (COMPACTED_TRANSITIONS if keyed else TRANSITIONS)[state(known)]:
                return False
            self._enter(own_id, known, entered)
            if entered is not _DELETED:
                self._segments[own_id] = with_update(known, update)
            self._version += 1
            return True

    def _enter(self, own_id: bytes, known: PackedSegment, entered: RemoteLogSegmentState) -> None:
        """Updates the epochs of a segment whose copy is over, and forgets a deleted segment."""
        entries, last = epoch_entries(known), end_offset(known)
        for index, (epoch, start) in enumerate(entries):
            of_epoch = self._epochs[epoch]
            was_readable = of_epoch.is_readable
            if entered is _COPIED:
                of_epoch.copy_finished(start, own_id, _end_of_entry(entries, index, last), last)
            else:
                of_epoch.delete_started(start, own_id)
            if of_epoch.is_readable is not was_readable:
                self._change_readable(epoch, readable=not was_readable)
        if entered is _DELETED:
            self._segments.pop(own_id, None)
            if self._by_end is not None:
                self._by_end[last].remove(own_id)

    def remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The readable segment that holds ``offset`` as written in ``leader_epoch``."""
        with self._lock:
            of_epoch = self._epochs.get(leader_epoch)
            metadata = self._unpacked(of_epoch.floor(offset)) if of_epoch else None
        return metadata if metadata is not None and offset <= _end_of_epoch(metadata, leader_epoch) else None

    def next_remote_log_segment_metadata(self, leader_epoch: int, offset: int) -> RemoteLogSegmentMetadata | None:
        """The first readable segment whose offsets of ``leader_epoch`` begin at or after ``offset``."""
        with self._lock:
            of_epoch = self._epochs.get(leader_epoch)
            return self._unpacked(of_epoch.ceiling(offset)) if of_epoch else None

    def list_all_remote_log_segments(self) -> list[RemoteLogSegmentMetadata]:
        """All segments that are not deleted, in any state, in the order of their start offsets."""
        with self._lock:
            known = list(self._segments.values())
        metadata = [unpack_segment(self.topic_id_partition, one) for one in known]
        return sorted(metadata, key=lambda m: (m.start_offset, m.end_offset))

    def highest_offset_for_epoch(self, leader_epoch: int) -> int:
        """The highest offset ever tiered in ``leader_epoch``; UNKNOWN_OFFSET when there is none."""
        with self._lock:
            of_epoch = self._epochs.get(leader_epoch)
            return of_epoch.highest_offset if of_epoch else UNKNOWN_OFFSET

    def leader_epochs(self) -> list[int]:
        """The epochs that have readable segments, rising."""
        with self._lock:
            return list(self._readable)

    def newest_segment(self) -> RemoteLogSegmentMetadata | None:
        """The last readable segment of the highest epoch, which has the most of the log's lineage."""
        with self._lock:
            return self._unpacked(self._epochs[self._readable[-1]].newest()) if self._readable else None

    def _unpacked(self, own_id: bytes | None) -> RemoteLogSegmentMetadata | None:
        return None if own_id is None else unpack_segment(self.topic_id_partition, self._segments[own_id])

    def _named(self, own_id: bytes) -> RemoteLogSegmentId:
        return RemoteLogSegmentId(self.topic_id_partition, UUID(bytes=own_id))

    def _change_readable(self, epoch: int, *, readable: bool) -> None:
        at = bisect_left(self._readable, epoch)
        if readable:
            self._readable.insert(at, epoch)
        else:
            del self._readable[at]


def _end_of_entry(entries: list[tuple[int, int]], index: int, end: int) -> int:
    """The last offset of an epoch entry within its segment, which ends at ``end``."""
    return entries[index + 1][1] - 1 if index + 1 < len(entries) else end


def _end_of_epoch(metadata: RemoteLogSegmentMetadata, leader_epoch: int) -> int:
    for index, entry in enumerate(metadata.segment_leader_epochs):
        if entry.epoch == leader_epoch:
            return metadata.epoch_end(index)
    raise AssertionError(
        f"{metadata.remote_log_segment_id} is listed under leader epoch {leader_epoch}, which it does not contain"
    )
