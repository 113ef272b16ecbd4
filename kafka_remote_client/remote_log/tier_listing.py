"""The tier from a store's listing, without metadata topic and broker.

Keys have topic, partition, segment and start offset, the listing has the sizes. The rest is read from the objects, and only for
partitions that are used: from the object that describes the segment, if the layout has one, otherwise from a few small pieces
per segment:

================== ==============================================================================================
end offset         the last batch of the log, walked to from the last entry of the offset index
leader epochs      the leader epoch checkpoint, cut to the segment
highest timestamp  the last entry of the time index
================== ==============================================================================================

These three do not depend on each other, so they are read at the same time: a segment costs two round trips.

A segment without one of its objects, or whose log does not end with a whole batch, was not copied completely or is being
deleted: it is listed and never read. Only the producer snapshot may be missing: topics of old brokers have none, and the log
has the same facts. Of two segments with the same offsets the broker's rule chooses one: a :class:`RemoteLogMetadataCache` gets
them in the order in which leaders uploaded them.

A listing does not show DeleteRecords (the log may start inside a segment) and the brokers' local logs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from uuid import UUID

import attrs

from kafka_remote_client.arguments import MAX_OFFSET
from kafka_remote_client.errors import CorruptIndexError, ObjectNotFoundError, RemoteLogError
from kafka_remote_client.model import (
    UNKNOWN_EPOCH,
    UNKNOWN_OFFSET,
    EpochEntry,
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
    uuid_to_text,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log import offset_index, time_index
from kafka_remote_client.remote_log.events import RemoteLogSegmentMetadataUpdate
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.segment_log import SegmentLog
from kafka_remote_client.remote_log.tiered_log import TieredLog
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["TierListing", "cache_of_uploads"]

_log = logging.getLogger(__name__)
_NO_BROKER = -1
_NO_TIME = -1
_ANY_END = MAX_OFFSET - 1
_READERS = 8


@attrs.frozen
class _ReadSegment:
    """A segment in the listing, its metadata, and the leader epoch of its uploader."""

    listed: ListedSegment
    metadata: RemoteLogSegmentMetadata
    uploader_epoch: int


@attrs.frozen
class _Partition:
    cache: RemoteLogMetadataCache
    damaged: dict[RemoteLogSegmentId, str]
    superseded: dict[RemoteLogSegmentId, str]


class TierListing:
    """One listing of a store, or of one topic in it. Thread safe; :meth:`cache` reads a partition at its first use.

    Several segments are read in parallel, and partitions do not wait for each other. ``previous``: an earlier listing of the
    same store, whose segments are not read again unless they have changed. A segment that is not used is logged once for each
    reason.
    """

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        topic: str | None = None,
        *,
        previous: TierListing | None = None,
        indexes: RemoteIndexCache | None = None,
    ) -> None:
        """Lists the store. ``indexes``: the cache of later look-ups in it, which so read no lineage again.

        Raises the errors of the store.
        """
        self._store = store
        self._layout = layout
        self._indexes = indexes or RemoteIndexCache(store, layout)
        read_before = {} if previous is None else previous.read_segments()
        logged_before = {} if previous is None else previous.logged_reasons()
        self._read_before: dict[RemoteLogSegmentId, _ReadSegment] = {}
        self._logged: dict[RemoteLogSegmentId, str] = {}
        self._segments: dict[TopicIdPartition, list[ListedSegment]] = {}
        for segment in layout.list_segments(store, topic):
            self._segments.setdefault(segment.topic_id_partition, []).append(segment)
            if segment.remote_log_segment_id in read_before:
                self._read_before[segment.remote_log_segment_id] = read_before[segment.remote_log_segment_id]
            if segment.remote_log_segment_id in logged_before:
                self._logged[segment.remote_log_segment_id] = logged_before[segment.remote_log_segment_id]
        self._loaded: dict[TopicIdPartition, _Partition] = {}
        self._loading: dict[TopicIdPartition, threading.Lock] = {}
        self._lock = threading.Lock()

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """The partitions (of one topic name) that have any object, in the order of topic, topic id and partition."""
        return sorted((t for t in self._segments if topic in {None, t.topic}), key=lambda t: (t.topic, t.topic_id, t.partition))

    def topic_ids(self, topic: str) -> list[UUID]:
        """The ids of the topics of that name: more than one after the topic was deleted and created again."""
        return sorted({tip.topic_id for tip in self._segments if tip.topic == topic})

    def segments(self, topic_id_partition: TopicIdPartition) -> list[ListedSegment]:
        """All listed segments of a partition, also half-copied ones, by start offset."""
        return self._segments.get(topic_id_partition, [])

    def unreadable(self, topic_id_partition: TopicIdPartition) -> dict[RemoteLogSegmentId, str]:
        """The segments that :meth:`cache` leaves out, each with the reason."""
        return dict(self._partition(topic_id_partition).damaged)

    def damaged(self, topic_id_partition: TopicIdPartition) -> list[tuple[ListedSegment, str]]:
        """Those of :meth:`unreadable` that have all objects, by start offset: no copy and no deletion is under way."""
        reasons = self.unreadable(topic_id_partition)
        if not reasons:
            return []
        complete = (one for one in self.segments(topic_id_partition) if not one.missing - {ObjectKind.PRODUCER_SNAPSHOT})
        return [(one, reasons[found]) for one in complete if (found := one.remote_log_segment_id) in reasons]

    def superseded(self, topic_id_partition: TopicIdPartition) -> dict[RemoteLogSegmentId, str]:
        """The valid segments that no reader of the partition uses, each with the reason."""
        return dict(self._partition(topic_id_partition).superseded)

    def cache(self, topic_id_partition: TopicIdPartition) -> RemoteLogMetadataCache:
        """The readable segments of a partition, with their metadata. Raises the errors of the store.

        Broker ids and event times are -1; the highest timestamp is -1 without a time index. In :func:`kept_only` it raises
        NotKeptError for a partition that was not read yet.
        """
        return self._partition(topic_id_partition).cache

    def read_segments(self) -> dict[RemoteLogSegmentId, _ReadSegment]:
        """The segments that were read so far, for the next listing."""
        with self._lock:
            return dict(self._read_before)

    def logged_reasons(self) -> dict[RemoteLogSegmentId, str]:
        """Why segments are not used, as the log says so far, for the next listing."""
        with self._lock:
            return dict(self._logged)

    def _log_ignored(self, reasons: dict[RemoteLogSegmentId, str]) -> None:
        with self._lock:
            new = {segment_id: why for segment_id, why in reasons.items() if self._logged.get(segment_id) != why}
            self._logged |= new
        for segment_id, why in new.items():
            _log.warning("ignored segment %s: %s", segment_id, why)

    def _partition(self, tip: TopicIdPartition) -> _Partition:
        known = self._loaded.get(tip)
        if known is not None:
            return known
        about_to_read()
        with self._lock:
            loading = self._loading.setdefault(tip, threading.Lock())
        with loading:  # threads for the same partition wait, those for another one do not
            known = self._loaded.get(tip)
            if known is None:
                known = self._loaded[tip] = self._load(tip)
            return known

    def _load(self, tip: TopicIdPartition) -> _Partition:
        segments = self.segments(tip)
        lineages: dict[RemoteLogSegmentId, LeaderEpochLineage] = {}
        # A reader waits for its segment's parts, and no part waits for anything. So they have a pool of their own.
        with (
            DaemonExecutor(_READERS, "kafka-remote-listing") as readers,
            DaemonExecutor(_READERS, "kafka-remote-listing") as parts,
        ):
            results = list(readers.map(lambda segment: self._try_read(segment, parts, lineages), segments))
        damaged: dict[RemoteLogSegmentId, str] = {}
        for segment, result in zip(segments, results, strict=True):
            if isinstance(result, RemoteLogError):
                damaged[segment.remote_log_segment_id] = str(result)
        found = [result for result in results if isinstance(result, _ReadSegment)]
        with self._lock:
            self._read_before |= {one.listed.remote_log_segment_id: one for one in found}
        cache = cache_of_uploads(tip, [(one.metadata, one.uploader_epoch) for one in found])
        newest = cache.newest_segment()
        if newest is not None and newest.remote_log_segment_id in lineages:
            self._indexes.keep_leader_epochs(newest, lineages[newest.remote_log_segment_id])
        superseded = self._superseded(cache)
        self._log_ignored(damaged | superseded)
        return _Partition(cache, damaged, superseded)

    def _superseded(self, cache: RemoteLogMetadataCache) -> dict[RemoteLogSegmentId, str]:
        segments = cache.list_all_remote_log_segments()
        newest = cache.newest_segment()
        if newest is None:
            return {}
        try:
            log = TieredLog(cache, self._indexes.leader_epochs(newest))
        except RemoteLogError:  # a reader gets this error; a listing needs no private key
            hidden = (segment for segment in segments if not _answers(cache, segment))
            return {segment.remote_log_segment_id: "another copy is used" for segment in hidden}
        live = {one.metadata.remote_log_segment_id for one in log.all_segments()}
        return {
            dead.remote_log_segment_id: _why_not_read(log, dead) for dead in segments if dead.remote_log_segment_id not in live
        }

    def _try_read(
        self, segment: ListedSegment, parts: Executor, lineages: dict[RemoteLogSegmentId, LeaderEpochLineage]
    ) -> _ReadSegment | RemoteLogError:
        known = self._read_before.get(segment.remote_log_segment_id)
        if known is not None and known.listed == segment:
            return known
        try:
            return _ReadSegment(segment, *self._read(segment, parts, lineages))
        except RemoteLogError as error:
            return error

    def _read(
        self, segment: ListedSegment, parts: Executor, lineages: dict[RemoteLogSegmentId, LeaderEpochLineage]
    ) -> tuple[RemoteLogSegmentMetadata, int]:
        """The segment's metadata, and the leader epoch of its uploader. ``lineages`` gets the lineage, if it was read."""
        missing = segment.missing - {ObjectKind.PRODUCER_SNAPSHOT}
        if missing:
            raise ObjectNotFoundError(f"{', '.join(sorted(kind.value for kind in missing))} of the segment")
        stored = self._layout.stored_metadata(self._store, segment)
        if stored is not None:
            # The lineage of an upload ends with its segment, so its last epoch is the uploader's.
            return stored, stored.segment_leader_epochs[-1].epoch
        # Keys depend only on fields that are known by now.
        draft = _metadata(segment, segment.start_offset, (EpochEntry(0, segment.start_offset),), _NO_TIME)
        checkpoint = parts.submit(self._layout.read_index, self._store, draft, ObjectKind.LEADER_EPOCH)
        max_timestamp = parts.submit(self._max_timestamp, segment, draft)
        end_offset = self._end_offset(segment, draft)
        lineage = parse_leader_epoch_checkpoint(checkpoint.result())
        lineages[segment.remote_log_segment_id] = lineage
        epochs = _cut(lineage, segment.start_offset, end_offset)
        if not epochs:
            raise CorruptIndexError(f"leader epoch checkpoint of {segment.remote_log_segment_id} begins after the segment")
        return _metadata(segment, end_offset, epochs, max_timestamp.result()), lineage.entries[-1].epoch

    def _end_offset(self, segment: ListedSegment, draft: RemoteLogSegmentMetadata) -> int:
        tail = self._tail(segment, draft, ObjectKind.OFFSET_INDEX, offset_index.tail_size)
        position = offset_index.OffsetIndex(tail, segment.start_offset).last_entry().position
        log = SegmentLog(
            self._layout.original_logs(self._store),
            self._layout.object_key(draft, ObjectKind.LOG),
            segment.start_offset,
            _ANY_END,
            segment.sizes[ObjectKind.LOG],
        )
        last = UNKNOWN_OFFSET
        for header in log.walk(position):
            last = header.last_offset
        if last == UNKNOWN_OFFSET:
            raise CorruptIndexError(f"{log.key}: no batch at or after {position} of {log.size} bytes")
        return last

    def _max_timestamp(self, segment: ListedSegment, draft: RemoteLogSegmentMetadata) -> int:
        tail = self._tail(segment, draft, ObjectKind.TIME_INDEX, time_index.tail_size)
        return time_index.TimeIndex(tail, segment.start_offset).last_entry().timestamp

    def _tail(
        self,
        segment: ListedSegment,
        draft: RemoteLogSegmentMetadata,
        kind: ObjectKind,
        tail_size: Callable[[int], int | None],
    ) -> bytes:
        # A layout without an object that describes the segment has each index in its own object: its last bytes are enough.
        size = segment.sizes[kind]
        tail = tail_size(size)
        if tail is None:
            raise CorruptIndexError(f"{kind.value} of {segment.remote_log_segment_id} has {size} bytes")
        return self._store.get_range(self._layout.object_key(draft, kind), size - tail, size) if tail else b""


