"""Reads the small objects that a location needs in parallel, before their values are used.

Theory of operation. A look-up of an offset does one step after the other, and each step may need a read. Before a step, a pool
begins the reads that the next steps will need; the steps then find them done or running. No step depends on the pool: a read
that the pool has not begun, or that failed there, is done by the step itself, with the same outcome as without a pool.

Cached values are not read, so a look-up that needs no read does not use the pool. In :func:`kept_only` nothing is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import suppress
from itertools import islice

from kafka_remote_client.model import RemoteLogSegmentMetadata
from kafka_remote_client.remote_log.index_cache import RemoteIndexCache
from kafka_remote_client.remote_log.kept_only import is_kept_only
from kafka_remote_client.remote_log.layout import ObjectKind
from kafka_remote_client.remote_log.tiered_log import TieredSegment
from kafka_remote_client.threads import DaemonExecutor

__all__ = ["STORE_READ_THREADS", "Prefetch", "store_read_executor"]

STORE_READ_THREADS = 128
"""The most threads that one process uses to read small objects of a tier. A thread is started when all others are busy."""

_MAX_GROUP = 32
_TRANSACTIONS = (ObjectKind.TRANSACTION_INDEX, ObjectKind.PRODUCER_SNAPSHOT)


def store_read_executor(name: str = "kafka-remote-index") -> DaemonExecutor:
    """The pool for a :class:`Prefetch`, whose threads have names that begin with ``name``. Its owner shuts it down."""
    return DaemonExecutor(STORE_READ_THREADS, name)


class Prefetch:
    """Begins reads of ``indexes`` on the threads of ``executor``; without one it does nothing. Thread safe, never raises."""

    def __init__(self, indexes: RemoteIndexCache, executor: Executor | None = None) -> None:
        self._indexes = indexes
        self._executor = executor

    @property
    def is_on(self) -> bool:
        """Whether reads may begin: there is an executor, and the caller is not in kept_only."""
        return self._executor is not None and not is_kept_only()

    def leader_epochs(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Reads the leader epoch checkpoint of a segment."""
        self._begin(self._indexes.offer_objects(metadata, [ObjectKind.LEADER_EPOCH]))

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Reads the offset index of a segment."""
        self._begin(self._indexes.offer_objects(metadata, [ObjectKind.OFFSET_INDEX]))

    def segment(self, metadata: RemoteLogSegmentMetadata, *, transactions: bool) -> None:
        """Reads the offset index and the log's etag; with ``transactions`` also the objects that describe transactions."""
        kinds = (ObjectKind.OFFSET_INDEX, *(_TRANSACTIONS if transactions else ()))
        self._begin(self._indexes.offer_objects(metadata, kinds))
        self._begin(self._indexes.offer_etag(metadata))

    def batch_headers(self, metadata: RemoteLogSegmentMetadata, positions: Iterable[int]) -> bool:
        """Reads the headers of the batches that begin at ``positions``; False = all are cached or being read."""
        return self._begin(begin for position in positions for begin in self._indexes.offer_batch_header(metadata, position))

    def transactions(self, segments: Iterable[TieredSegment]) -> None:
        """Reads the objects that describe transactions of segments."""
        for segment in segments:
            self._begin(self._indexes.offer_objects(segment.metadata, _TRANSACTIONS if segment.is_whole else _TRANSACTIONS[:1]))

    def of_transactions(self, segments: Iterator[TieredSegment]) -> Iterator[TieredSegment]:
        """Yields the same segments in groups of 1, 2, 4, …; the transactions of a group are read before its first segment."""
        size = 1 if self.is_on else 0
        while group := tuple(islice(segments, size)):
            self.transactions(group)
            yield from group
            size = min(2 * size, _MAX_GROUP)
        yield from segments

    def _begin(self, offers: Iterator[Callable[[], None]]) -> bool:
        begun = False
        if self._executor is not None and self.is_on:
            # The step that needs the value raises the same error, or reads by itself if the pool is shut down.
            with suppress(Exception):
                for begin in offers:
                    self._executor.submit(begin)
                    begun = True
        return begun
