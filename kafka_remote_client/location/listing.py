"""Locations from the store alone, for offline reads and for clusters that no longer exist.

It uses the shim's resolver over a listing of the store. Ranges have the object's key, and for a
chunked segment the data to restore it, so the fetcher needs its own credentials. The listing does not show where the log really
starts (DeleteRecords), nor what the brokers still hold: the tier counts as the whole log.

A reader of committed records stops before the first transaction that is undecided at the tier's end (reason "undecided"), and
gets nothing if neither a producer snapshot nor the log has that information ("transactions-unknown").

References: docs/sources.md.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from kafka_remote_client import arguments
from kafka_remote_client.clock import Deadline, SystemClock
from kafka_remote_client.errors import (
    ConfigurationError,
    CorruptRecordError,
    DirectFetchError,
    NoSegmentsError,
    RemoteLogError,
    UnsupportedFormatError,
)
from kafka_remote_client.location.direct_location import direct_location
from kafka_remote_client.location.look_ups import DEFAULT_CONCURRENCY, DEFAULT_TIMEOUT_SECONDS, LookUps
from kafka_remote_client.location.segment_lists import list_segments
from kafka_remote_client.location.tier_source import DEFAULT_RANGE_BYTES, DEFAULT_WINDOW_BYTES
from kafka_remote_client.location_question import LocationQuestion
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import (
    UNKNOWN_OFFSET,
    IsolationLevel,
    LocationAnswer,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
    TopicIdPartition,
    uuid_to_text,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.index_cache import DEFAULT_MAX_BYTES
from kafka_remote_client.remote_log.kept_only import about_to_read
from kafka_remote_client.remote_log.layout import ListedSegment, ObjectLayout
from kafka_remote_client.remote_log.prefetch import store_read_executor
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.store_contents import no_segments
from kafka_remote_client.remote_log.tier_listing import TierListing
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.remote_log.window import range_size
from kafka_remote_client.segment_spans import SegmentSpans

__all__ = ["ListingLocationSource"]

_log = logging.getLogger(__name__)


class ListingLocationSource:
    """A LocationSource over one listing of a store, made at its first use; later uploads are not seen.

    Owns ``store``.
    """

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        *,
        topic: str | None = None,
        topic_id: UUID | None = None,
        range_bytes: int = DEFAULT_RANGE_BYTES,
        lookup_concurrency: int = DEFAULT_CONCURRENCY,
        lookup_timeout: float = DEFAULT_TIMEOUT_SECONDS,
        index_cache_bytes: int = DEFAULT_MAX_BYTES,
    ) -> None:
        """``topic`` limits the listing to one name; ``topic_id`` selects one of several topics with the same name.

        ``lookup_concurrency``: the number of look-ups that read at the same time. ``lookup_timeout``: seconds for one of them,
        including its wait for a thread. ``index_cache_bytes``: memory for the objects that they read.
        """
        self._store = store
        self._layout = layout
        self._topic = topic
        self._topic_id = topic_id
        self._range_bytes = arguments.whole(range_bytes, "range_bytes", 1)
        self._listings: dict[str | None, TierListing] = {}
        self._reads = store_read_executor()
        self.resolver = RemoteSegmentResolver(store, layout, index_cache_bytes=index_cache_bytes, executor=self._reads)
        self._undecided: dict[TopicIdPartition, int | None] = {}
        self._absent: dict[str, str] = {}
        self._lookup_concurrency = lookup_concurrency
        self._lock = threading.Lock()
        self._look_ups = LookUps(self._answer, SystemClock(), concurrency=lookup_concurrency, timeout=lookup_timeout)

    @property
    def listing(self) -> TierListing:
        """Lists the store, or the one topic. Raises the store's errors."""
        return self._listing(self._topic)

    def _listing(self, topic: str | None) -> TierListing:
        if topic not in self._listings:
            about_to_read()
            with self._lock:
                if topic not in self._listings:
                    self._listings[topic] = TierListing(self._store, self._layout, topic, indexes=self.resolver.indexes)
        return self._listings[topic]

    def partitions(self, topic: str) -> list[TopicIdPartition]:
        """The partitions of a topic, by number; empty if the store has no topic of that name.

        Raises ConfigurationError, with the list, if the store has several topics of that name and none is selected.
        """
        listing = self._listing(topic)
        ids = [i for i in listing.topic_ids(topic) if self._topic_id in {None, i}]
        if len(ids) > 1:
            known = ", ".join(uuid_to_text(i) for i in ids)
            raise ConfigurationError(f"the store has {len(ids)} topics named {topic!r}; choose one by topic id: {known}")
        return [tip for tip in listing.partitions(topic) if tip.topic_id in ids]

    def topics(self) -> list[str]:
        """The names of all topics in the store, or of the one topic, in their order."""
        return sorted({tip.topic for tip in self.listing.partitions()})

    def segments(self, topic_id_partition: TopicIdPartition) -> list[TieredSegment]:
        """The segments of a partition that readers use, in order, each with its offsets that belong to the log.

        Raises RemoteLogError kinds if the lineage cannot be read, and the errors of the store.
        """
        return self.resolver.all_segments(self._listing(topic_id_partition.topic).cache(topic_id_partition))

    def offset_for_time(
        self, topic_id_partition: TopicIdPartition, timestamp_ms: int, start_offset: int = 0, *, markers: bool = True
    ) -> int | None:
        """Returns the first tiered record from ``start_offset`` on with at least this timestamp; ``None`` if there is none.

        Records of transactions and their markers count too. ``markers=False``: ``None`` if a marker comes first. Its time is
        that of the broker's clock, and records with older times may follow.

        Raises RemoteLogError kinds, CorruptRecordError, UnsupportedFormatError, and what the store raises.
        """
        cache = self._listing(topic_id_partition.topic).cache(topic_id_partition)
        found = self.resolver.offset_for_time(cache, timestamp_ms, start_offset=start_offset)
        return None if found is None or (found.is_marker and not markers) else found.offset

    def prepare(self, topic_id_partition: TopicIdPartition, offset: int, isolation_level: IsolationLevel) -> None:
        """Begins to read what the location of ``offset`` needs, without waiting for it. It raises as :meth:`segments`."""
        self.resolver.prepare(self._listing(topic_id_partition.topic).cache(topic_id_partition), offset, isolation_level)

    def damaged(self, topic_id_partition: TopicIdPartition) -> list[tuple[ListedSegment, str]]:
        """The segments of a partition that have all objects and cannot be read, by start offset, each with the reason."""
        return self._listing(topic_id_partition.topic).damaged(topic_id_partition)

    def remarks(self, topic_id_partition: TopicIdPartition) -> list[str]:
        """One line for each segment of the partition that is not read, with the reason."""
        listing = self._listing(topic_id_partition.topic)
        left_out = {**listing.unreadable(topic_id_partition), **listing.superseded(topic_id_partition)}
        return [f"segment {segment_id} was ignored: {why}" for segment_id, why in left_out.items()]

    def locate(self, questions: Sequence[LocationQuestion], deadline: Deadline) -> Mapping[LocationQuestion, LocationAnswer]:
        """As LocationSource; ConfigurationError, RemoteLogError and RemoteStorageError kinds are answers as well."""
        return self._look_ups.locate(questions, deadline)

    def _answer(self, question: LocationQuestion, deadline: Deadline) -> SegmentLocation | NotRemote:
        tip = self._tip(question.topic, question.partition)
        if tip is None:
            return NotRemote("unknown-partition", error=self.absence(question.topic))
        undecided = None
        if question.isolation_level is IsolationLevel.READ_COMMITTED:
            try:
                undecided = self.first_undecided_offset(tip)
            except (RemoteLogError, CorruptRecordError, UnsupportedFormatError) as error:
                _log.warning("cannot find the committed records of %s: %s", tip, error)
                return NotRemote("transactions-unknown", self._offsets(tip))
        if undecided is not None and question.offset >= undecided:
            return NotRemote("undecided", self._offsets(tip))
        max_bytes = question.max_bytes or DEFAULT_WINDOW_BYTES
        asked = attrs.evolve(
            question,
            max_bytes=max_bytes,
            range_bytes=range_size(max_bytes, question.range_bytes, self._range_bytes),
            end_offset=undecided,
        )
        found = self.resolver.resolve(self._listing(question.topic).cache(tip), asked)
        if isinstance(found, NotRemote):
            return found
        if not found.aborted_complete and found.searched_end != self._offsets(tip).high_watermark:
            # The tier decides every transaction below the bound. A segment is missing, so all of the tier must be searched.
            return NotRemote("aborted-unknown", self._offsets(tip))
        return direct_location(
            self._store,
            self._layout,
            found,
            aborted=found.aborted,
            last_stable_offset=UNKNOWN_OFFSET if undecided is None else undecided,
        )

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:
        """Returns the tier's bounds, as if it were the whole log without a part on a broker's disk.

        DeleteRecords is not visible here. Raises NoSegmentsError for a topic that has no segment in the store.
        """
        tip = self._tip(topic, partition)
        absence = self.absence(topic) if tip is None else None
        if absence is not None:
            raise absence
        return PartitionOffsets() if tip is None else self._offsets(tip)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        answers: dict[tuple[str, int], PartitionOffsets | DirectFetchError] = {}
        for key in partitions:
            try:
                answers[key] = self.offsets(*key, deadline)
            except DirectFetchError as error:
                answers[key] = error
        return answers

    def segments_of(self, partitions: Sequence[tuple[str, int]], deadline: Deadline) -> Mapping[tuple[str, int], SegmentSpans]:
        """As SegmentListingSource."""
        return list_segments(
            partitions, lambda key: self._tip(*key), self.segments, deadline, concurrency=self._lookup_concurrency
        )

    def first_undecided_offset(self, topic_id_partition: TopicIdPartition) -> int | None:
        """Returns where a reader of committed records stops; None = at the tier's end.

        Raises RemoteLogError, CorruptRecordError and UnsupportedFormatError when that is unknown, and what the store raises.
        """
        if topic_id_partition not in self._undecided:  # two threads may compute it at once, with the same result
            cache = self._listing(topic_id_partition.topic).cache(topic_id_partition)
            self._undecided[topic_id_partition] = self.resolver.first_undecided_offset(cache)
        return self._undecided[topic_id_partition]

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self.resolver.cache_statistics()

    def close(self) -> None:
        self._look_ups.close()
        self._reads.shutdown(wait=False, cancel_futures=True)
        self._store.close()

    def _tip(self, topic: str, partition: int) -> TopicIdPartition | None:
        return next((tip for tip in self.partitions(topic) if tip.partition == partition), None)

    def absence(self, topic: str) -> NoSegmentsError | None:
        """Returns the error for a missing topic, with what the store has instead; listed once."""
        if self.partitions(topic):
            return None
        if topic not in self._absent:
            about_to_read()
            self._absent[topic] = str(no_segments(topic, self._store))
        return NoSegmentsError(self._absent[topic]).with_context(topic=topic)

    def _offsets(self, tip: TopicIdPartition) -> PartitionOffsets:
        log = self.resolver.log(self._listing(tip.topic).cache(tip))
        start, end = (None, None) if log is None else (log.start_offset(), log.end_offset())
        if start is None or end is None:
            return PartitionOffsets()
        return PartitionOffsets(log_start=start, earliest_local=end, latest_tiered=end - 1, high_watermark=end)