def _answers(cache: RemoteLogMetadataCache, segment: RemoteLogSegmentMetadata) -> bool:
    """Whether a look-up of any offset of the segment, with its epoch in the segment, gives this segment."""
    found = (cache.remote_log_segment_metadata(e.epoch, e.start_offset) for e in segment.segment_leader_epochs)
    return segment.remote_log_segment_id in {one.remote_log_segment_id for one in found if one is not None}


def _why_not_read(log: TieredLog, dead: RemoteLogSegmentMetadata) -> str:
    if log.lineage.agreed_end(dead, dead.start_offset) == dead.start_offset:
        return "its leader epochs differ from the newest segment's lineage"
    other = log.segment_for_offset(dead.start_offset)
    return "another copy is used" if other is None else f"{uuid_to_text(other.metadata.remote_log_segment_id.id)} is read"


def cache_of_uploads(
    topic_id_partition: TopicIdPartition, found: Iterable[tuple[RemoteLogSegmentMetadata, int]]
) -> RemoteLogMetadataCache:
    """The cache that the events of these uploads would make. ``found``: segments and the leader epochs of their uploaders.

    Uploads are ordered by leader epoch, then by end offset, then by length. The segments are in state COPY_SEGMENT_STARTED.
    """
    cache = RemoteLogMetadataCache(topic_id_partition)
    for metadata, _ in sorted(found, key=lambda pair: (pair[1], pair[0].end_offset, -pair[0].start_offset)):
        cache.add_copy_in_progress_segment(metadata)
        cache.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(
                metadata.remote_log_segment_id, _NO_BROKER, _NO_TIME, RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            )
        )
    return cache


