"""Locations from the store alone: for offline reads and for the day when no broker is left.

It stands on the same resolver as the shim, over what a listing of the store tells. Ranges carry the object's key, and for a
segment kept in chunks what restores it, so the fetcher needs credentials of its own. Nobody can say here where the log really
starts (DeleteRecords), nor what the brokers still hold; a reader of committed records stops before the first transaction that
is undecided where the tier ends.

References: docs/design.md.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from uuid import UUID

import attrs

from kafka_remote_client.clock import Deadline
from kafka_remote_client.errors import ConfigurationError, DirectFetchError
from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import (
    UNKNOWN_OFFSET,
    GrantedRange,
    IsolationLevel,
    NotRemote,
    PartitionOffsets,
    SegmentLocation,
    TopicIdPartition,
    uuid_to_text,
)
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.remote_log.layout import ObjectLayout
from kafka_remote_client.remote_log.listing import TierListing
from kafka_remote_client.remote_log.resolver import RemoteSegmentResolver
from kafka_remote_client.remote_log.window import range_size

__all__ = ["DEFAULT_RANGE_BYTES", "DEFAULT_WINDOW_BYTES", "ListingLocationSource"]

DEFAULT_RANGE_BYTES = 8 * 1024 * 1024
DEFAULT_WINDOW_BYTES = 4 * DEFAULT_RANGE_BYTES


class ListingLocationSource:
    """A LocationSource over one listing of a store; what is uploaded later is not seen."""

    def __init__(
        self,
        store: RemoteObjectStore,
        layout: ObjectLayout,
        *,
        topic: str | None = None,
        topic_id: UUID | None = None,
        range_bytes: int = DEFAULT_RANGE_BYTES,
    ) -> None:
        """``topic`` bounds the listing to one name; ``topic_id`` picks one of several topics of a name.

        Raises what the store raises.
        """
        self._store = store
        self._layout = layout
        self._topic_id = topic_id
        self._range_bytes = range_bytes
        self.listing = TierListing(store, layout, topic)
        self.resolver = RemoteSegmentResolver(store, layout)
        self._undecided: dict[TopicIdPartition, int | None] = {}
        self._lock = threading.Lock()

    def partitions(self, topic: str) -> list[TopicIdPartition]:
        """The partitions of a topic, by number; empty when the store has none of that name.

        Raises ConfigurationError, with the list, when the name stands for several topics and none was picked.
        """
        ids = [i for i in self.listing.topic_ids(topic) if self._topic_id in {None, i}]
        if len(ids) > 1:
            known = ", ".join(uuid_to_text(i) for i in ids)
            raise ConfigurationError(
                f"the name {topic!r} stands for {len(ids)} topics in the store; pick one by its id: {known}"
            )
        return [tip for tip in self.listing.partitions(topic) if tip.topic_id in ids]

    def locate(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        leader_epoch: int,  # noqa: ARG002 - the interface's; without a broker there is nothing to hold it against
        isolation_level: IsolationLevel,
        max_bytes: int,
        deadline: Deadline,  # noqa: ARG002 - the interface's; the store bounds its own calls
    ) -> SegmentLocation | NotRemote:
        """As the interface says; raises ConfigurationError, RemoteLogError and RemoteStorageError kinds as well."""
        tip = self._tip(topic, partition)
        if tip is None:
            return NotRemote("unknown-partition")
        undecided = self.first_undecided_offset(tip) if isolation_level is IsolationLevel.READ_COMMITTED else None
        if undecided is not None and offset >= undecided:
            return NotRemote("undecided", self._offsets(tip))
        found = self.resolver.resolve(
            self.listing.cache(tip),
            offset,
            isolation_level=isolation_level,
            max_bytes=max_bytes or DEFAULT_WINDOW_BYTES,
            range_bytes=range_size(max_bytes or DEFAULT_WINDOW_BYTES, self._range_bytes),
            end_offset=undecided,
        )
        if isinstance(found, NotRemote):
            return found
        if not found.aborted_complete:
            # Every transaction below the bound is decided, so a marker is missing only if a segment is.
            return NotRemote("aborted-unknown", self._offsets(tip))
        located = self._layout.locate(self._store, found.metadata, found.ranges)
        return SegmentLocation(
            metadata=found.metadata,
            format=located.format,
            fetch_offset=offset,
            ranges=tuple(
                GrantedRange(one.range, attrs.evolve(one.location, etag=found.etag).encode()) for one in located.ranges
            ),
            next_offset=found.next_offset,
            aborted_transactions=found.aborted,
            last_stable_offset=UNKNOWN_OFFSET if undecided is None else undecided,
        )

    def offsets(self, topic: str, partition: int, deadline: Deadline) -> PartitionOffsets:  # noqa: ARG002 - as above
        """Where the tier begins and ends. ``log_start`` is the first tiered offset: DeleteRecords leaves no trace here."""
        tip = self._tip(topic, partition)
        return PartitionOffsets() if tip is None else self._offsets(tip)

    def offsets_of(
        self, partitions: Sequence[tuple[str, int]], deadline: Deadline
    ) -> Mapping[tuple[str, int], PartitionOffsets | DirectFetchError]:
        return {key: self.offsets(*key, deadline) for key in partitions}

    def first_undecided_offset(self, topic_id_partition: TopicIdPartition) -> int | None:
        """Where a reader of committed records stops; None = at the tier's end."""
        with self._lock:
            if topic_id_partition not in self._undecided:
                cache = self.listing.cache(topic_id_partition)
                self._undecided[topic_id_partition] = self.resolver.first_undecided_offset(cache)
            return self._undecided[topic_id_partition]

    def cache_statistics(self) -> Mapping[str, CacheStatistics]:
        return self.resolver.cache_statistics()

    def close(self) -> None:
        self._store.close()

    def _tip(self, topic: str, partition: int) -> TopicIdPartition | None:
        return next((tip for tip in self.partitions(topic) if tip.partition == partition), None)

    def _offsets(self, tip: TopicIdPartition) -> PartitionOffsets:
        log = self.resolver.log(self.listing.cache(tip))
        start, end = (None, None) if log is None else (log.start_offset(), log.end_offset())
        if start is None or end is None:
            return PartitionOffsets()
        return PartitionOffsets(log_start=start, latest_tiered=end - 1)
