"""The small objects of segments, parsed and kept: indexes, checkpoints, snapshots, and single batch headers.

Segments never change once they are copied, so nothing here goes stale; what was used last stays, up to a bound in bytes. Only
finished segments may be asked for: of a half-copied one a missing transaction index would be remembered as empty.

References: Kafka's RemoteIndexCache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kafka_remote_client.metrics import CacheStatistics
from kafka_remote_client.model import AbortedTransaction, RemoteLogSegmentMetadata
from kafka_remote_client.plugin import RemoteObjectStore, VersionedObjectStore
from kafka_remote_client.remote_log.layout import ObjectKind, ObjectLayout
from kafka_remote_client.remote_log.leader_epoch_checkpoint import parse_leader_epoch_checkpoint
from kafka_remote_client.remote_log.lineage import LeaderEpochLineage
from kafka_remote_client.remote_log.loading_cache import LoadingCache
from kafka_remote_client.remote_log.offset_index import OffsetIndex
from kafka_remote_client.remote_log.producer_snapshot import open_transactions
from kafka_remote_client.remote_log.segment_log import BatchFront, SegmentLog
from kafka_remote_client.remote_log.time_index import TimeIndex
from kafka_remote_client.remote_log.transaction_index import TransactionIndex

__all__ = ["DEFAULT_MAX_BYTES", "RemoteIndexCache"]

DEFAULT_MAX_BYTES = 64 * 1024 * 1024
_ITEM_SIZE = 64

_T = TypeVar("_T")


class RemoteIndexCache:
    """Thread safe. What several threads ask for at once is read once; a failure reaches all of them and is not remembered."""

    def __init__(self, store: RemoteObjectStore, layout: ObjectLayout, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._store = store
        self._layout = layout
        self._logs = layout.original_logs(store)
        self._entries: LoadingCache[object] = LoadingCache(max_bytes)

    @property
    def nbytes(self) -> int:
        """An estimate of the bytes held."""
        return self._entries.nbytes

    def statistics(self) -> CacheStatistics:
        """What was kept and what had to be read."""
        return self._entries.statistics()

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> OffsetIndex:
        """Raises ObjectNotFoundError, CorruptIndexError, or what the store raises; so do all methods below."""

        def load(data: bytes) -> tuple[OffsetIndex, int]:
            index = OffsetIndex(data, metadata.start_offset)
            index.check_against(metadata.end_offset, metadata.segment_size_in_bytes)
            return index, index.nbytes

        return self._object(metadata, ObjectKind.OFFSET_INDEX, load)

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> TimeIndex:
        def load(data: bytes) -> tuple[TimeIndex, int]:
            index = TimeIndex(data, metadata.start_offset)
            return index, index.nbytes

        return self._object(metadata, ObjectKind.TIME_INDEX, load)

    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> TransactionIndex:
        """Empty where the metadata says so, and where there is none: Kafka writes none for an empty index."""
        if metadata.txn_index_empty:
            return TransactionIndex()

        def load(data: bytes) -> tuple[TransactionIndex, int]:
            index = TransactionIndex.parse(data, metadata.start_offset, metadata.end_offset)
            return index, len(index) * 4 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.TRANSACTION_INDEX, load)

    def leader_epochs(self, metadata: RemoteLogSegmentMetadata) -> LeaderEpochLineage:
        """The uploader's lineage up to the segment's end."""

        def load(data: bytes) -> tuple[LeaderEpochLineage, int]:
            lineage = parse_leader_epoch_checkpoint(data)
            return lineage, len(lineage.entries) * 2 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.LEADER_EPOCH, load)

    def open_transactions(self, metadata: RemoteLogSegmentMetadata) -> tuple[AbortedTransaction, ...]:
        """The transactions that are open at the segment's end + 1."""

        def load(data: bytes) -> tuple[tuple[AbortedTransaction, ...], int]:
            found = open_transactions(data)
            return found, len(found) * 2 * _ITEM_SIZE

        return self._object(metadata, ObjectKind.PRODUCER_SNAPSHOT, load)

    def batch_front(self, metadata: RemoteLogSegmentMetadata, position: int) -> BatchFront:
        """The batch that begins at ``position``. Raises CorruptIndexError when none can."""
        log = self.log(metadata)
        return self._kept((log.key, position), lambda: (log.front(position), 4 * _ITEM_SIZE))

    def position_of(self, metadata: RemoteLogSegmentMetadata, offset: int, position: int) -> int:
        """Where the first batch begins that ends at or after ``offset``; the segment's size when there is none.

        Batches are walked from ``position`` on, where one begins.
        """
        log = self.log(metadata)

        def find() -> tuple[int, int]:
            found = (front.position for front in log.walk(position) if front.last_offset >= offset)
            return next(found, log.size), _ITEM_SIZE

        return self._kept((log.key, position, offset), find)

    def etag(self, metadata: RemoteLogSegmentMetadata) -> str | None:
        """Which version of the segment's log there was when it was first asked for; None where the store does not tell."""
        store = self._store
        if not isinstance(store, VersionedObjectStore):
            return None
        key = self._layout.object_key(metadata, ObjectKind.LOG)
        # In a tuple, because what is kept cannot be None.
        return self._kept((key, "etag"), lambda: ((store.etag(key),), 2 * _ITEM_SIZE))[0]

    def log(self, metadata: RemoteLogSegmentMetadata) -> SegmentLog:
        """The segment's log as Kafka wrote it; nothing of it is kept here."""
        return SegmentLog.of(self._logs, self._layout.object_key(metadata, ObjectKind.LOG), metadata)

    def _object(self, metadata: RemoteLogSegmentMetadata, kind: ObjectKind, load: Callable[[bytes], tuple[_T, int]]) -> _T:
        # Several kinds may lie in one object.
        key = (self._layout.object_key(metadata, kind), kind)
        return self._kept(key, lambda: load(self._layout.read_index(self._store, metadata, kind)))

    def _kept(self, key: object, load: Callable[[], tuple[_T, int]]) -> _T:
        return self._entries.get(key, load)  # type: ignore[return-value] # a key names its kind, so the value has its type
