"""Finds for an offset all that a grant consists of: segment, byte ranges, next offset, aborted transactions.

The resolver reads indexes, checkpoints, snapshots and single batch headers. It reads records only for a look-up by time. The
shim, the metadata-topic source and the listing source share it.

References: KIP-405; Kafka's RemoteLogManager.read, findOffsetByTimestamp; docs/design.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from itertools import islice

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.errors import RemoteLogError, RemoteStorageError
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import (
    AbortedTransaction,
    ByteRange,
    EpochEntry,
    IsolationLevel,
    NotRemote,
    PartitionOffsets,
    RemoteLogSegmentMetadata,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.aborted_transactions import (
    CollectedTransactions,
    collect_aborted_transactions,
    is_decided_within,
)
from kafka_remote_client.remote_log.index_cache import DEFAULT_MAX_BYTES, RemoteIndexCache
from kafka_remote_client.remote_log.kept_only import kept_only
from kafka_remote_client.remote_log.layout import LocatedSegment, ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.metadata_cache import RemoteLogMetadataCache
from kafka_remote_client.remote_log.prefetch import Prefetch
from kafka_remote_client.remote_log.tiered_log import TieredLog, TieredSegment
from kafka_remote_client.remote_log.time_lookup import TimestampAndOffset, find_offset_by_timestamp
from kafka_remote_client.remote_log.transaction_index import TransactionIndex
from kafka_remote_client.remote_log.transaction_scan import open_transactions_at_end
from kafka_remote_client.remote_log.window import plan_window, sketch_window

__all__ = ["RemoteSegmentResolver", "ResolvedSegment"]

_SEGMENTS_OF_SECOND_ROUND = 2


@attrs.frozen
class ResolvedSegment:
    """The byte ranges of a segment that hold the records from ``fetch_offset`` on.

    ``ranges`` tile ``[first.start, last.end)`` of the segment, each begins with a batch, and together they hold every record of
    ``[fetch_offset, next_offset)``; the first may begin with batches below ``fetch_offset``. ``next_offset`` is above
    ``fetch_offset``. ``range_offsets`` has a lower bound of the offsets of each range.

    ``aborted`` is for a read that begins at ``fetch_offset``. It is not complete (``aborted_complete``) if a transaction that
    began below ``next_offset`` may have its ABORT marker at or after ``searched_end``; then the broker is asked for the rest.
    For read_uncommitted it is empty and complete.

    The answer depends on the segments below ``searched_end``, which is at least ``next_offset``: the end of the last segment
    that was searched for aborted transactions, ``next_offset`` for read_uncommitted. It holds for a log in which the record
    before ``searched_end`` has ``searched_epoch``, the leader epoch that its segment's metadata name.

    ``etag`` is the version of the log's object, None if the store has no versions. Reads with it never mix two versions.
    """

    metadata: RemoteLogSegmentMetadata
    object_key: str
    fetch_offset: int
    ranges: tuple[ByteRange, ...]
    range_offsets: tuple[int, ...]
    next_offset: int
    aborted: tuple[AbortedTransaction, ...]
    aborted_complete: bool
    searched_end: int
    searched_epoch: int
    etag: str | None = None

    @property
    def span(self) -> ByteRange:
        """All ranges as one."""
        return ByteRange(self.ranges[0].start, self.ranges[-1].end)

    def located(self, store: RemoteObjectStore, layout: ObjectLayout) -> LocatedSegment:
        """Where the ranges lie in the store, with their first offsets. Raises as :meth:`ObjectLayout.locate`."""
        located = layout.locate(store, self.metadata, self.ranges)
        ranges = (attrs.evolve(one, first_offset=self._offset_at(one.range.start)) for one in located.ranges)
        return attrs.evolve(located, ranges=tuple(ranges))

    def _offset_at(self, position: int) -> int:
        """A lower bound of the offsets of a batch that ends after ``position``."""
        return self.range_offsets[bisect_right(self.ranges, position, key=lambda one: one.start) - 1]


class RemoteSegmentResolver:
    """Thread safe. Caches what it reads from the store, up to ``index_cache_bytes``.

    All methods raise CorruptIndexError and ObjectNotFoundError (then there is no location, and the broker serves), or a
    RemoteStorageError kind when the store cannot be read. ``leader_epochs`` is the lineage of the log as the caller knows it;
    None takes it from the newest tiered segment, which has all of it up to the segment's end.

    With an ``executor``, which its owner shuts down, :meth:`resolve` reads in parallel, in two rounds: first the indexes and
    the checkpoint, then batch headers. Further rounds are for transactions that stay open over several segments, for bounds
    between two entries of the offset index, and for batches of magic 0 and 1. Without an executor it reads one object after
    the other. In :func:`kept_only` it raises NotKeptError instead of waiting for a read.
    """

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        *,
        index_cache_bytes: int = DEFAULT_MAX_BYTES,
        executor: Executor | None = None,
    ) -> None:
        self._layout = layout
        self.indexes = RemoteIndexCache(store, layout, max_bytes=index_cache_bytes)
        self._prefetch = Prefetch(self.indexes, executor)

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        """The counts of the caches, by the names of ``metrics.CACHES``."""
        return {"index": self.indexes.statistics(), "manifest": self._layout.manifest_statistics()}

    def resolve(
        self,
        cache: RemoteLogMetadataCache,
        question: LocationQuestion,
        *,
        leader_epochs: Sequence[EpochEntry] | LeaderEpochLineage | None = None,
        tail: TransactionIndex | None = None,
    ) -> ResolvedSegment | NotRemote:
        """Returns the window of about ``max_bytes`` from the offset on, in ranges of about ``range_bytes`` (both at least 1).

        The window has no batch at or after ``end_offset``, and none that ends below ``log_start_offset`` (at most the offset).
        Records at or after ``read_end_offset`` are not wanted, so the window ends soon after it. ``tail`` is the transaction
        index of the log after the tier, if the caller has it. Raises ValueError for sizes below 1.

        Reasons of NotRemote: ``nothing-tiered``, ``below-tier``, ``missing`` (offsets before and after it are tiered),
        ``local`` (at or after the tier's end), ``beyond-end`` (at or after ``end_offset``), ``no-batch``.
        """
        arguments.whole(question.max_bytes, "max_bytes", 1)
        arguments.whole(question.range_bytes, "range_bytes", 1)
        offset, end_offset = question.offset, question.end_offset
        committed = question.isolation_level is IsolationLevel.READ_COMMITTED
        guessed = self._read_ahead(cache, question) if leader_epochs is None else None
        log = self.log(cache, leader_epochs)
        tiered_end = None if log is None else log.end_offset()
        if log is None or tiered_end is None:
            return NotRemote("nothing-tiered")
        offsets = PartitionOffsets(latest_tiered=tiered_end - 1)
        if end_offset is not None and offset >= end_offset:
            return NotRemote("beyond-end", offsets)
        segment = log.segment_for_offset(offset)
        if segment is None:
            return NotRemote(_why_not(log, offset, tiered_end), offsets)
        if segment.metadata is not guessed:
            self._prefetch.segment(segment.metadata, transactions=committed)
        bound = segment.end if end_offset is None else min(segment.end, end_offset)
        self._read_window_ahead(log, segment, question, bound)
        window = plan_window(
            self.indexes,
            segment.metadata,
            offset,
            bound=bound,
            max_bytes=question.max_bytes,
            range_bytes=question.range_bytes,
            log_start=question.log_start_offset,
            read_end=question.read_end_offset,
        )
        if window is None:
            return NotRemote("no-batch", offsets)
        if committed:
            collected = collect_aborted_transactions(self.indexes, log, offset, window.next_offset, tail, self._prefetch)
        else:
            epoch = segment.metadata.epoch_for_offset(window.next_offset - 1)
            collected = CollectedTransactions((), is_complete=True, searched_end=window.next_offset, searched_epoch=epoch)
        etag = self.indexes.etag(segment.metadata)
        if window.next_offset == segment.end:
            self._read_next_ahead(log, segment, question)
        return ResolvedSegment(
            metadata=segment.metadata,
            object_key=self._layout.object_key(segment.metadata, ObjectKind.LOG),
            fetch_offset=offset,
            ranges=window.ranges,
            range_offsets=window.range_offsets,
            next_offset=window.next_offset,
            aborted=collected.aborted,
            aborted_complete=collected.is_complete,
            searched_end=collected.searched_end,
            searched_epoch=collected.searched_epoch,
            etag=etag,
        )

    def prepare(self, cache: RemoteLogMetadataCache, offset: int, isolation_level: IsolationLevel) -> None:
        """Begins to read the indexes of the segment that holds ``offset``, for a :meth:`resolve` that follows soon."""
        log = self.log(cache)
        segment = None if log is None else log.segment_for_offset(offset)
        if segment is not None:
            self._prefetch.segment(segment.metadata, transactions=isolation_level is IsolationLevel.READ_COMMITTED)

    def _read_ahead(self, cache: RemoteLogMetadataCache, question: LocationQuestion) -> RemoteLogSegmentMetadata | None:
        """Begins to read the lineage, and the indexes of the segment that likely holds the offset. Returns this segment.

        None if the lineage is cached: then no guess is needed.
        """
        newest = cache.newest_segment() if self._prefetch.is_on else None
        if newest is None or self.indexes.keeps(newest, ObjectKind.LEADER_EPOCH):
            return None
        self._prefetch.leader_epochs(newest)
        if question.end_offset is not None and question.offset >= question.end_offset:
            return None
        guessed = _guessed_segment(cache, question.offset)
        if guessed is not None:
            self._prefetch.segment(guessed, transactions=question.isolation_level is IsolationLevel.READ_COMMITTED)
        return guessed

    def _read_window_ahead(self, log: TieredLog, segment: TieredSegment, question: LocationQuestion, bound: int) -> None:
        """Begins to read the batch headers of the window, and the transactions of the next segments if they may be needed."""
        if not self._prefetch.is_on:
            return
        sketch = sketch_window(
            self.indexes,
            segment.metadata,
            question.offset,
            bound=bound,
            max_bytes=question.max_bytes,
            log_start=question.log_start_offset,
            read_end=question.read_end_offset,
        )
        has_to_wait = self._prefetch.batch_headers(segment.metadata, sketch.positions)
        if question.isolation_level is not IsolationLevel.READ_COMMITTED or not has_to_wait:
            return
        # The search itself reports what cannot be read.
        with suppress(RemoteLogError, RemoteStorageError):
            if not is_decided_within(self.indexes, segment, question.offset, sketch.next_offset):
                self._prefetch.transactions(islice(log.segments_from(segment.end), _SEGMENTS_OF_SECOND_ROUND))

    def _read_next_ahead(self, log: TieredLog, segment: TieredSegment, question: LocationQuestion) -> None:
        """Begins to read the indexes of the next segment, if the reader needs it."""
        if question.read_end_offset is not None and question.read_end_offset <= segment.end:
            return
        following = log.segment_for_offset(segment.end)
        if following is not None:
            committed = question.isolation_level is IsolationLevel.READ_COMMITTED
            with kept_only(on=False):  # no caller waits for these reads
                self._prefetch.segment(following.metadata, transactions=committed)

    def offset_for_time(
        self,
        cache: RemoteLogMetadataCache,
        timestamp_ms: int,
        *,
        start_offset: int = 0,
        leader_epochs: Sequence[EpochEntry] | LeaderEpochLineage | None = None,
    ) -> TimestampAndOffset | None:
        """The first tiered record at or after ``start_offset`` whose timestamp is at or above ``timestamp_ms``.

        Control records count, as they do for the broker. Raises CorruptRecordError and UnsupportedFormatError as well.
        """
        log = self.log(cache, leader_epochs)
        return None if log is None else find_offset_by_timestamp(self.indexes, log, timestamp_ms, start_offset, self._prefetch)

    def first_undecided_offset(
        self,
        cache: RemoteLogMetadataCache,
        *,
        leader_epochs: Sequence[EpochEntry] | LeaderEpochLineage | None = None,
        tail: TransactionIndex | None = None,
    ) -> int | None:
        """Returns the end of the committed records for a reader without a broker; None = the end of the tier.

        It is the first offset of the oldest transaction that is open at the end of the tier and not aborted in ``tail``.
        Without a snapshot of the producers the log is read. Raises also CorruptRecordError and UnsupportedFormatError: then
        the log cannot be read, and the offset is unknown.
        """
        log = self.log(cache, leader_epochs)
        if log is None:
            return None
        decided = {entry.transaction for entry in tail or ()}
        still_open = open_transactions_at_end(self.indexes, log)
        return min((one.first_offset for one in still_open if one not in decided), default=None)

    def lineage(self, cache: RemoteLogMetadataCache) -> LeaderEpochLineage | None:
        """The lineage of the newest readable segment; None when no segment is readable."""
        newest = cache.newest_segment()
        return None if newest is None else self.indexes.leader_epochs(newest)

    def log(
        self, cache: RemoteLogMetadataCache, leader_epochs: Sequence[EpochEntry] | LeaderEpochLineage | None = None
    ) -> TieredLog | None:
        """The tier of a partition as a log; None when no segment is readable."""
        if leader_epochs is None:
            lineage = self.lineage(cache)
        elif isinstance(leader_epochs, LeaderEpochLineage):
            lineage = leader_epochs
        else:
            lineage = LeaderEpochLineage(leader_epochs)
        return None if lineage is None else TieredLog(cache, lineage)

    def all_segments(self, cache: RemoteLogMetadataCache, start: int = 0, most: int | None = None) -> list[TieredSegment]:
        """The first ``most`` segments of a partition from ``start`` on, in order; offsets may be missing between them."""
        log = self.log(cache)
        return [] if log is None else list(islice(log.all_segments(start), most))


def _guessed_segment(cache: RemoteLogMetadataCache, offset: int) -> RemoteLogSegmentMetadata | None:
    """The segment that holds ``offset`` in the highest epoch that has it: nearly always that of the lineage."""
    found = (cache.remote_log_segment_metadata(epoch, offset) for epoch in reversed(cache.leader_epochs()))
    return next((metadata for metadata in found if metadata is not None), None)


def _why_not(log: TieredLog, offset: int, tiered_end: int) -> str:
    if offset >= tiered_end:
        return "local"
    start = log.start_offset()
    return "missing" if start is not None and offset > start else "below-tier"
