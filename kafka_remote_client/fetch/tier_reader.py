"""TierReader reads a tier with its store alone, without a broker.

It is the engine over a listing of the store, for an archive, a restore or a report; ``kafka-remote dump`` uses it. A store does
not have the log start after DeleteRecords, nor records that are only on brokers' disks. Committed records end before the first
transaction whose marker is not in the tier.

References: docs/sources.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self
from uuid import UUID

from kafka_remote_client import arguments
from kafka_remote_client.clock import Clock, Deadline, SystemClock
from kafka_remote_client.config import RemoteFetchConfig
from kafka_remote_client.errors import ConfigurationError, NoSegmentsError
from kafka_remote_client.fetch.engine import FetchEngine
from kafka_remote_client.fetch.read_request import ReadRequest
from kafka_remote_client.fetch.remote_reader import RemoteReader
from kafka_remote_client.fetch.storage_formats import RestoringFetcher, installed_formats
from kafka_remote_client.fetch.store_fetcher import StoreFetcher
from kafka_remote_client.location.listing import ListingLocationSource
from kafka_remote_client.metrics import FetchMetrics
from kafka_remote_client.model import IsolationLevel, PartitionOffsets, TopicIdPartition
from kafka_remote_client.plugin import RemoteObjectStore
from kafka_remote_client.registry import check_store_options, load_store
from kafka_remote_client.remote_log.breaker_store import guarded_store
from kafka_remote_client.remote_log.layout import ORIGINAL_FORMAT, ListedSegment
from kafka_remote_client.remote_log.layouts import LayoutOptions, layout_named
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.settings import default_of

__all__ = ["TierReader", "open_tier"]

_OFFSETS_SECONDS = 600.0


class TierReader:
    """A context manager: leaving it closes the engine, the source and the store. Thread safe."""

    def __init__(
        self,
        store: RemoteObjectStore,
        source: ListingLocationSource,
        config: RemoteFetchConfig | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        """``config`` bounds memory, ranges and time-outs. Owns ``store`` and ``source``."""
        self._clock = clock or SystemClock()
        self._source = source
        self.metrics = FetchMetrics(self._clock)
        installed = installed_formats()
        fetcher, formats = RestoringFetcher(StoreFetcher(store), installed), (ORIGINAL_FORMAT, *installed)
        used = config or RemoteFetchConfig(enabled=True)
        self._engine = FetchEngine(source, fetcher, used, clock=self._clock, metrics=self.metrics, formats=formats)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def config(self) -> RemoteFetchConfig:
        """The bounds on memory, ranges and time-outs."""
        return self._engine.config

    def topics(self) -> list[str]:
        """The names of all topics in the store, in their order."""
        return self._source.topics()

    def partitions(self, topic: str) -> list[TopicIdPartition]:
        """The partitions of a topic, by number; empty when the store has none of that name.

        Raises ConfigurationError, with the list, when the name stands for several topics and none was picked.
        """
        return self._source.partitions(topic)

    def absence(self, topic: str) -> NoSegmentsError | None:
        """Returns the error for a missing topic, with what the store has instead. Raises as :meth:`partitions`."""
        return self._source.absence(topic)

    def bounds(self, topic: str, partition: int) -> PartitionOffsets:
        """``log_start``: the first tiered offset; ``high_watermark``: the first that is not. -1 where nothing can be read."""
        if not self._source.partitions(topic):
            return PartitionOffsets()
        return self._source.offsets(topic, partition, Deadline(self._clock, _OFFSETS_SECONDS))

    def segments(self, topic_id_partition: TopicIdPartition) -> list[TieredSegment]:
        """The segments of a partition that are read, in order, with the offsets of each that belong to the log.

        Raises RemoteLogError kinds if the lineage cannot be read, and the store's errors; so do the next two methods.
        """
        return self._source.segments(topic_id_partition)

    def offset_for_time(
        self, topic_id_partition: TopicIdPartition, timestamp_ms: int, start_offset: int = 0, *, markers: bool = True
    ) -> int | None:
        """Returns the first record from ``start_offset`` on with at least this timestamp, in milliseconds, or ``None``.

        ``markers=False``: also ``None`` if a transaction's marker has it first.
        """
        return self._source.offset_for_time(topic_id_partition, timestamp_ms, start_offset, markers=markers)

    def first_undecided_offset(self, topic_id_partition: TopicIdPartition) -> int | None:
        """Returns the end of committed records: the first transaction that the tier does not decide; ``None`` = no end."""
        return self._source.first_undecided_offset(topic_id_partition)

    def prepare(self, topic_id_partition: TopicIdPartition, offset: int, isolation_level: IsolationLevel) -> None:
        """Begins to read what the location of ``offset`` needs, without waiting for it. It raises as :meth:`segments`."""
        self._source.prepare(topic_id_partition, offset, isolation_level)

    def damaged(self, topic_id_partition: TopicIdPartition) -> list[tuple[ListedSegment, str]]:
        """The segments that have all objects and cannot be read, by start offset, each with the reason."""
        return self._source.damaged(topic_id_partition)

    def remarks(self, topic_id_partition: TopicIdPartition) -> list[str]:
        """One line for each segment that is not read, with the reason: incomplete copy, damaged, or another copy is used."""
        return self._source.remarks(topic_id_partition)

    def read(
        self,
        topic: str,
        partition: int,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        isolation_level: IsolationLevel | str = IsolationLevel.READ_COMMITTED,
        window: tuple[int, int] | None = None,
        borrow: bool = False,
        tally: bool | None = None,
    ) -> RemoteReader:
        """Starts to read the tiered part of ``[start_offset, end_offset)``; ``None`` is the tier's own bound.

        ``isolation_level``: the enum, or ``"read_committed"`` or ``"read_uncommitted"`` in any case. ``window``, ``borrow`` and
        ``tally`` are those of :class:`~kafka_remote_client.fetch.partition_read.PartitionRead`: fixed sizes of requests, blocks
        that live until the next one is taken, and blocks that count records and hold none.

        The reader's ``blocks()`` give the records and at last a ReadEnd, whose reason is "end", "undecided" where committed
        records end, "transactions-unknown" where the outcome of a transaction is unknown, or why the rest cannot be read.

        Raises ConfigurationError for another isolation level, for bounds that are no offsets or in the wrong order, and when
        the store has nothing to read of the partition in these bounds.
        """
        level = arguments.isolation_level(isolation_level)
        start_offset, end_offset = arguments.bounds(start_offset, end_offset)
        bounds = self.bounds(topic, partition)
        start = bounds.log_start if start_offset is None else max(start_offset, bounds.log_start)
        end = bounds.high_watermark if end_offset is None else min(end_offset, bounds.high_watermark)
        if bounds.log_start < 0:
            raise ConfigurationError(f"the store has no segment of {topic}-{partition}")
        if start >= end:
            held = f"it has offsets {bounds.log_start} to {bounds.latest_tiered}"
            raise ConfigurationError(f"the store has none of these offsets of {topic}-{partition}; {held}")
        return self._engine.reader(
            ReadRequest(
                topic, partition, start, end_offset=end, isolation_level=level, window=window, borrow=borrow, tally=tally
            )
        )

    def close(self) -> None:
        """Stops all readers. May be called twice."""
        self._engine.close()


def open_tier(
    store_url: str,
    *,
    layout: str = default_of("remote.storage.store.layout"),
    key_prefix: str = "",
    encryption_keys: Mapping[str, str] | None = None,
    store_options: Mapping[str, object] | None = None,
    topic: str | None = None,
    topic_id: UUID | None = None,
    config: RemoteFetchConfig | None = None,
) -> TierReader:
    """Opens the tier in a store: ``open_tier("s3://bucket/prefix", layout="aiven")``. Nothing is read yet.

    ``encryption_keys``: files of private keys by key id. ``store_options``: the fetcher's settings without their prefix
    (``{"s3.region": "eu-west-1"}``). ``topic`` bounds listings to one name, ``topic_id`` picks one of several of a name.

    Listings and look-ups have a circuit breaker of their own, with the ``fetch.remote.breaker.*`` values of ``config``.

    Raises ConfigurationError for a store or layout that does not exist, and MissingExtraError for what is not installed.
    """
    object_layout = layout_named(layout, LayoutOptions(key_prefix, encryption_keys or {}))
    store = load_store(store_url, store_options)
    check_store_options(store_options, store)
    used = config or RemoteFetchConfig(enabled=True)
    guarded = guarded_store(store, SystemClock(), failures=used.breaker_failures, reset_seconds=used.breaker_reset_ms / 1000)
    return TierReader(store, ListingLocationSource(guarded, object_layout, topic=topic, topic_id=topic_id), used)