def _metadata(
    segment: ListedSegment, end_offset: int, epochs: tuple[EpochEntry, ...], max_timestamp_ms: int
) -> RemoteLogSegmentMetadata:
    return RemoteLogSegmentMetadata(
        remote_log_segment_id=segment.remote_log_segment_id,
        start_offset=segment.start_offset,
        end_offset=end_offset,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=_NO_BROKER,
        event_timestamp_ms=_NO_TIME,
        segment_leader_epochs=epochs,
        segment_size_in_bytes=segment.sizes.get(ObjectKind.LOG, 0),
        state=RemoteLogSegmentState.COPY_SEGMENT_STARTED,
        txn_index_empty=not segment.sizes.get(ObjectKind.TRANSACTION_INDEX),
    )


def _cut(lineage: LeaderEpochLineage, start_offset: int, end_offset: int) -> tuple[EpochEntry, ...]:
    """The lineage within ``[start_offset, end_offset]``; empty if the lineage begins after it.

    After DeleteRecords a leader knows no epoch below the log's start, which may lie inside the segments that it uploads next.
    """
    first = lineage.epoch_for_offset(start_offset)
    later = tuple(e for e in lineage if start_offset < e.start_offset <= end_offset)
    return later if first == UNKNOWN_EPOCH else (EpochEntry(first, start_offset), *later)
